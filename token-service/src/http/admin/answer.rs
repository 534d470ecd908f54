//! Responses of the administration.

use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::line;
use crate::admin::AdminError;
use store::StoreError;

/// An error, in the shape of protocol.md §2.4, with every problem of the body.
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

/// A response with a body, which may contain a secret that is shown once.
pub(super) fn json(status: StatusCode, body: impl Serialize) -> HttpResponse {
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
        if status.is_server_error() {
            tracing::error!(error = %self, "an administrative operation failed");
        }
        let problems = match self {
            Self::Invalid(document) => document.problems.iter().map(ToString::to_string).collect(),
            Self::DoesNotFit(lines) => lines.clone(),
            _ => Vec::new(),
        };
        let body = ErrorBody {
            error: code.to_owned(),
            error_description: self.to_string(),
            problems,
        };
        json(status, body)
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
        AdminError::Conflict(_) | AdminError::Overtaken => (StatusCode::CONFLICT, "conflict"),
        AdminError::Store(StoreError::Overloaded) => {
            (StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable")
        }
        AdminError::Store(_)
        | AdminError::Keys(_)
        | AdminError::Protection(_)
        | AdminError::Random(_)
        | AdminError::Backup(_)
        | AdminError::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "server_error"),
    }
}
