//! Names of methods for metrics and responses.

use actix_web::http::Method;

pub(super) const OTHER: &str = "OTHER";

/// The method's name. Clients may invent methods, so metrics and responses do not repeat unknown methods.
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
