//! `POST /auth/par`: pushed authorization requests.

use actix_web::HttpResponse;
use actix_web::http::header;

use super::client_call::ClientCall;
use super::forms;
use super::{error, report};
use protocol::oauth::pushed::{self, Pushed};
use protocol::oauth::refusal::EndpointError as _;

/// Takes an authorization request from the client itself (RFC 9126).
#[utoipa::path(post, path = "/auth/par", tag = "authorization", security((), ("client_secret_basic" = []), ("client_certificate" = [])),
    params(("DPoP" = Option<String>, Header, description = "A proof of the client's key (RFC 9449 §4).")),
    request_body(content = forms::PushRequest, content_type = "application/x-www-form-urlencoded"),
    responses((status = 201, description = "A reference for the browser.", body = Pushed)))]
pub(super) async fn push(call: ClientCall) -> HttpResponse {
    let answer = call.answer(pushed::push).await;
    let answer = answer.map_err(|error| error.refusal());
    let mut response = match &answer {
        // RFC 9126 §2.2.
        Ok(pushed) => HttpResponse::Created()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .json(pushed),
        Err(refusal) => {
            report::refused(&call, "pushed authorization request", refusal).await;
            error::refused(refusal)
        }
    };
    call.offer_nonce(&mut response, answer.as_ref().err());
    response
}
