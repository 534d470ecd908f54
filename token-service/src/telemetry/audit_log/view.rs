//! Entries of the audit log as lines for people, and as JSON.

use std::borrow::Cow;
use std::fmt;

use crate::telemetry::visible::visible;
use domain::{AuditAction, AuditEvent, AuditRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The schema of [`AuditAction`] in the OpenAPI document.
pub(crate) fn audit_actions() -> utoipa::openapi::schema::Object {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::String)
        .enum_values(Some(AuditAction::ALL.iter().map(|action| action.name())))
        .build()
}

/// An entry of the audit log.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditView<'a> {
    /// Position in the log. Lines on standard output have none.
    #[schema(value_type = u64)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Time, RFC 3339.
    pub at: String,
    /// The action.
    #[schema(schema_with = audit_actions)]
    pub action: AuditAction,
    /// Who did it: a username, `client:` and a Client ID, `administrator:` and the name of an admin token
    /// (only `administrator` if the token has none), `file:` and the path of a registrations file that a start
    /// applied, or `configuration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Cow<'a, str>>,
    /// The client that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<Cow<'a, str>>,
    /// The user that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<Cow<'a, str>>,
    /// The authorization that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<Cow<'a, str>>,
    /// More, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// The client's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Cow<'a, str>>,
    /// The request's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Cow<'a, str>>,
}

/// One line for people. Text that others chose, such as a claimed Client ID, is escaped so that it cannot control a
/// terminal.
impl fmt::Display for AuditView<'_> {
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

impl<'a> From<&'a AuditEvent> for AuditView<'a> {
    fn from(event: &'a AuditEvent) -> Self {
        let text = |text: &'a Option<String>| text.as_deref().map(Cow::Borrowed);
        Self {
            sequence: None,
            at: event.at.rfc3339(),
            action: event.action,
            actor: text(&event.actor),
            client_id: text(&event.client_id),
            username: text(&event.username),
            grant_id: text(&event.grant_id),
            detail: text(&event.detail),
            address: text(&event.address),
            request_id: text(&event.request_id),
        }
    }
}

impl<'a> From<&'a AuditRecord> for AuditView<'a> {
    fn from(record: &'a AuditRecord) -> Self {
        Self {
            sequence: Some(record.sequence),
            ..Self::from(&record.event)
        }
    }
}
