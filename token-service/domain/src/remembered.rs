//! What files said of a client, user or legacy instance when they were last applied (D-27).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// What kind of object a file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// An entry of `clients`.
    Client,
    /// An entry of `users`.
    User,
    /// An entry of the configuration's `legacy_instances`.
    LegacyInstance,
}

impl ObjectKind {
    /// The name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::User => "user",
            Self::LegacyInstance => "legacy instance",
        }
    }
}

/// A client, user or legacy instance by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// The Client ID, username or hostname.
    pub name: String,
}

impl ObjectName {
    /// The object of this kind with this name.
    #[must_use]
    pub fn new(kind: ObjectKind, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { kind, name }
    }

    /// The key of its row in a store; keys of different objects differ.
    #[must_use]
    pub fn key(&self) -> String {
        let prefix = match self.kind {
            ObjectKind::Client => 'c',
            ObjectKind::User => 'u',
            ObjectKind::LegacyInstance => 'l',
        };
        format!("{prefix}:{}", self.name)
    }

    /// The object whose row has this key.
    #[must_use]
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

/// One value of a field; a field that is not a list has one at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// What identifies the value within its list, such as a certificate's alias. Empty for a field that is no list.
    pub key: String,
    /// The value as text. A client secret is its SHA-256 digest; a password or TOTP secret is a tag that nobody can
    /// make or guess at without the encryption key.
    pub value: String,
}

/// What a file said of an object: every field by its name.
pub type Said = BTreeMap<String, Vec<Element>>;

/// The stored form that a password or TOTP secret of a file got. It is salted or sealed, so the file's value does not
/// tell whether the stored one still is the file's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The tag of the file's value.
    pub value: String,
    /// The SHA-256 digest of the stored form.
    pub digest: Digest,
}

/// What is remembered of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The object.
    pub object: ObjectName,
    /// What was applied last, at a start or by `apply`.
    pub last: Said,
    /// What the service's own file said at the last start; `None` if it did not list the object. A start compares with
    /// it too: a file that nobody touched does not undo what `apply` brought from another one.
    pub start: Option<Said>,
    /// The stored forms of passwords and TOTP secrets, by field.
    #[serde(default)]
    pub made: BTreeMap<String, Made>,
}

impl Remembered {
    /// Notes that a stored form is sealed anew, and says the same; `false` if no file made it.
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
