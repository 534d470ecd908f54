//! The host that a request is for.

use actix_web::HttpRequest;
use actix_web::http::header;

/// The `Host` header as sent, or the authority of the request line; empty when there is neither.
pub(super) fn of(http: &HttpRequest) -> &str {
    http.headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| http.uri().authority().map(|authority| authority.as_str()))
        .unwrap_or_default()
}
