//! `POST /auth/token`.

use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::endpoint_request::{authorization, endpoint_request};
use super::{body, cors, error, origin, paths, tokens};
use crate::audit::{Entry, Origin};
use crate::oauth::error::{ErrorCode, TokenError};
use crate::oauth::grants::GrantType;
use crate::oauth::token_endpoint::{self, Trace};
use crate::oauth::token_response::TokenResponse;
use crate::service::Service;
use crate::store::AuditAction;

pub(super) fn routes(routes: &mut web::ServiceConfig, service: &Data<Service>) {
    routes.service(
        web::resource(paths::TOKEN)
            .wrap(cors::registered_apps(service.clone()))
            .route(web::post().to(token))
            .default_service(error::other_methods("POST, OPTIONS")),
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
    report(&service, &origin::of(&request), &trace, &answer);
    match answer {
        Ok(response) => tokens::answer(response),
        Err(error) => error::token_error(&error),
    }
}

/// Tells log, metrics and audit log: what was issued or refused and why, nothing that is secret.
fn report(
    service: &Service,
    origin: &Origin,
    trace: &Trace,
    answer: &Result<TokenResponse, TokenError>,
) {
    let outcome = answer
        .as_ref()
        .map_or_else(|error| error.code().as_str(), |_| "ok");
    service.metrics.token_request(trace.grant_type, outcome);
    service.record(origin, entry(trace, answer));
    let client_id = trace.client_id.as_deref();
    let grant_type = trace.grant_type.map(|grant_type| grant_type.name());
    match answer {
        Ok(_) => tracing::debug!(client_id, grant_type, "tokens issued"),
        Err(error) => match error.code() {
            ErrorCode::InvalidClient | ErrorCode::InvalidGrant | ErrorCode::InvalidRequest => {
                tracing::info!(client_id, grant_type, reason = ?error, "token request refused");
            }
            ErrorCode::TemporarilyUnavailable
            | ErrorCode::TooManyRequests
            | ErrorCode::ServerError => {
                tracing::error!(client_id, grant_type, reason = ?error, "token request failed");
            }
        },
    }
}

fn entry(trace: &Trace, answer: &Result<TokenResponse, TokenError>) -> Entry {
    let entry = |action| Entry::new(action).by_client(trace.client_id.as_deref());
    match answer {
        Ok(response) => {
            let action = match trace.grant_type {
                Some(GrantType::RefreshToken) => AuditAction::TokensRefreshed,
                _ => AuditAction::TokensIssued,
            };
            let authorization = &response.authorization;
            let entry = entry(action)
                .user(authorization.username.as_str())
                .grant(authorization.grant_id);
            match trace.grant_type {
                Some(grant_type) => entry.detail(grant_type.name()),
                None => entry,
            }
        }
        Err(TokenError::RefreshReused(grant_id)) => {
            entry(AuditAction::RefreshTokenReused).grant(grant_id)
        }
        Err(TokenError::CodeReplayed(grant_id)) => entry(AuditAction::CodeReplayed).grant(grant_id),
        Err(error) => entry(AuditAction::TokenRequestRefused).detail(error.description()),
    }
}
