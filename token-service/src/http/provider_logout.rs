//! `POST /auth/provider/{id}/logout`: an identity provider ends the sign-ins of a person (OpenID Connect Back-Channel Logout 1.0).

use std::sync::Arc;

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
use protocol::provider_sign_in::id_token::{LogoutRefusal, LogoutToken, TokenRefusal};
use store::{OnceId, StoreError, Use};

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
        Err(LogoutError::Refused(LogoutRefusal {
            why: TokenRefusal::Unavailable(_),
            ..
        })) => unavailable("the keys of the identity provider cannot be fetched now"),
        Err(LogoutError::Store(_)) => unavailable("the store fails now"),
        Err(error) => {
            let is_reported = match &error {
                LogoutError::Refused(refusal) => refusal.is_reported,
                LogoutError::Replayed | LogoutError::Store(_) => true,
            };
            // Anybody can send the others: the answer says why, and not the log.
            if is_reported {
                tracing::warn!(provider = provider.id, why = %error, "a logout token was refused");
                let entry = Entry::new(AuditAction::ProviderSignOutRefused);
                let detail = format!("identity provider {}: {error}", provider.id);
                service.record(&origin::of(&http), entry.detail(detail));
            }
            let description = format!("the logout token is refused: {error}");
            refused(StatusCode::BAD_REQUEST, &description)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum LogoutError {
    #[error(transparent)]
    Refused(#[from] LogoutRefusal),
    #[error("it was used before")]
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
    // First the end, then the mark: if the store fails between the two, the provider's next attempt is not refused. Twice ends nothing
    // more.
    let id = OnceId::of_logout_token(&provider.issuer, &token.jti);
    if service.store.is_used(id, moment.now).await? {
        return Err(LogoutError::Replayed);
    }
    let user = service
        .directory()
        .user_of_identity(&token.sign_out.identity)
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
        .end_provider_sign_ins(token.sign_out, audit, now);
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
