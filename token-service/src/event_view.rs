//! Entries of the audit log as lines for people, and as JSON.

use std::fmt;

use crate::visible::visible;
use domain::{AuditAction, AuditEvent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The schema of [`AuditAction`] in the OpenAPI document.
pub(crate) fn audit_actions() -> utoipa::openapi::schema::Object {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::String)
        .enum_values(Some(AuditAction::ALL.iter().map(|action| action.name())))
        .build()
}

/// An event of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Time, RFC 3339.
    pub at: String,
    /// The action.
    #[schema(schema_with = audit_actions)]
    pub action: AuditAction,
    /// Who did it: a username, `client:` and a Client ID, `administrator:` and the name of an admin token
    /// (`administrator` alone if the token has none), `file:` and the path of a registrations file that a start
    /// applied, or `configuration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The client that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The user that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The authorization that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// More, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The client's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The request's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One line for people. Text that others chose, such as a claimed Client ID, is escaped so that it cannot control a
/// terminal.
impl fmt::Display for EventView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.at, self.action.name())?;
        let named = [
            ("by", &self.actor),
            ("client", &self.client_id),
            ("user", &self.username),
            ("grant", &self.grant_id),
            ("from", &self.address),
            ("request", &self.request_id),
            ("detail", &self.detail),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                write!(formatter, " {name}={}", visible(value))?;
            }
        }
        Ok(())
    }
}

impl From<AuditEvent> for EventView {
    fn from(event: AuditEvent) -> Self {
        Self {
            at: event.at.rfc3339(),
            action: event.action,
            actor: event.actor,
            client_id: event.client_id,
            username: event.username,
            grant_id: event.grant_id,
            detail: event.detail,
            address: event.address,
            request_id: event.request_id,
        }
    }
}
