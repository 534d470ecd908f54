//! Responses with the headers of all pages (D-20, RFC 9700 §4.2.4, §4.16).

use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, HttpResponseBuilder};
use askama::Template;

/// Without `form-action`: Chromium and Safari apply the directive to each redirect after a form, also to redirects of the client's
/// redirect URI, which the service cannot know. Pages have no markup of others, so the only
/// forms are ours. The only scripts are files of the service.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     frame-ancestors 'none'; base-uri 'none'";

pub(super) fn page(status: StatusCode, template: &impl Template) -> HttpResponse {
    let Ok(body) = template.render() else {
        tracing::error!("a page cannot be rendered");
        return guarded(StatusCode::INTERNAL_SERVER_ERROR).finish();
    };
    guarded(status)
        .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .insert_header((header::X_FRAME_OPTIONS, "DENY"))
        .content_type("text/html; charset=utf-8")
        .body(body)
}

/// A redirect: 302 after a GET, 303 after a form, so that browsers never post credentials to the target (RFC 9700
/// §4.12).
pub(super) fn redirect(status: StatusCode, location: &str) -> HttpResponse {
    guarded(status)
        .insert_header((header::LOCATION, location))
        .finish()
}

fn guarded(status: StatusCode) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
    response
}
