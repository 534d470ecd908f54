//! The answer that carries tokens.

use actix_web::HttpResponse;
use actix_web::http::header;
use serde::Serialize;

/// Most answers fit in, so that they are written without being moved.
const ANSWER_BYTES: usize = 3072;

/// Tokens, never stored by caches (RFC 6749 §5.1).
pub(super) fn answer(tokens: impl Serialize) -> HttpResponse {
    let mut body = Vec::with_capacity(ANSWER_BYTES);
    if let Err(error) = serde_json::to_writer(&mut body, &tokens) {
        tracing::error!(%error, "tokens cannot be written");
        return HttpResponse::InternalServerError().finish();
    }
    HttpResponse::Ok()
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::PRAGMA, "no-cache"))
        .insert_header(header::ContentType::json())
        .body(body)
}
