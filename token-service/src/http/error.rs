//! Error bodies (spec §2.4).

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderValue};
use actix_web::http::{ConnectionType, StatusCode};
use serde::Serialize;

use super::body::BodyError;
use crate::oauth::error::{ErrorCode, TokenError};

/// The body of every error that is not a page.
#[derive(Debug, Clone, Copy, Serialize)]
struct ErrorBody {
    error: &'static str,
    error_description: &'static str,
}

/// An error in the shape of spec §2.4, never stored by caches.
pub(super) fn json(
    status: StatusCode,
    error: &'static str,
    error_description: &'static str,
) -> HttpResponse {
    HttpResponse::build(status)
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .json(ErrorBody {
            error,
            error_description,
        })
}

/// A refusal of the token endpoint.
pub(super) fn token_error(error: &TokenError) -> HttpResponse {
    let code = error.code();
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, code.as_str(), error.description());
    let headers = response.headers_mut();
    if error.challenges_basic() {
        let challenge = HeaderValue::from_static("Basic realm=\"token\", charset=\"UTF-8\"");
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = error.retry_after() {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// A body that could not be read.
pub(super) fn unreadable_body(error: BodyError) -> HttpResponse {
    let (status, description) = match error {
        BodyError::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "The body is larger than 64 KiB",
        ),
        BodyError::TooSlow => (
            StatusCode::REQUEST_TIMEOUT,
            "The body did not arrive in time",
        ),
        BodyError::Broken => (StatusCode::BAD_REQUEST, "The body cannot be read"),
    };
    let mut response = json(status, ErrorCode::InvalidRequest.as_str(), description);
    if error == BodyError::TooSlow {
        // The rest of the body is in the way of the next request (RFC 9110 section 15.5.9).
        let head = response.head_mut();
        head.set_connection_type(ConnectionType::Close);
    }
    response
}

/// No such path.
pub(super) async fn not_found() -> HttpResponse {
    json(
        StatusCode::NOT_FOUND,
        ErrorCode::InvalidRequest.as_str(),
        "There is nothing at this path",
    )
}

/// A path that takes other methods; `allow` lists them.
pub(super) fn method_not_allowed(allow: &'static str) -> HttpResponse {
    let mut response = json(
        StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::InvalidRequest.as_str(),
        "This path does not take this method",
    );
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
