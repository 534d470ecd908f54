//! Error bodies (protocol.md §2.4).

use actix_web::http::header::{self, HeaderValue};
use actix_web::http::{ConnectionType, Method, StatusCode};
use actix_web::web;
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Resource};
use actix_web::{Responder, ResponseError, Route};
use serde::Serialize;
use utoipa::ToSchema;

use super::body::BodyError;
use super::{line, method};
use protocol::oauth::error::{ErrorCode, TokenError};
use protocol::oauth::message::printable;
use protocol::oauth::refusal::{EndpointError as _, Refusal};
use store::StoreError;

/// The body of all errors except pages.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(super) struct ErrorBody<'a> {
    /// The error code (RFC 6749 §5.2).
    error: &'a str,
    /// What the integrator should change, in ASCII.
    error_description: &'a str,
}

/// An error in the format of protocol.md §2.4, which caches must not store.
pub(super) fn json(status: StatusCode, error: &str, error_description: &str) -> HttpResponse {
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CACHE_CONTROL, "no-store"));
    let body = ErrorBody {
        error,
        error_description,
    };
    line::json(&mut response, &body)
}

/// The challenge of 401 responses of the token endpoints (RFC 9110 §15.5.2, RFC 6749 §5.2).
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"token\", charset=\"UTF-8\"");

pub(super) fn refused(refusal: &Refusal) -> HttpResponse {
    let status = refusal.code.status();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, refusal.code.as_str(), &refusal.description);
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, BASIC);
    }
    if let Some(seconds) = refusal.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The response after a failure of the store.
pub(super) fn unavailable(error: StoreError) -> HttpResponse {
    refused(&TokenError::from(error).refusal())
}

/// The response after an error inside the service.
pub(super) fn failed(description: &str) -> HttpResponse {
    let code = ErrorCode::ServerError.as_str();
    json(StatusCode::INTERNAL_SERVER_ERROR, code, description)
}

impl ResponseError for BodyError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let code = ErrorCode::InvalidRequest.as_str();
        let mut response = json(self.status_code(), code, &self.to_string());
        if *self == Self::TooSlow {
            // The unread rest of the body would precede the next request (RFC 9110 §15.5.9).
            let head = response.head_mut();
            head.set_connection_type(ConnectionType::Close);
        }
        response
    }
}

pub(super) async fn not_found() -> HttpResponse {
    no_such_path("There is nothing at this path")
}

/// A 404 response with a hint at the right path.
pub(super) fn no_such_path(description: &str) -> HttpResponse {
    json(StatusCode::NOT_FOUND, "not_found", description)
}

/// The route for all methods except those in `allow`. An `OPTIONS` request that is in `allow` and asks nothing about
/// other origins gets the methods (RFC 9110 §9.3.7).
pub(super) fn other_methods(allow: &'static str) -> Route {
    web::to(move |request: HttpRequest| async move {
        let mut allowed = allow.split(", ");
        let is_options = request.method() == Method::OPTIONS;
        if is_options && allowed.any(|method| method == Method::OPTIONS.as_str()) {
            let mut response = HttpResponse::NoContent();
            return response.insert_header((header::ALLOW, allow)).finish();
        }
        method_not_allowed(&request, allow)
    })
}

/// A resource that answers only `GET` and `HEAD`.
pub(super) fn get<F, Arguments>(path: &str, handler: F) -> Resource
where
    F: Handler<Arguments>,
    Arguments: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    let route = web::get().to(handler);
    web::resource(path)
        .route(route)
        .default_service(other_methods("GET, HEAD"))
}

pub(super) fn method_not_allowed(request: &HttpRequest, allow: &str) -> HttpResponse {
    let is_told =
        |method: &&str| ![Method::HEAD.as_str(), Method::OPTIONS.as_str()].contains(method);
    let takes: Vec<&str> = allow.split(", ").filter(is_told).collect();
    let description = format!(
        "{} takes {}; this request is {}",
        printable(request.path()),
        takes.join(" and "),
        method::name(request.method()),
    );
    let mut response = json(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        &description,
    );
    if let Ok(allow) = HeaderValue::from_str(allow) {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}
