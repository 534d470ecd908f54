//! `POST /auth/token`.

use actix_web::http::header;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::endpoint_request::{authorization, endpoint_request};
use super::{body, cors, error, paths};
use crate::oauth::error::{ErrorCode, TokenError};
use crate::oauth::token_endpoint::{self, Trace};
use crate::oauth::token_response::TokenResponse;
use crate::service::Service;

pub(super) fn routes(routes: &mut web::ServiceConfig, service: &Data<Service>) {
    routes.service(
        web::resource(paths::TOKEN)
            .wrap(cors::registered_apps(service.clone()))
            .route(web::post().to(token))
            .default_service(web::to(|| async {
                error::method_not_allowed("POST, OPTIONS")
            })),
    );
}

async fn token(
    request: HttpRequest,
    payload: web::Payload,
    service: Data<Service>,
) -> HttpResponse {
    let body = match body::read(payload).await {
        Ok(body) => body,
        Err(error) => return error::unreadable_body(error),
    };
    let authorization = authorization(&request);
    let mut trace = Trace::default();
    let (registry, keys) = (service.registry(), service.keys());
    let context = service.context(&registry, &keys);
    let answer = token_endpoint::answer(
        &context,
        endpoint_request(&request, &authorization, &body),
        &mut trace,
    )
    .await;
    log(&trace, &answer);
    match answer {
        Ok(response) => HttpResponse::Ok()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .insert_header((header::PRAGMA, "no-cache"))
            .json(response),
        Err(error) => error::token_error(&error),
    }
}

/// One line per request: what was refused and why, nothing that is secret.
fn log(trace: &Trace, answer: &Result<TokenResponse, TokenError>) {
    let client_id = trace.client_id.as_deref();
    let grant_type = trace.grant_type.map(|grant_type| grant_type.name());
    match answer {
        Ok(_) => tracing::debug!(client_id, grant_type, "tokens issued"),
        Err(error) => match error.code() {
            ErrorCode::InvalidClient | ErrorCode::InvalidGrant | ErrorCode::InvalidRequest => {
                tracing::info!(client_id, grant_type, reason = ?error, "token request refused");
            }
            ErrorCode::TemporarilyUnavailable | ErrorCode::ServerError => {
                tracing::error!(client_id, grant_type, reason = ?error, "token request failed");
            }
        },
    }
}
