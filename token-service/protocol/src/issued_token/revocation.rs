//! Revocation (RFC 7009): a client ends a token that it no longer needs.
//!
//! Parameters: `token`; `token_type_hint` is not needed, the token says what it is.

use std::time::Duration;

use super::{OpaqueRefresh, read, read_opaque};
use crate::Context;
use crate::oauth::endpoint_request::EndpointRequest;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::token::{IssuedToken, TokenUse};
use domain::{ClientId, Extent, GrantId, TokenSubject, Username};

/// What a request ended, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The client.
    pub client_id: ClientId,
    /// The user; `None` for an access token that does not name the user.
    pub username: Option<Username>,
    /// The authorization.
    pub grant_id: GrantId,
}

/// Ends the token of the request. A refresh token takes its whole authorization with it (RFC 7009 §2.1: "the
/// authorization server SHOULD also invalidate all access tokens based on the same authorization grant"); an
/// access token goes alone.
///
/// Unknown tokens and those that are revoked or expired are left as they are: RFC 7009 §2.2, "invalid tokens do not cause
/// an error response". For those the answer is `None`.
///
/// `admit` is asked before something is written; it answers how long the client is to wait if it revokes too often.
///
/// # Errors
/// A [`TokenError`] when the request is malformed, the client is not authenticated or revokes too often, the token was
/// issued to another client (RFC 7009 §2.1: "the request is refused"), or the store failed: the token then lives, and the
/// client must know.
pub async fn revoke(
    context: &Context<'_>,
    request: &EndpointRequest<'_>,
    admit: impl FnOnce(&ClientId) -> Result<(), Duration>,
) -> Result<Option<Ended>, TokenError> {
    let (form, presented) = request.open_for_any_flow(context.registry)?;
    presented.note_use(context);
    let client_id = &presented.fully_authenticated()?.client_id;
    let admit = || {
        admit(client_id).map_err(|wait| TokenError::TooManyRevocations {
            client_id: client_id.clone(),
            wait,
        })
    };
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
        admit()?;
        let ended = context
            .store
            .revoke_grant(grant.grant_id, context.now)
            .await?;
        return Ok(ended.then_some(Ended {
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
            admit()?;
            store.revoke_grant(reference.grant_id, context.now).await?
        }
        TokenUse::Access => {
            if expires_at <= context.now || store.is_revoked(reference.clone()).await? {
                return Ok(None);
            }
            admit()?;
            let extent = Extent {
                at: context.now,
                expires_at,
            };
            let [_, itself] = reference.ended_by();
            store.announce(itself, extent).await?
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
    Ok(ended.then_some(Ended {
        client_id: reference.client_id,
        username,
        grant_id: reference.grant_id,
    }))
}
