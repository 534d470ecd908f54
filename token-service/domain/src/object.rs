//! The names of clients, users and legacy instances.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

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

    /// The command of the objects: `token-service COMMAND`.
    pub fn command(self) -> String {
        self.name().replace(' ', "-")
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
