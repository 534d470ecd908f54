//! `POST /auth/token`.

use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::endpoint_request::{authorization, endpoint_request};
use super::{body, cors, error, origin, paths, tokens};
use crate::audit_log::{Entry, Origin};
use crate::service::Service;
use domain::{AuditAction, ClientId};
use protocol::oauth::error::{ErrorCode, TokenError};
use protocol::oauth::secret_guesses::Guess;
use protocol::oauth::token_endpoint::{self, Trace};
use protocol::oauth::token_response::TokenResponse;

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
    let address = origin::address(&request);
    let mut trace = Trace::default();
    let moment = match service.issuing_moment() {
        Ok(moment) => moment,
        Err(error) => {
            let answer = Err(TokenError::from(error));
            report(&service, &origin::of(&request), &trace, &answer);
            return tokens_or_error(answer);
        }
    };
    let context = moment.context();
    let guess = match Guess::begin(&context, &service.suspects, &authorization, address).await {
        Ok(guess) => guess,
        Err(error) => return too_soon(&service, &error),
    };
    let answer = token_endpoint::answer(
        &context,
        endpoint_request(&request, &authorization, &body),
        &mut trace,
    )
    .await;
    guess.end(answer.as_ref().err()).await;
    report(&service, &origin::of(&request), &trace, &answer);
    tokens_or_error(answer)
}

fn tokens_or_error(answer: Result<TokenResponse, TokenError>) -> HttpResponse {
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
    if let Err(error) = answer
        && error.code() == ErrorCode::InvalidClient
    {
        service.metrics.client_refused(error.reason());
    }
    service.record(origin, entry(trace, answer));
    let client_id = trace.client_id.as_deref();
    let grant_type = trace.grant_type.map(|grant_type| grant_type.name());
    match answer {
        Ok(_) => tracing::debug!(client_id, grant_type, "tokens issued"),
        Err(error) => match error.code() {
            ErrorCode::InvalidClient | ErrorCode::InvalidGrant | ErrorCode::InvalidRequest => {
                let claimed_client = trace.claimed_client.as_deref();
                let revoked_grant = error.revoked_grant().map(|grant_id| grant_id.to_string());
                tracing::info!(
                    client_id,
                    claimed_client,
                    grant_type,
                    revoked_grant,
                    reason = error.reason(),
                    "token request refused"
                );
            }
            ErrorCode::TemporarilyUnavailable
            | ErrorCode::TooManyRequests
            | ErrorCode::ServerError => {
                let (reason, cause) = (error.reason(), error.cause());
                tracing::error!(client_id, grant_type, reason, cause, "token request failed");
            }
        },
    }
}

fn entry(trace: &Trace, answer: &Result<TokenResponse, TokenError>) -> Entry {
    let entry = |action| Entry::new(action).by_client(trace.client_id.as_deref());
    match answer {
        Ok(response) => {
            let authorization = &response.authorization;
            let entry = entry(authorization.issuance.action())
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
        Err(error) => {
            let entry = entry(AuditAction::TokenRequestRefused);
            refused_client(entry, trace.claimed_client.as_deref(), &error.description())
        }
    }
}

/// A client that guesses has to wait. The guesses before are in the audit log; these could only flush it.
pub(super) fn too_soon(service: &Service, error: &TokenError) -> HttpResponse {
    let reason = error.reason();
    tracing::info!(
        reason,
        cause = error.cause(),
        "client authentication refused"
    );
    service.metrics.client_refused(reason);
    error::token_error(error)
}

/// A refusal that names the claimed client, so that guesses at one client's secret are found by its id. Nobody proved to
/// be the client: it is no actor.
pub(super) fn refused_client(entry: Entry, claimed: Option<&str>, description: &str) -> Entry {
    match claimed {
        Some(claimed) if ClientId::parse(claimed).is_some() => {
            entry.client(claimed).detail(description)
        }
        Some(claimed) => entry.detail(format!("{description} (claimed client: {claimed})")),
        None => entry.detail(description),
    }
}

/// Tells of a refused request to an endpoint beside the token endpoint. Only a client that could not be authenticated is
/// a matter for the audit log.
pub(super) fn refused(
    service: &Service,
    origin: &Origin,
    endpoint: &'static str,
    claimed: impl FnOnce() -> Option<String>,
    error: &TokenError,
) {
    let (reason, cause) = (error.reason(), error.cause());
    if error.code() != ErrorCode::InvalidClient {
        tracing::info!(endpoint, reason, cause, "request refused");
        return;
    }
    let claimed_client = claimed();
    tracing::info!(endpoint, claimed_client, reason, "request refused");
    service.metrics.client_refused(reason);
    let entry = Entry::new(AuditAction::TokenRequestRefused);
    let description = format!("{endpoint}: {}", error.description());
    service.record(
        origin,
        refused_client(entry, claimed_client.as_deref(), &description),
    );
}
