//! The legacy flow's endpoints that are not pages: status and tokens, chosen by host name (protocol.md §4.4, §4.6,
//! §4.7).

use actix_web::http::header;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::client_call::ClientCall;
use super::forms;
use super::report::{self, TokenRequest};
use super::{error, origin, tokens};
use crate::service::Service;
use protocol::legacy;
use protocol::legacy::status::{self, Status};
use protocol::legacy::token_endpoint::{self, LegacyTokenResponse};
use protocol::oauth::refusal::EndpointError as _;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(error::get(legacy::STATUS, show_status))
        .service(
            web::resource(legacy::TOKEN)
                .route(web::post().to(token))
                .default_service(error::other_methods("POST")),
        );
}

/// Whether OAuth2 is enabled on the host of a legacy instance.
#[utoipa::path(get, path = "/OAuthStatus", tag = "legacy",
    responses((status = 200, description = "The status.", body = Status<'static>),
        (status = 404, description = "The host is no legacy instance.", body = error::ErrorBody<'static>)))]
pub(super) async fn show_status(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let summary = service.directory().summary();
    match status::answer(&summary, origin::host(&request)) {
        Err(hint) => error::no_such_path(&hint),
        Ok(status) => HttpResponse::Ok()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .json(status),
    }
}

/// Issues tokens of the legacy flow, at the authorization server of a legacy instance.
#[utoipa::path(post, path = "/as/token.oauth2", operation_id = "legacy_token", tag = "legacy", security((), ("client_secret_basic" = [])),
    request_body(content = forms::LegacyTokenRequest, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "Tokens.", body = LegacyTokenResponse),
        (status = 404, description = "The host is no authorization server of a legacy instance.", body = error::ErrorBody<'static>)))]
pub(super) async fn token(http: HttpRequest, call: ClientCall) -> HttpResponse {
    let host = origin::host(&http);
    let summary = call.service.directory().summary();
    let Some(first) = summary.legacy_auth_servers(host).next() else {
        return error::no_such_path(&legacy::wrong_host(legacy::TOKEN, host, &summary));
    };
    let answer = call
        .issue(async |context, request| {
            let instances = context.summary.legacy_auth_servers(host);
            token_endpoint::answer(context, instances, request).await
        })
        .await
        .map_err(|error| error.refusal());
    let hostname = answer
        .as_ref()
        .map_or(&first.hostname, |response| &response.hostname);
    let request = TokenRequest {
        grant_type: Some("legacy"),
        client_id: None,
        detail: Some(format!("legacy instance {hostname}")),
    };
    let issued = answer.as_ref().map(|response| &response.authorization);
    report::token_request(&call, request, issued).await;
    tokens::answer(answer)
}
