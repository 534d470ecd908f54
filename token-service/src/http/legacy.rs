//! The legacy flow's endpoints that are not pages: status and tokens, chosen by host name (protocol.md §4.4, §4.6,
//! §4.7).

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::endpoint_request::authorization;
use super::token::{refused_client, too_soon};
use super::{body, error, host, lost, origin, paths, tokens};
use crate::audit_log::{Entry, Origin};
use crate::service::Service;
use domain::AuditAction;
use protocol::legacy::error::LegacyTokenError;
use protocol::legacy::token_endpoint::{self, LegacyTokenRequest, LegacyTokenResponse};
use protocol::oauth::client_authentication;
use protocol::oauth::secret_guesses::Guess;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(
            web::resource(paths::LEGACY_STATUS)
                .route(web::get().to(status))
                .default_service(error::other_methods("GET, HEAD")),
        )
        .service(
            web::resource(paths::LEGACY_TOKEN)
                .route(web::post().to(token))
                .default_service(error::other_methods("POST")),
        );
}

async fn status(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    match service.registry().legacy_instance(host::of(&request)) {
        None => lost::wrong_legacy_host(
            paths::LEGACY_STATUS,
            host::of(&request),
            &service.registry(),
        ),
        Some(instance) => HttpResponse::Ok()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .json(json!({"uri": instance.auth_server_hostname, "enabled": instance.enabled})),
    }
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
    let registry = service.registry();
    let host = host::of(&request);
    let Some(first) = registry.legacy_auth_servers(host).next() else {
        return lost::wrong_legacy_host(paths::LEGACY_TOKEN, host, &registry);
    };
    let authorization = authorization(&request);
    let address = origin::address(&request);
    let claimed = client_authentication::claimed(&authorization, &body);
    let moment = match service.issuing_moment() {
        Ok(moment) => moment,
        Err(error) => {
            let answer = Err(LegacyTokenError::Store(error));
            let origin = origin::of(&request);
            report(&service, &origin, &first.hostname, claimed, &answer);
            return answer.map_or_else(|error| refuse(&error), tokens::answer);
        }
    };
    let context = moment.context();
    let guess = match Guess::begin(&context, &service.suspects, &authorization, address).await {
        Ok(guess) => guess,
        Err(error) => return too_soon(&service, &error),
    };
    let legacy_request = LegacyTokenRequest {
        authorization: &authorization,
        query: request.query_string(),
        body: &body,
    };
    let key = &service.encryption_key;
    let instances = moment.registry.legacy_auth_servers(host);
    let answer = token_endpoint::answer(&context, instances, key, legacy_request).await;
    let refusal = match &answer {
        Err(LegacyTokenError::Client(error)) => Some(error),
        _ => None,
    };
    guess.end(refusal).await;
    let hostname = answer
        .as_ref()
        .map_or(&first.hostname, |response| &response.hostname);
    report(&service, &origin::of(&request), hostname, claimed, &answer);
    match answer {
        Ok(response) => tokens::answer(response),
        Err(error) => refuse(&error),
    }
}

/// Tells log, metrics and audit log: what was issued or refused and why, nothing that is secret.
fn report(
    service: &Service,
    origin: &Origin,
    hostname: &str,
    claimed: Option<String>,
    answer: &Result<LegacyTokenResponse, LegacyTokenError>,
) {
    let outcome = answer
        .as_ref()
        .map_or_else(|error| error.code().0, |_| "ok");
    service.metrics.legacy_token_request(outcome);
    let entry = match answer {
        Ok(LegacyTokenResponse { authorization, .. }) => {
            Entry::new(authorization.issuance.action())
                .by_client(Some(authorization.client_id.as_str()))
                .user(authorization.username.as_str())
                .grant(authorization.grant_id)
                .detail(format!("legacy instance {hostname}"))
        }
        Err(LegacyTokenError::RefreshReused(grant_id)) => {
            Entry::new(AuditAction::RefreshTokenReused).grant(grant_id)
        }
        Err(LegacyTokenError::CodeReplayed(grant_id)) => {
            Entry::new(AuditAction::CodeReplayed).grant(grant_id)
        }
        Err(error) => {
            let (reason, claimed_client) = (error.reason(), claimed.as_deref());
            tracing::info!(
                instance = hostname,
                claimed_client,
                reason,
                "legacy token request refused"
            );
            let entry = Entry::new(AuditAction::TokenRequestRefused);
            if let LegacyTokenError::Client(_) = error {
                service.metrics.client_refused(reason);
                refused_client(entry, claimed_client, &error.description())
            } else {
                entry.detail(error.description())
            }
        }
    };
    service.record(origin, entry);
}

fn refuse(error: &LegacyTokenError) -> HttpResponse {
    let (code, status) = error.code();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = error::json(status, code, &error.description());
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, error::BASIC);
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
