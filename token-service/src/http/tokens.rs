//! The answer that carries tokens.

use actix_web::HttpResponse;
use actix_web::http::header;
use serde::Serialize;

/// Tokens, never stored by caches (RFC 6749 §5.1).
pub(super) fn answer(tokens: impl Serialize) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::PRAGMA, "no-cache"))
        .json(tokens)
}
