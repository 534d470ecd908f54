//! `POST /auth/introspect`.

use actix_web::HttpResponse;
use actix_web::http::header;

use super::client_call::ClientCall;
use super::forms;
use super::{error, report};
use protocol::issued_token::introspection::{self, Introspection};
use protocol::oauth::refusal::EndpointError as _;

/// Says whether a token of the client is active (RFC 7662).
#[utoipa::path(post, path = "/auth/introspect", tag = "tokens", security((), ("client_secret_basic" = []), ("client_certificate" = [])),
    request_body(content = forms::TokenForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "The state of the token.", body = Introspection)))]
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
