//! Tells a person whose browser accepts no cookies so on the first page, without a script and without a redirect.
//!
//! The page sets the first cookie and contains a hidden notice. Its second stylesheet is this one: the browser asks for
//! it at once, and if the cookie is not in that request, the stylesheet shows the notice.

use actix_web::HttpResponse;
use actix_web::http::header;

use super::browser::Browser;

/// `GET /auth/static/cookies.css`.
pub(super) async fn stylesheet(browser: Browser) -> HttpResponse {
    let content = match browser.cookies.csrf(&browser.http) {
        Some(_) => "",
        None => ".no-cookies{display:block}",
    };
    HttpResponse::Ok()
        .content_type("text/css; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .body(content)
}
