//! `POST /auth/par`: pushed authorization requests.

use actix_web::HttpResponse;
use actix_web::http::header;

use super::client_call::ClientCall;
use super::{error, report};
use protocol::oauth::pushed;
use protocol::oauth::refusal::EndpointError as _;

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
