//! Reports issued and refused requests of the endpoints with client authentication to log, metrics and audit log,
//! without secrets.

use super::client_call::ClientCall;
use crate::telemetry::audit_log::Entry;
use domain::AuditAction;
use protocol::oauth::client_authentication::claimed::ClaimedClient;
use protocol::oauth::error::ErrorCode;
use protocol::oauth::refusal::Refusal;
use protocol::oauth::token_response::Authorization;

/// The known parts of a token request.
pub(super) struct TokenRequest<'a> {
    /// The grant type, or the flow if that is more specific.
    pub(super) grant_type: Option<&'static str>,
    pub(super) client_id: Option<&'a str>,
    /// Detail for the audit entry of issued tokens.
    pub(super) detail: Option<String>,
}

pub(super) async fn token_request(
    call: &ClientCall,
    request: TokenRequest<'_>,
    answer: Result<&Authorization, &Refusal>,
) {
    let TokenRequest {
        grant_type,
        client_id,
        ..
    } = request;
    let claimed = match answer {
        Err(refusal) if client_id.is_none() => claimed_client(call, refusal).await,
        _ => None,
    };
    match answer {
        Ok(_) => tracing::debug!(client_id, grant_type, "tokens issued"),
        Err(refusal) => {
            let refused = Refused {
                endpoint: "token",
                grant_type,
                client_id,
                claimed: claimed.as_ref(),
            };
            log(call, &refused, refusal);
        }
    }
    let outcome = answer.map_or_else(|refusal| refusal.code.as_str(), |_| "ok");
    let metrics = &call.service.metrics;
    metrics.token_request(grant_type, outcome);
    if answer.is_err_and(|refusal| has_no_entry(refusal.code)) {
        return;
    }
    let entry = match answer {
        Ok(authorization) => {
            let entry = Entry::new(authorization.issuance.action())
                .by_client(Some(authorization.client_id.as_str()))
                .user(authorization.username.as_str())
                .grant(authorization.grant_id);
            let binding = authorization.binding;
            let key = (binding.key()).map(|key| format!("bound to the key {key}"));
            let certificate = (binding.certificate())
                .map(|certificate| format!("bound to the certificate {certificate}"));
            let details: Vec<String> = request
                .detail
                .into_iter()
                .chain(key)
                .chain(certificate)
                .collect();
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
                None => refused_client(entry, claimed, &refusal.description),
            }
        }
    };
    call.service.record(&call.origin(), entry);
}

/// Reports a refused request to another endpoint. Only failed client authentication goes to the audit log.
pub(super) async fn refused(call: &ClientCall, endpoint: &'static str, refusal: &Refusal) {
    let is_client_wrong = refusal.code == ErrorCode::InvalidClient;
    let claimed = match is_client_wrong {
        true => claimed_client(call, refusal).await,
        false => None,
    };
    let refused = Refused {
        endpoint,
        grant_type: None,
        client_id: None,
        claimed: claimed.as_ref(),
    };
    log(call, &refused, refusal);
    if is_client_wrong {
        let entry = Entry::new(AuditAction::TokenRequestRefused);
        let description = format!("{endpoint}: {}", refusal.description);
        let entry = refused_client(entry, claimed, &description);
        call.service.record(&call.origin(), entry);
    }
}

/// A refused request, for the log.
struct Refused<'a> {
    endpoint: &'static str,
    grant_type: Option<&'static str>,
    client_id: Option<&'a str>,
    claimed: Option<&'a ClaimedClient>,
}

/// Logs a refusal, and counts a client that was not authenticated. Failures of the service are no refusals: an operator
/// who looks for errors has to find them, whatever the endpoint.
fn log(call: &ClientCall, request: &Refused<'_>, refusal: &Refusal) {
    let &Refused {
        endpoint,
        grant_type,
        client_id,
        claimed,
    } = request;
    let Refusal { reason, cause, .. } = refusal;
    match refusal.code {
        ErrorCode::InvalidClient
        | ErrorCode::InvalidGrant
        | ErrorCode::InvalidRequest
        | ErrorCode::UnauthorizedClient
        | ErrorCode::UnsupportedResponseType
        | ErrorCode::InvalidScope
        | ErrorCode::InvalidDpopProof => {
            let revoked_grant = refusal.revoked_grant.map(|grant_id| grant_id.to_string());
            let claimed_client = claimed.map(ToString::to_string);
            tracing::info!(
                endpoint,
                client_id,
                claimed_client,
                grant_type,
                revoked_grant,
                reason,
                "request refused"
            );
        }
        ErrorCode::UseDpopNonce => {
            tracing::debug!(endpoint, client_id, reason, "nonce offered");
        }
        ErrorCode::TooManyRequests => {
            tracing::info!(endpoint, reason, "client authentication refused");
        }
        // The store logs its failures once, and not for each request.
        ErrorCode::TemporarilyUnavailable => {
            tracing::debug!(endpoint, client_id, grant_type, reason, cause, "try again");
        }
        ErrorCode::ServerError => {
            tracing::error!(
                endpoint,
                client_id,
                grant_type,
                reason,
                cause,
                "request failed"
            );
        }
    }
    if matches!(
        refusal.code,
        ErrorCode::InvalidClient | ErrorCode::TooManyRequests
    ) {
        call.service.metrics.client_refused(reason);
    }
}

/// True for what is not in the audit log. The request for a nonce is a step of every client with proofs (RFC 9449 §8), not an
/// incident. A client that must wait is named by the entries of its earlier guesses; more entries could only flood the log.
const fn has_no_entry(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::UseDpopNonce | ErrorCode::TooManyRequests)
}

/// The client that a refused request claims to be. `None` if there is no entry for it, and if the store may have failed,
/// because another look-up would keep the client waiting.
async fn claimed_client(call: &ClientCall, refusal: &Refusal) -> Option<ClaimedClient> {
    if has_no_entry(refusal.code) || refusal.code == ErrorCode::TemporarilyUnavailable {
        return None;
    }
    let directory = call.service.directory();
    ClaimedClient::find(directory, call.claimed_ids()).await
}

/// Adds the claimed client to a refusal, so that operators find guesses of one client's secret by its id. The client is
/// not the actor, because it was not authenticated.
fn refused_client(entry: Entry, claimed: Option<ClaimedClient>, description: &str) -> Entry {
    match claimed {
        Some(ClaimedClient::Registered(client_id)) => entry.client(client_id).detail(description),
        Some(ClaimedClient::Unknown(excerpt)) => {
            entry.detail(format!("{description} (claimed client: {excerpt})"))
        }
        None => entry.detail(description),
    }
}
