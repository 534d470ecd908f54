//! Responses with the headers of all pages (D-20, RFC 9700 §4.2.4, §4.16).

use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, HttpResponseBuilder};
use askama::Template;

use domain::RedirectUri;

/// A page. `redirect_uri` is the final target of the page's forms, because browsers apply `form-action` also to
/// redirects after a form post.
pub(super) fn page(
    status: StatusCode,
    template: &impl Template,
    redirect_uri: Option<&RedirectUri>,
) -> HttpResponse {
    let Ok(body) = template.render() else {
        tracing::error!("a page cannot be rendered");
        return guarded(StatusCode::INTERNAL_SERVER_ERROR).finish();
    };
    guarded(status)
        .insert_header((
            header::CONTENT_SECURITY_POLICY,
            content_security_policy(redirect_uri),
        ))
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

fn content_security_policy(redirect_uri: Option<&RedirectUri>) -> String {
    let forms_lead_to = redirect_uri.map_or_else(String::new, |redirect_uri| {
        format!(" {}", redirect_uri.form_action_source())
    });
    format!(
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'{forms_lead_to}; \
         frame-ancestors 'none'; base-uri 'none'"
    )
}
