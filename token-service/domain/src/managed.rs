//! Who defines a client, user or legacy instance: a file, or commands (D-27).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The file that defines an object. Without it, commands define the object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Managed {
    pub file: String,
    /// The line of the entry when it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The file disables the object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disables: bool,
    /// A command disabled the object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// Keyed hashes of the secrets in the file, by field. A file replaces a secret only when its hash changes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
}

impl Managed {
    /// True if neither the file nor a command disabled the object.
    pub const fn enables(&self) -> bool {
        !self.disables && !self.suspended
    }
}

/// The place of the entry.
impl fmt::Display for Managed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        match self.line {
            Some(line) => write!(formatter, ":{line}"),
            None => Ok(()),
        }
    }
}
