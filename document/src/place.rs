//! The place where a value was written.

use std::fmt;
#[cfg(feature = "toml")]
use std::path::{Path, PathBuf};
#[cfg(feature = "toml")]
use std::sync::Arc;

use crate::key_path;

/// Name of a JSON document as a whole.
pub(crate) const BODY: &str = "body";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A file. The line counts from 1, and is absent for the file as a whole.
    #[cfg(feature = "toml")]
    File {
        /// The file name as given.
        path: Arc<Path>,
        line: Option<usize>,
    },
    /// An environment variable.
    #[cfg(feature = "toml")]
    Variable(String),
    /// A JSON document, with the path of keys and indices, such as `clients[0].name`; empty for the whole
    /// document.
    Json(String),
    /// A default, which was written nowhere.
    #[cfg(feature = "toml")]
    Default,
}

#[cfg(feature = "toml")]
impl Place {
    pub fn file(path: &Path) -> Self {
        Self::File {
            path: path.into(),
            line: None,
        }
    }

    /// The line in a file.
    pub const fn line(&self) -> Option<usize> {
        match self {
            Self::File { line, .. } => *line,
            Self::Variable(_) | Self::Json(_) | Self::Default => None,
        }
    }

    /// Resolves a path that was written at this place. Relative paths start at the file's folder, or at the
    /// working folder if they come from an environment variable.
    pub fn resolve(&self, path: &str) -> PathBuf {
        let folder = match self {
            Self::File { path, .. } => path.parent(),
            Self::Variable(_) | Self::Json(_) | Self::Default => None,
        };
        folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
    }
}

impl Place {
    /// True if the place of a value contains the key `key`, so that a message need not name the key again.
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

    /// True for JSON documents. There, the place of a value always ends with its key.
    pub(crate) const fn is_json(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// True for an environment variable, whose text can stand for a value of any type.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub place: Place,
}

#[cfg(feature = "toml")]
impl<T> Located<T> {
    pub const fn default_value(value: T) -> Self {
        Self {
            value,
            place: Place::Default,
        }
    }
}
