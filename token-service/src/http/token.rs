//! `POST /auth/token`.

use actix_web::HttpResponse;

use super::client_call::ClientCall;
use super::forms;
use super::report::{self, TokenRequest};
use super::tokens;
use protocol::oauth::grants::GrantType;
use protocol::oauth::refusal::EndpointError as _;
use protocol::oauth::token_endpoint::{self, Trace};
use protocol::oauth::token_response::TokenResponse;

/// Issues tokens (RFC 6749 §3.2).
#[utoipa::path(post, path = "/auth/token", tag = "tokens", security((), ("client_secret_basic" = []), ("client_certificate" = [])),
    params(("DPoP" = Option<String>, Header, description = "A proof of the client's key (RFC 9449 §4).")),
    request_body(content = forms::TokenRequest, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "Tokens.", body = TokenResponse)))]
pub(super) async fn token(call: ClientCall) -> HttpResponse {
    let mut trace = Trace::default();
    let answer = call
        .issue(async |context, request| token_endpoint::answer(context, request, &mut trace).await)
        .await
        .map_err(|error| error.refusal());
    let grant_type = trace.grant_type.map(GrantType::name);
    let request = TokenRequest {
        grant_type,
        client_id: trace.client_id.as_deref(),
        detail: grant_type.map(str::to_owned),
    };
    let issued = answer.as_ref().map(|response| &response.authorization);
    report::token_request(&call, request, issued).await;
    let refusal = answer.as_ref().err().cloned();
    let mut response = tokens::answer(answer);
    call.offer_nonce(&mut response, refusal.as_ref());
    response
}
