//! The request of a form, for the error page.

use actix_web::{HttpMessage as _, HttpRequest};

/// The path and query from a form, for the page that reports an error of the form.
#[derive(Clone)]
struct Carried(String);

/// Path and query of the request to which the step `http` belongs, unchecked.
pub(super) fn carried(http: &HttpRequest) -> String {
    match http.extensions().get::<Carried>() {
        Some(Carried(text)) => text.clone(),
        None => format!("{}?{}", http.path(), http.query_string()),
    }
}

/// Stores the path and query from a form.
pub(super) fn keep(http: &HttpRequest, request: &str) {
    http.extensions_mut().insert(Carried(request.to_owned()));
}
