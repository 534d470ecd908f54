//! `POST /auth/provider/{id}/logout`: an identity provider ends the sign-ins of a person (OpenID Connect Back-Channel Logout 1.0).

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::{body, error, origin};
use crate::service::Service;
use crate::telemetry::audit_log::Entry;
use domain::{AuditAction, AuditEvent, EndedSignIns};
use protocol::identity_provider::IdentityProvider;
use protocol::oauth::parameters::Parameters;
use protocol::provider_sign_in::TIME_AT_PROVIDER;
use protocol::provider_sign_in::id_token::{LogoutToken, TokenRefusal};
use store::{OnceId, StoreError, Use};

/// Longest time from an ID token to its session.
const UNDER_WAY: Duration = Duration::from_secs(15);

/// Ends the sessions and grants that rest on the sign-in, and answers when that is durable.
pub(super) async fn end(
    http: HttpRequest,
    service: Data<Service>,
    id: Path<String>,
    payload: Payload,
) -> HttpResponse {
    let providers = &service.config.protocol.identity_providers;
    let provider = providers.iter().find(|provider| provider.id == *id);
    let Some(provider) = provider.filter(|provider| provider.client_id.is_some()) else {
        return error::not_found().await;
    };
    let read = body::read(payload).await;
    let token = read.ok().and_then(|body| {
        let parameters = Parameters::parse(&body).ok()?.into_owned();
        parameters.get("logout_token").map(str::to_owned)
    });
    let Some(token) = token else {
        return refused(StatusCode::BAD_REQUEST, "the body has no logout_token");
    };
    match carry_out(&http, &service, provider, &token).await {
        Ok(()) => HttpResponse::Ok()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .finish(),
        Err(LogoutError::Refused(TokenRefusal::Unavailable(_))) => {
            unavailable("the keys of the identity provider cannot be fetched now")
        }
        // Anybody can send one: the answer says why, and not the log.
        Err(LogoutError::Refused(why)) => {
            tracing::debug!(provider = provider.id, %why, "a logout token was refused");
            refused(
                StatusCode::BAD_REQUEST,
                &format!("the logout token is refused: {why}"),
            )
        }
        Err(LogoutError::Replayed) => {
            refused(StatusCode::BAD_REQUEST, "the logout token was used before")
        }
        Err(LogoutError::Store(_)) => unavailable("the store fails now"),
    }
}

#[derive(Debug, thiserror::Error)]
enum LogoutError {
    #[error(transparent)]
    Refused(#[from] TokenRefusal),
    #[error("the logout token was used before")]
    Replayed,
    #[error(transparent)]
    Store(#[from] StoreError),
}

async fn carry_out(
    http: &HttpRequest,
    service: &Service,
    provider: &IdentityProvider,
    token: &str,
) -> Result<(), LogoutError> {
    let moment = service.moment();
    let context = service.context(&moment);
    let token = LogoutToken::verify(&context, provider, token).await?;
    // First the end, then the mark: if the store fails between the two, the provider's next attempt is not refused.
    let id = OnceId::of_logout_token(&provider.issuer, &token.jti);
    if service.store.is_used(id, moment.now).await? {
        return Err(LogoutError::Replayed);
    }
    // A sign-in that is under way does not begin a session after its end.
    let (mark, lasts) = match &token.sid {
        Some(sid) => (
            OnceId::of_ended_session(&token.identity, sid),
            TIME_AT_PROVIDER,
        ),
        // Soon over, so that the person can sign in again.
        None => (OnceId::of_ended_sign_ins(&token.identity), UNDER_WAY),
    };
    service
        .store
        .use_once(mark, moment.now + lasts, moment.now)
        .await?;
    let user = service
        .directory()
        .user_of_identity(&token.identity)
        .await?;
    let entry = Entry::new(AuditAction::ProviderSignOut);
    let entry = entry.detail(format!("by the identity provider {}", provider.id));
    let entry = match user {
        Some(user) => entry.user(user.username.as_str()),
        None => entry,
    };
    let events: Arc<[AuditEvent]> = [service.event(&origin::of(http), entry)].into();
    let (audit, now) = (Arc::clone(&events), service.clock.now());
    let ended = service
        .store
        .end_provider_sign_ins(token.identity, token.sid, audit, now);
    if ended.await? != EndedSignIns::default() {
        service.recorded(&events);
    }
    match service
        .store
        .use_once(id, token.remembered_until, moment.now)
        .await?
    {
        Use::First => Ok(()),
        Use::Again => Err(LogoutError::Replayed),
    }
}

fn unavailable(why: &str) -> HttpResponse {
    refused(
        StatusCode::SERVICE_UNAVAILABLE,
        &format!("{why}; try again"),
    )
}

/// OpenID Connect Back-Channel Logout 1.0 §2.8.
fn refused(status: StatusCode, description: &str) -> HttpResponse {
    let error = match status {
        StatusCode::SERVICE_UNAVAILABLE => "temporarily_unavailable",
        _ => "invalid_request",
    };
    HttpResponse::build(status)
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .json(json!({"error": error, "error_description": description}))
}
