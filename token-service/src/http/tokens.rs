//! The response with tokens.

use actix_web::HttpResponse;
use actix_web::http::header;
use serde::Serialize;

use super::error;
use protocol::oauth::refusal::Refusal;

/// Initial buffer size in bytes. Most responses fit, so the buffer does not grow.
const ANSWER_BYTES: usize = 3072;

/// A response with tokens, which caches must not store (RFC 6749 §5.1), or the refusal.
pub(super) fn answer(answer: Result<impl Serialize, Refusal>) -> HttpResponse {
    let tokens = match answer {
        Ok(tokens) => tokens,
        Err(refusal) => return error::refused(&refusal),
    };
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
