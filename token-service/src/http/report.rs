//! Reports issued and refused requests of the endpoints with client authentication to log, metrics and audit log,
//! without secrets.

use super::client_call::ClientCall;
use crate::audit_log::Entry;
use domain::{AuditAction, ClientId};
use protocol::oauth::error::ErrorCode;
use protocol::oauth::refusal::Refusal;
use protocol::oauth::token_response::Authorization;

/// The known parts of a token request.
pub(super) struct TokenRequest<'a> {
    /// The grant type, or the flow if that is more specific.
    pub(super) grant_type: Option<&'static str>,
    pub(super) client_id: Option<&'a str>,
    /// The claimed Client ID of a request without a known client.
    pub(super) claimed_client: Option<&'a str>,
    /// Detail for the audit entry of issued tokens.
    pub(super) detail: Option<String>,
}

pub(super) fn token_request(
    call: &ClientCall,
    request: TokenRequest<'_>,
    answer: Result<&Authorization, &Refusal>,
) {
    let metrics = &call.service.metrics;
    let TokenRequest {
        grant_type,
        client_id,
        claimed_client,
        ..
    } = request;
    if let Err(refusal) = answer {
        let Refusal { reason, cause, .. } = refusal;
        match refusal.code {
            ErrorCode::InvalidClient
            | ErrorCode::InvalidGrant
            | ErrorCode::InvalidRequest
            | ErrorCode::UnauthorizedClient
            | ErrorCode::UnsupportedResponseType
            | ErrorCode::InvalidScope
            | ErrorCode::InvalidDpopProof
            | ErrorCode::UseDpopNonce => {
                let revoked_grant = refusal.revoked_grant.map(|grant_id| grant_id.to_string());
                tracing::info!(
                    client_id,
                    claimed_client,
                    grant_type,
                    revoked_grant,
                    reason,
                    "token request refused"
                );
            }
            ErrorCode::TooManyRequests => return too_soon(call, refusal),
            // The store logs its failures once, and not for each request.
            ErrorCode::TemporarilyUnavailable => {
                tracing::debug!(client_id, grant_type, reason, cause, "try again");
            }
            ErrorCode::ServerError => {
                tracing::error!(client_id, grant_type, reason, cause, "token request failed");
            }
        }
        if refusal.code == ErrorCode::InvalidClient {
            metrics.client_refused(reason);
        }
    } else {
        tracing::debug!(client_id, grant_type, "tokens issued");
    }
    let outcome = answer.map_or_else(|refusal| refusal.code.as_str(), |_| "ok");
    metrics.token_request(grant_type, outcome);
    let entry = match answer {
        Ok(authorization) => {
            let entry = Entry::new(authorization.issuance.action())
                .by_client(Some(authorization.client_id.as_str()))
                .user(authorization.username.as_str())
                .grant(authorization.grant_id);
            let key = authorization.binding.key();
            let key = key.map(|key| format!("bound to the key {key}"));
            let details: Vec<String> = request.detail.into_iter().chain(key).collect();
            if details.is_empty() {
                entry
            } else {
                entry.detail(details.join(", "))
            }
        }
        Err(refusal) => {
            let entry = Entry::new(refusal.action).by_client(client_id);
            match refusal.revoked_grant {
                Some(grant_id) => entry.grant(grant_id),
                None => refused_client(entry, claimed_client, &refusal.description),
            }
        }
    };
    call.service.record(&call.origin(), entry);
}

/// Reports a refused request to another endpoint. Only failed client authentication goes to the audit log.
pub(super) fn refused(call: &ClientCall, endpoint: &'static str, refusal: &Refusal) {
    let Refusal { reason, cause, .. } = refusal;
    match refusal.code {
        ErrorCode::InvalidClient => {}
        ErrorCode::TooManyRequests => return too_soon(call, refusal),
        _ => {
            tracing::info!(endpoint, reason, cause, "request refused");
            return;
        }
    }
    let claimed_client = call.request().claimed_client();
    tracing::info!(endpoint, claimed_client, reason, "request refused");
    call.service.metrics.client_refused(reason);
    let entry = Entry::new(AuditAction::TokenRequestRefused);
    let description = format!("{endpoint}: {}", refusal.description);
    let entry = refused_client(entry, claimed_client.as_deref(), &description);
    call.service.record(&call.origin(), entry);
}

/// Reports a client that must wait after wrong secrets. Not in the audit log, which has the earlier guesses: these
/// entries could only flood it.
fn too_soon(call: &ClientCall, Refusal { reason, .. }: &Refusal) {
    tracing::info!(reason, "client authentication refused");
    call.service.metrics.client_refused(reason);
}

/// Adds the claimed client to a refusal, so that operators find guesses of one client's secret by its id. The client is
/// not the actor, because it was not authenticated.
fn refused_client(entry: Entry, claimed: Option<&str>, description: &str) -> Entry {
    match claimed {
        Some(claimed) if ClientId::parse(claimed).is_some() => {
            entry.client(claimed).detail(description)
        }
        Some(claimed) => entry.detail(format!("{description} (claimed client: {claimed})")),
        None => entry.detail(description),
    }
}
