//! The request that a form is a step of, as the page with an error needs it.

use actix_web::{HttpMessage as _, HttpRequest};

/// The path and query that a form carries on, for the page that says what is wrong with the form.
#[derive(Clone)]
struct Carried(String);

/// The request that `http` is a step of, as path and query, unchecked.
pub(super) fn carried(http: &HttpRequest) -> String {
    match http.extensions().get::<Carried>() {
        Some(Carried(text)) => text.clone(),
        None => format!("{}?{}", http.path(), http.query_string()),
    }
}

/// Keeps the request that a form carries on.
pub(super) fn keep(http: &HttpRequest, request: &str) {
    http.extensions_mut().insert(Carried(request.to_owned()));
}
