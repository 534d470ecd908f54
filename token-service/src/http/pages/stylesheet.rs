//! The stylesheet. Its name changes with its content, so browsers may cache it without limit.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header;

use domain::digest::Digest;

const CONTENT: &str = include_str!("../../../static/style.css");

/// The path, which contains the first 64 bits of the content's digest.
pub(super) static PATH: LazyLock<String> = LazyLock::new(|| {
    let digest = Digest::of(CONTENT.as_bytes());
    let tag: String = digest
        .as_bytes()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("/auth/static/style.{tag}.css")
});

pub(super) async fn stylesheet() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/css; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "public, max-age=31536000, immutable"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .body(CONTENT)
}
