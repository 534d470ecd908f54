//! Where a value was written.

use std::fmt;
#[cfg(feature = "toml")]
use std::path::{Path, PathBuf};
#[cfg(feature = "toml")]
use std::sync::Arc;

use crate::key_path;

/// Name of a JSON document as a whole.
pub(crate) const BODY: &str = "body";

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A file; the line counts from 1 and is absent when the file as a whole is meant.
    #[cfg(feature = "toml")]
    File {
        /// The file, as it was named.
        path: Arc<Path>,
        /// The line.
        line: Option<usize>,
    },
    /// An environment variable.
    #[cfg(feature = "toml")]
    Variable(String),
    /// A JSON document; the path of keys and indices, such as `clients[0].name`, empty for the whole.
    Json(String),
    /// Nowhere: a default.
    #[cfg(feature = "toml")]
    Default,
}

#[cfg(feature = "toml")]
impl Place {
    /// The file at `path` as a whole.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self::File {
            path: path.into(),
            line: None,
        }
    }

    /// Resolves a path that was written here: relative paths start at the file's folder, or at the working folder if
    /// they come from a variable.
    #[must_use]
    pub fn resolve(&self, path: &str) -> PathBuf {
        let folder = match self {
            Self::File { path, .. } => path.parent(),
            Self::Variable(_) | Self::Json(_) | Self::Default => None,
        };
        folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
    }
}

impl Place {
    /// Whether the place of a value already says that its key is `key`, so that a message need not.
    pub(crate) fn names(&self, key: &str) -> bool {
        match self {
            #[cfg(feature = "toml")]
            Self::File { .. } => false,
            #[cfg(feature = "toml")]
            Self::Variable(name) => {
                let last = name.rsplit("__").next();
                last.is_some_and(|last| last.eq_ignore_ascii_case(key))
            }
            Self::Json(path) => key_path::last_key(path) == key,
            #[cfg(feature = "toml")]
            Self::Default => false,
        }
    }

    /// Whether the document is JSON, where the place of a value always ends with its key.
    pub(crate) const fn is_json(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// Whether this is an environment variable, whose text stands for every type of value.
    pub(crate) fn is_variable(&self) -> bool {
        #[cfg(feature = "toml")]
        return matches!(self, Self::Variable(_));
        #[cfg(not(feature = "toml"))]
        false
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "toml")]
            Self::File { path, line } => {
                path.display().fmt(formatter)?;
                line.map_or(Ok(()), |line| write!(formatter, ":{line}"))
            }
            #[cfg(feature = "toml")]
            Self::Variable(name) => formatter.write_str(name),
            Self::Json(path) if path.is_empty() => formatter.write_str(BODY),
            Self::Json(path) => formatter.write_str(path),
            #[cfg(feature = "toml")]
            Self::Default => formatter.write_str("default"),
        }
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub place: Place,
}

#[cfg(feature = "toml")]
impl<T> Located<T> {
    /// A default.
    #[must_use]
    pub const fn default_value(value: T) -> Self {
        Self {
            value,
            place: Place::Default,
        }
    }
}
