//! `POST /auth/revoke`.

use std::time::Instant;

use actix_web::HttpResponse;
use actix_web::http::header;
use serde_json::json;

use super::client_call::ClientCall;
use super::forms;
use super::{error, report};
use crate::telemetry::audit_log::Entry;
use domain::{AuditAction, ClientId};
use protocol::issued_token::revocation::{self, RevokedToken};
use protocol::oauth::error::TokenError;
use protocol::oauth::refusal::EndpointError as _;

/// Revokes an access token, or the grant of a refresh token (RFC 7009).
#[utoipa::path(post, path = "/auth/revoke", tag = "tokens", security((), ("client_secret_basic" = []), ("client_certificate" = [])),
    request_body(content = forms::TokenForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "Revoked, or of no effect before.", body = Object)))]
pub(super) async fn revoke(call: ClientCall) -> HttpResponse {
    let limit = &call.service.revocation_limit;
    let answer = call
        .answer(async |context, request| {
            revocation::revoke(context, request, |client_id| {
                limit.admit(client_id, Instant::now())
            })
            .await
        })
        .await;
    match answer {
        Ok(ended) => {
            if let Some(token) = ended {
                call.service.record(&call.origin(), revoked(token));
            }
            HttpResponse::Ok()
                .insert_header((header::CACHE_CONTROL, "no-store"))
                .json(json!({}))
        }
        Err(error) => {
            let refusal = error.refusal();
            match &error {
                TokenError::TooManyRevocations { client_id, .. } => limited(&call, client_id),
                _ => report::refused(&call, "revocation", &refusal).await,
            }
            error::refused(&refusal)
        }
    }
}

fn revoked(token: RevokedToken) -> Entry {
    let entry = Entry::new(AuditAction::TokenRevoked)
        .by_client(Some(token.client_id.as_str()))
        .grant(token.grant_id);
    match token.username {
        Some(username) => entry.user(username),
        None => entry,
    }
}

/// Counts every refusal but logs only some, so that refusals do not flood the log and the audit log.
fn limited(call: &ClientCall, client_id: &ClientId) {
    call.service.metrics.revocation_refused();
    let limit = &call.service.revocation_limit;
    if limit.is_to_be_told(client_id, Instant::now()) {
        tracing::warn!(%client_id, "a client revokes more access tokens than limits.revocations_per_second allows");
        let entry = Entry::new(AuditAction::RevocationsLimited).by_client(Some(client_id.as_str()));
        call.service.record(&call.origin(), entry);
    }
}
