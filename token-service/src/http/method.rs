//! Methods of requests.

use actix_web::http::Method;

pub(super) const OTHER: &str = "OTHER";

/// Mark of a HEAD request, which handlers see as GET.
#[derive(Debug, Clone, Copy)]
pub(super) struct IsHead;

/// The method's name for metrics and responses. Clients may invent methods, so metrics and responses do not repeat unknown methods.
pub(super) fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    }
}
