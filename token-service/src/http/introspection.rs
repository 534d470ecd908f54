//! `POST /auth/introspect`.

use actix_web::HttpResponse;
use actix_web::http::header;

use super::client_call::ClientCall;
use super::{error, report};
use protocol::issued_token::introspection;
use protocol::oauth::refusal::EndpointError as _;

pub(super) async fn introspect(call: ClientCall) -> HttpResponse {
    match call.answer(introspection::introspect).await {
        Ok(introspection) => HttpResponse::Ok()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .json(introspection),
        Err(error) => {
            let refusal = error.refusal();
            report::refused(&call, "introspection", &refusal).await;
            error::refused(&refusal)
        }
    }
}
