//! Responses of the administration.

use std::fmt::Display;

use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::line;
use document::InvalidDocument;
use domain::random::RandomError;
use protocol::token::KeyRingError;
use registry::change::ChangeError;
use secrets::protection::ProtectionError;
use store::{BackupError, StoreError};

pub(super) type Answer = Result<HttpResponse, AdminError>;

/// The outcome of what follows a change that is made; the default if that failed, with `failed` in the log. A failure must not be
/// the answer, which would deny the change and lose what it generated. The upkeep loads keys and registrations again.
pub(super) fn after_change<T: Default, E: Display>(failed: &str, outcome: Result<T, E>) -> T {
    outcome.unwrap_or_else(|error| {
        tracing::warn!(%error, "a change was made, but {failed}");
        T::default()
    })
}

/// Reason why an operation failed. The operation changed nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    #[error(transparent)]
    Invalid(#[from] InvalidDocument),
    #[error("{0}")]
    Malformed(String),
    #[error("the body is larger than 64 MiB")]
    TooLarge,
    #[error("the body did not arrive within 60 seconds")]
    TooSlow,
    /// Legacy access tokens would not have their fixed length (protocol.md §2.5), a client could not authenticate, or an import
    /// would take something from a registered person (D-52). A line for each.
    #[error("{}", .0.join("\n"))]
    DoesNotFit(Vec<String>),
    /// Other users have identities that users of the change are to get. A line for each.
    #[error("{}", .0.join("\n"))]
    Taken(Vec<String>),
    #[error("there is no {what} {name}")]
    NotFound { what: &'static str, name: String },
    /// The object already exists, or its state does not allow the operation.
    #[error("{0}")]
    Conflict(String),
    #[error("{}", ChangeError::Overtaken)]
    Overtaken,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Keys(#[from] KeyRingError),
    #[error(transparent)]
    Protection(#[from] ProtectionError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The mail server did not take the message with a link for this user. The link is made, and the next one replaces it.
    #[error(
        "the mail server did not take the message for {0}, and the log has the reason: try again, or make a link without mail"
    )]
    NotSent(String),
    /// A task of the process did not complete.
    #[error("{0}")]
    Internal(String),
}

impl AdminError {
    pub(super) fn not_found(what: &'static str, name: impl Into<String>) -> Self {
        Self::NotFound {
            what,
            name: name.into(),
        }
    }
}

impl From<ChangeError> for AdminError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Overtaken => Self::Overtaken,
            ChangeError::Store(error) => error.into(),
            ChangeError::Protection(error) => error.into(),
            ChangeError::Task(reason) => Self::Internal(reason),
        }
    }
}

/// An error, with every problem of the body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    /// `invalid_request`, `not_found`, `conflict`, `temporarily_unavailable` or `server_error`.
    error: String,
    /// What is wrong, for people.
    error_description: String,
    /// Every problem of an invalid body, with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

pub(super) fn ok(body: impl Serialize) -> Answer {
    Ok(json(StatusCode::OK, body))
}

pub(super) fn made(body: impl Serialize) -> Answer {
    Ok(json(StatusCode::CREATED, body))
}

/// 204.
pub(super) fn done() -> Answer {
    Ok(HttpResponse::NoContent().finish())
}

/// A response with a body, which may contain a secret that is shown once.
fn json(status: StatusCode, body: impl Serialize) -> HttpResponse {
    let mut response = HttpResponse::build(status);
    line::json(
        response.insert_header((header::CACHE_CONTROL, "no-store")),
        &body,
    )
}

impl ResponseError for AdminError {
    fn status_code(&self) -> StatusCode {
        kind(self).0
    }

    fn error_response(&self) -> HttpResponse {
        let (status, code) = kind(self);
        // The store logs its failures once, and not for each request.
        if matches!(self, Self::Store(_)) {
            tracing::debug!(error = %self, "try again");
        } else if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
            tracing::error!(error = %self, "an administrative operation failed");
        }
        let problems = match self {
            Self::Invalid(document) => document.problems.iter().map(ToString::to_string).collect(),
            Self::DoesNotFit(lines) | Self::Taken(lines) => lines.clone(),
            _ => Vec::new(),
        };
        let body = ErrorBody {
            error: code.to_owned(),
            error_description: self.to_string(),
            problems,
        };
        let mut response = json(status, body);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let again = header::HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, again);
        }
        response
    }
}

fn kind(error: &AdminError) -> (StatusCode, &'static str) {
    match error {
        AdminError::Invalid(_) | AdminError::Malformed(_) | AdminError::DoesNotFit(_) => {
            (StatusCode::BAD_REQUEST, "invalid_request")
        }
        AdminError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "invalid_request"),
        AdminError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request"),
        AdminError::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
        AdminError::Conflict(_) | AdminError::Taken(_) | AdminError::Overtaken => {
            (StatusCode::CONFLICT, "conflict")
        }
        AdminError::Store(_)
        | AdminError::Keys(KeyRingError::Store(_))
        | AdminError::NotSent(_) => (StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable"),
        AdminError::Backup(BackupError::Unsupported(_)) => {
            (StatusCode::NOT_IMPLEMENTED, "invalid_request")
        }
        AdminError::Keys(_)
        | AdminError::Protection(_)
        | AdminError::Random(_)
        | AdminError::Backup(_)
        | AdminError::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "server_error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::postgres::NO_BACKUP;

    #[test]
    fn a_backup_of_postgresql_names_its_tool() {
        let error = AdminError::from(NO_BACKUP);
        assert_eq!(error.status_code(), StatusCode::NOT_IMPLEMENTED);
        assert_eq!(
            error.to_string(),
            "this store is backed up with its own tools: pg_dump"
        );
    }
}
