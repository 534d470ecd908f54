//! Revocation (RFC 7009): a client revokes a token that it no longer needs.
//!
//! Parameters: `token`. `token_type_hint` is ignored, because the token itself shows its type.

use std::sync::Arc;
use std::time::Duration;

use super::{OpaqueRefresh, read, read_opaque};
use crate::Context;
use crate::oauth::client_authentication::Served;
use crate::oauth::endpoint_request::EndpointRequest;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::token::{IssuedToken, TokenUse};
use domain::{ClientId, Extent, GrantId, TokenSubject, Username};

/// What a request revoked, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedToken {
    pub client_id: ClientId,
    /// `None` for an access token that does not name the user.
    pub username: Option<Username>,
    pub grant_id: GrantId,
}

/// Revokes the token of the request. Revoking a refresh token revokes the whole grant (RFC 7009 §2.1: "the
/// authorization server SHOULD also invalidate all access tokens based on the same authorization grant"). Revoking an
/// access token revokes only that token.
///
/// Returns `None` for unknown, revoked and expired tokens and changes nothing: RFC 7009 §2.2, "invalid tokens do not
/// cause an error response".
///
/// The service calls `admit` before it revokes an access token. If the client revokes too many, `admit` returns the time to
/// wait. Refresh tokens are exempt: a grant ends only once, so each of these revocations needs another code, and a person gets
/// codes by signing in. Otherwise one user of a public client, by revoking and refreshing, would keep the other users from
/// signing out.
///
/// # Errors
/// A [`TokenError`] if the request is malformed, the client is not authenticated or revokes too many access tokens, the
/// token was issued to another client (RFC 7009 §2.1: "the request is refused"), or the store failed. After a failure of the
/// store the token may still be valid, so the client must get an error.
pub async fn revoke(
    context: &Context<'_>,
    request: &EndpointRequest<'_>,
    admit: impl FnOnce(&ClientId) -> Result<(), Duration>,
) -> Result<Option<RevokedToken>, TokenError> {
    let (form, presented) = request.open(context, Served::AnyFlow).await?;
    presented.note_use(context);
    let client_id = &presented.fully_authenticated()?.client_id;
    let text = required(&form, Parameter::Token)?;
    let Some(token) = read(context, text) else {
        let Some(OpaqueRefresh { grant, .. }) = read_opaque(context, text).await? else {
            return Ok(None);
        };
        if grant.client_id != *client_id {
            return Err(TokenError::TokenOfOtherClient);
        }
        if grant.revoked_at.is_some() {
            return Ok(None);
        }
        let ended = context
            .store
            .revoke_grant(grant.grant_id, Arc::default(), context.now)
            .await?;
        return Ok(ended.then_some(RevokedToken {
            client_id: grant.client_id,
            username: Some(grant.username),
            grant_id: grant.grant_id,
        }));
    };
    let IssuedToken {
        token_use,
        reference,
        expires_at,
        ..
    } = token;
    if reference.client_id != *client_id {
        return Err(TokenError::TokenOfOtherClient);
    }
    let store = context.store;
    let ended = match token_use {
        TokenUse::Refresh => {
            let grant = store.grant(reference.grant_id).await?;
            if grant.is_none_or(|grant| grant.revoked_at.is_some()) {
                return Ok(None);
            }
            let ended = store.revoke_grant(reference.grant_id, Arc::default(), context.now);
            ended.await?
        }
        TokenUse::Access => {
            if expires_at <= context.now || store.is_revoked(reference.clone()).await? {
                return Ok(None);
            }
            admit(client_id).map_err(|wait| TokenError::TooManyRevocations {
                client_id: client_id.clone(),
                wait,
            })?;
            let extent = Extent {
                at: context.now,
                expires_at,
            };
            let [_, itself] = reference.ended_by();
            store.announce(itself, extent, Arc::default()).await?
        }
    };
    let username = match reference.subject {
        TokenSubject::User { username, .. } => Some(username),
        TokenSubject::Account { .. } => None,
    };
    if let (TokenUse::Access, Some(username)) = (token_use, &username) {
        context
            .identity_tokens
            .forget(&reference.client_id, username);
    }
    Ok(ended.then_some(RevokedToken {
        client_id: reference.client_id,
        username,
        grant_id: reference.grant_id,
    }))
}
