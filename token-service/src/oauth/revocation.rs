//! Revocation (RFC 7009): a client ends a token that it no longer needs.
//!
//! Parameters: `token`; `token_type_hint` is not needed, the token says what it is.

use super::Context;
use super::endpoint_request::EndpointRequest;
use super::error::TokenError;
use super::issued_token::IssuedToken;
use crate::clock::Timestamp;
use crate::store::TokenReference;

/// Ends the token of the request. A refresh token takes its whole authorization with it (RFC 7009 §2.1: "the
/// authorization server SHOULD also invalidate all access tokens based on the same authorization grant"); an
/// access token goes alone.
///
/// Unknown tokens and those of other clients are left as they are, and the answer is the same: RFC 7009 §2.2,
/// "invalid tokens do not cause an error response".
///
/// The answer names the token that was ended, for the audit log.
///
/// # Errors
/// A [`TokenError`] when the request is malformed, the client is not authenticated, or the store failed: the
/// token then lives, and the client must know.
pub async fn revoke(
    context: &Context<'_>,
    request: EndpointRequest<'_>,
) -> Result<Option<TokenReference>, TokenError> {
    let (form, presented) = request.open(context.registry)?;
    let client = presented.fully_authenticated()?;
    let token = form.get("token").ok_or(TokenError::Missing("token"))?;
    let Some(token) = IssuedToken::read(context, token) else {
        return Ok(None);
    };
    let reference = token.reference();
    let Some(reference) = reference.filter(|token| token.client_id == client.client_id) else {
        return Ok(None);
    };
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
                context
                    .identity_tokens
                    .forget(&reference.client_id, &reference.username);
            }
        }
    }
    Ok(Some(reference))
}
