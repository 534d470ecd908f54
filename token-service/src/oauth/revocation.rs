//! Revocation (RFC 7009): a client ends a token that it no longer needs.
//!
//! Parameters: `token`; `token_type_hint` is not needed, the token says what it is.

use super::Context;
use super::endpoint_request::EndpointRequest;
use super::error::TokenError;
use super::issued_token::IssuedToken;
use crate::clock::Timestamp;

/// Ends the token of the request. A refresh token takes its whole authorization with it (RFC 7009 §2.1: "the
/// authorization server SHOULD also invalidate all access tokens based on the same authorization grant"); an
/// access token goes alone.
///
/// Unknown tokens and those of other clients are left as they are, and the answer is the same: RFC 7009 §2.2,
/// "invalid tokens do not cause an error response".
///
/// # Errors
/// A [`TokenError`] when the request is malformed, the client is not authenticated, or the store failed: the
/// token then lives, and the client must know.
pub async fn revoke(context: &Context<'_>, request: EndpointRequest<'_>) -> Result<(), TokenError> {
    let (form, presented) = request.open(context.registry)?;
    let client = presented.fully_authenticated()?;
    let token = form.get("token").ok_or(TokenError::Missing("token"))?;
    let Some(token) = IssuedToken::read(context, token) else {
        return Ok(());
    };
    let Some(reference) = token.reference() else {
        return Ok(());
    };
    if reference.client_id != client.client_id {
        return Ok(());
    }
    match token {
        IssuedToken::Refresh(_) => {
            context
                .store
                .revoke_grant(reference.grant_id, context.now)
                .await?;
        }
        IssuedToken::Access(claims) => {
            let expires_at = Timestamp::from_seconds(claims.exp);
            if context.now < expires_at {
                context
                    .store
                    .revoke_token(reference.token_id, expires_at, context.now)
                    .await?;
            }
        }
    }
    Ok(())
}
