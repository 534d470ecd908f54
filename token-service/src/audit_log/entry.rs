//! The recorded parts of an event.

use std::path::Path;
use std::time::Duration;

use domain::clock::Timestamp;
use domain::{AuditAction, AuditEvent};

/// Network origin of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    pub address: Option<String>,
    pub request_id: Option<String>,
}

/// An event for the audit log, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Entry {
    action: AuditAction,
    actor: Option<String>,
    client_id: Option<String>,
    username: Option<String>,
    grant_id: Option<String>,
    detail: Option<String>,
}

impl Entry {
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

    /// The entry in the form that the store keeps for `keep_for`.
    pub fn event(self, origin: &Origin, now: Timestamp, keep_for: Duration) -> AuditEvent {
        AuditEvent {
            at: now,
            action: self.action,
            actor: self.actor,
            client_id: self.client_id,
            username: self.username,
            grant_id: self.grant_id,
            detail: self.detail,
            address: origin.address.clone(),
            request_id: origin.request_id.clone(),
            expires_at: now + keep_for,
        }
    }

    /// Sets a client as the actor.
    pub fn by_client(self, client_id: Option<&str>) -> Self {
        Self {
            actor: client_id.map(|client_id| format!("client:{client_id}")),
            client_id: client_id.map(str::to_owned),
            ..self
        }
    }

    /// Sets a user as the actor.
    pub fn by_user(self, username: &str) -> Self {
        Self {
            actor: Some(username.to_owned()),
            username: Some(username.to_owned()),
            ..self
        }
    }

    /// Sets an administrator as the actor: the holder of the admin token with this name.
    pub fn by_administrator(self, name: Option<&str>) -> Self {
        Self {
            actor: Some(name.map_or_else(
                || "administrator".to_owned(),
                |name| format!("administrator:{name}"),
            )),
            ..self
        }
    }

    /// Sets a registrations file, applied at a start, as the actor.
    pub fn by_file(self, path: &Path) -> Self {
        Self {
            actor: Some(format!("file:{}", path.display())),
            ..self
        }
    }

    /// Sets the configuration, applied at a start, as the actor.
    pub fn by_configuration(self) -> Self {
        Self {
            actor: Some("configuration".to_owned()),
            ..self
        }
    }

    /// Sets the affected client.
    pub fn client(self, client_id: impl Into<String>) -> Self {
        Self {
            client_id: Some(client_id.into()),
            ..self
        }
    }

    /// Sets the affected user.
    pub fn user(self, username: impl Into<String>) -> Self {
        Self {
            username: Some(username.into()),
            ..self
        }
    }

    /// Sets the affected grant.
    pub fn grant(self, grant_id: impl ToString) -> Self {
        Self {
            grant_id: Some(grant_id.to_string()),
            ..self
        }
    }

    /// Sets the detail text.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }
}
