//! JSON bodies that end with a newline, so that a terminal shows its prompt on its own line.

use actix_web::http::header::ContentType;
use actix_web::{HttpResponse, HttpResponseBuilder};
use serde::Serialize;

pub(super) fn json(response: &mut HttpResponseBuilder, value: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            response.insert_header(ContentType::json()).body(body)
        }
        Err(error) => {
            tracing::error!(%error, "a response cannot be written");
            HttpResponse::InternalServerError().finish()
        }
    }
}
