//! The recorded parts of an event.

use std::path::Path;
use std::time::Duration;

use crate::audit_event::{AuditAction, AuditEvent};
use crate::clock::Timestamp;

/// Network origin of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    pub address: Option<String>,
    pub request_id: Option<String>,
}

/// An event for the audit log, without secrets; its time and origin are not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Entry(AuditEvent);

impl Entry {
    pub const fn new(action: AuditAction) -> Self {
        Self(AuditEvent {
            at: Timestamp::from_seconds(0),
            action,
            actor: None,
            client_id: None,
            username: None,
            grant_id: None,
            detail: None,
            address: None,
            request_id: None,
            expires_at: Timestamp::from_seconds(0),
        })
    }

    /// The entry in the form that the store keeps for `keep_for`.
    pub fn event(self, origin: &Origin, now: Timestamp, keep_for: Duration) -> AuditEvent {
        AuditEvent {
            at: now,
            address: origin.address.clone(),
            request_id: origin.request_id.clone(),
            expires_at: now + keep_for,
            ..self.0
        }
    }

    fn by(mut self, actor: String) -> Self {
        self.0.actor = Some(actor);
        self
    }

    /// Sets a client as the actor.
    pub fn by_client(self, client_id: Option<&str>) -> Self {
        match client_id {
            Some(client_id) => self.by(format!("client:{client_id}")).client(client_id),
            None => self,
        }
    }

    /// Sets a user as the actor.
    pub fn by_user(self, username: &str) -> Self {
        self.by(username.to_owned()).user(username)
    }

    /// Sets an administrator as the actor: the holder of the admin token with this name.
    pub fn by_administrator(self, name: Option<&str>) -> Self {
        self.by(name.map_or_else(
            || "administrator".to_owned(),
            |name| format!("administrator:{name}"),
        ))
    }

    /// Sets a registrations file, applied at a start, as the actor.
    pub fn by_file(self, path: &Path) -> Self {
        self.by(format!("file:{}", path.display()))
    }

    /// Sets the configuration, applied at a start, as the actor.
    pub fn by_configuration(self) -> Self {
        self.by("configuration".to_owned())
    }

    /// Sets a command as the actor that opens the store itself, with the user and the host that run it.
    pub fn by_command(self, user: &str, host: &str) -> Self {
        self.by(format!("command:{user}@{host}"))
    }

    /// Sets the affected client.
    pub fn client(mut self, client_id: impl Into<String>) -> Self {
        self.0.client_id = Some(client_id.into());
        self
    }

    /// Sets the affected user.
    pub fn user(mut self, username: impl Into<String>) -> Self {
        self.0.username = Some(username.into());
        self
    }

    /// Sets the affected grant.
    pub fn grant(mut self, grant_id: impl ToString) -> Self {
        self.0.grant_id = Some(grant_id.to_string());
        self
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }
}
