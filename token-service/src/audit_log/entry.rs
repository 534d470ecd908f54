//! What is recorded of an event.

use std::path::Path;

use domain::AuditAction;

/// Who asks, as far as the network tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The client's address.
    pub address: Option<String>,
    /// The request's id.
    pub request_id: Option<String>,
}

/// The recorded parts of an event. None is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Entry {
    pub(super) action: AuditAction,
    pub(super) actor: Option<String>,
    pub(super) client_id: Option<String>,
    pub(super) username: Option<String>,
    pub(super) grant_id: Option<String>,
    pub(super) detail: Option<String>,
}

impl Entry {
    /// Something happened.
    pub const fn new(action: AuditAction) -> Self {
        Self {
            action,
            actor: None,
            client_id: None,
            username: None,
            grant_id: None,
            detail: None,
        }
    }

    /// The action.
    pub const fn action(&self) -> AuditAction {
        self.action
    }

    /// A client did it.
    pub fn by_client(self, client_id: Option<&str>) -> Self {
        Self {
            actor: client_id.map(|client_id| format!("client:{client_id}")),
            client_id: client_id.map(str::to_owned),
            ..self
        }
    }

    /// A user did it.
    pub fn by_user(self, username: &str) -> Self {
        Self {
            actor: Some(username.to_owned()),
            username: Some(username.to_owned()),
            ..self
        }
    }

    /// An administrator did it: the holder of the admin token with this name.
    pub fn by_administrator(self, name: Option<&str>) -> Self {
        Self {
            actor: Some(name.map_or_else(
                || "administrator".to_owned(),
                |name| format!("administrator:{name}"),
            )),
            ..self
        }
    }

    /// A registrations file did it, at a start.
    pub fn by_file(self, path: &Path) -> Self {
        Self {
            actor: Some(format!("file:{}", path.display())),
            ..self
        }
    }

    /// The configuration did it, at a start.
    pub fn by_configuration(self) -> Self {
        Self {
            actor: Some("configuration".to_owned()),
            ..self
        }
    }

    /// It concerns this client.
    pub fn client(self, client_id: impl Into<String>) -> Self {
        Self {
            client_id: Some(client_id.into()),
            ..self
        }
    }

    /// It concerns this user.
    pub fn user(self, username: impl Into<String>) -> Self {
        Self {
            username: Some(username.into()),
            ..self
        }
    }

    /// It concerns this grant.
    pub fn grant(self, grant_id: impl ToString) -> Self {
        Self {
            grant_id: Some(grant_id.to_string()),
            ..self
        }
    }

    /// More in words.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }
}
