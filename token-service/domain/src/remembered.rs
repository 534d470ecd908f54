//! What files contained for a client, user or legacy instance when they were last applied (D-27).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::digest::Digest;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum ObjectKind {
    /// An entry of `clients`.
    Client,
    /// An entry of `users`.
    User,
    /// An entry of the configuration's `legacy_instances`.
    #[strum(serialize = "legacy instance")]
    LegacyInstance,
}

impl ObjectKind {
    /// The name for messages.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// The kind and name of a client, user or legacy instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName {
    pub kind: ObjectKind,
    /// The Client ID, username or hostname.
    pub name: String,
}

impl ObjectName {
    pub fn new(kind: ObjectKind, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { kind, name }
    }

    /// The key of the object's row in a store. Keys of different objects differ.
    pub fn key(&self) -> String {
        let prefix = match self.kind {
            ObjectKind::Client => 'c',
            ObjectKind::User => 'u',
            ObjectKind::LegacyInstance => 'l',
        };
        format!("{prefix}:{}", self.name)
    }

    /// Parses a row key.
    pub fn from_key(key: &str) -> Option<Self> {
        let (prefix, name) = key.split_once(':')?;
        let kind = match prefix {
            "c" => ObjectKind::Client,
            "u" => ObjectKind::User,
            "l" => ObjectKind::LegacyInstance,
            _ => return None,
        };
        Some(Self::new(kind, name))
    }
}

/// One value of a field. Only lists have more than one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// Identifies the value within its list, such as the alias of a certificate. Empty if the field is not a list.
    pub key: String,
    /// The value as text. A client secret is stored as its SHA-256 digest. A password or TOTP secret is stored as a
    /// tag, which nobody can compute or use for guessing without the encryption key.
    pub value: String,
}

/// The content of a file for an object: field names and values.
pub type Said = BTreeMap<String, Vec<Element>>;

/// The stored form of a password or TOTP secret from a file. The stored form is salted or sealed, so comparing it with
/// the file's value is not enough to see whether it still comes from the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The tag of the value in the file.
    pub value: String,
    /// The SHA-256 digest of the stored form.
    pub digest: Digest,
}

/// What the store remembers of the files for an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    pub object: ObjectName,
    /// The content that was applied last, by a start or by `apply`.
    pub last: Said,
    /// The content of the service's own file at the last start; `None` if the file did not list the object. A start
    /// compares the file with this content too, so that an unchanged file does not undo an `apply` of another file.
    pub start: Option<Said>,
    /// The stored forms of passwords and TOTP secrets, by field.
    pub made: BTreeMap<String, Made>,
}

impl Remembered {
    /// Records that a stored form was sealed with another key. Returns `false` if no file created the stored form.
    pub fn reseal(&mut self, before: &[u8], after: &[u8]) -> bool {
        let before = Digest::of(before);
        let made = self.made.values_mut().find(|made| made.digest == before);
        if let Some(made) = made {
            made.digest = Digest::of(after);
            return true;
        }
        false
    }
}
