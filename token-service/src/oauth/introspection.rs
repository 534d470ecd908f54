//! Introspection (RFC 7662): a client asks what one of its tokens is worth.
//!
//! Parameters: `token`; `token_type_hint` is not needed, the token says what it is.

use serde::Serialize;

use super::Context;
use super::client_authentication::PresentedClient;
use super::endpoint_request::EndpointRequest;
use super::error::TokenError;
use super::issued_token::IssuedToken;
use crate::store::TokenReference;

/// The answer. An inactive token has `active` alone: RFC 7662 §2.2, "SHOULD NOT include any additional
/// information about an inactive token, including why the token is inactive".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Introspection {
    /// Whether the token would be accepted now.
    pub active: bool,
    /// Everything else, for an active token.
    #[serde(flatten)]
    pub token: Option<ActiveToken>,
}

/// An active token (RFC 7662 §2.2). Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActiveToken {
    /// `Bearer` for access tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<&'static str>,
    /// Scope, of access tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The client that it was issued to.
    pub client_id: String,
    /// The user, as people know it.
    pub username: String,
    /// The user.
    pub sub: String,
    /// Issuer.
    pub iss: String,
    /// Audience.
    pub aud: String,
    /// Unique id.
    pub jti: String,
    /// Issue time.
    pub iat: u64,
    /// Expiry time.
    pub exp: u64,
}

/// Tells what the token of the request is worth. A client learns nothing of other clients' tokens.
///
/// # Errors
/// A [`TokenError`] when the request is malformed, the client did not prove a secret (RFC 7662 §2.1 demands
/// authorization), or the store failed.
pub async fn introspect(
    context: &Context<'_>,
    request: EndpointRequest<'_>,
) -> Result<Introspection, TokenError> {
    let (form, presented) = request.open(context.registry)?;
    let PresentedClient::Authenticated(client) = presented else {
        return Err(TokenError::SecretRequired);
    };
    let token = form.get("token").ok_or(TokenError::Missing("token"))?;
    let Some(token) = IssuedToken::read(context, token) else {
        return Ok(Introspection::default());
    };
    let reference = token.reference();
    let Some(reference) = reference.filter(|token| token.client_id == client.client_id) else {
        return Ok(Introspection::default());
    };
    if !is_active(context, &token, &reference).await? {
        return Ok(Introspection::default());
    }
    Ok(Introspection {
        active: true,
        token: Some(describe(token)),
    })
}

async fn is_active(
    context: &Context<'_>,
    token: &IssuedToken,
    reference: &TokenReference,
) -> Result<bool, TokenError> {
    let user_lives = context.registry.user(reference.username.as_str()).is_some();
    let in_time = match token {
        IssuedToken::Access(claims) => context.now.seconds() < claims.exp,
        IssuedToken::Refresh(claims) => context.now.seconds() < claims.exp,
    };
    if !user_lives || !in_time {
        return Ok(false);
    }
    match token {
        IssuedToken::Access(_) => Ok(!context.store.is_revoked(reference.clone()).await?),
        IssuedToken::Refresh(_) => {
            let grant = context.store.grant(reference.grant_id).await?;
            Ok(grant.is_some_and(|grant| {
                grant.revoked_at.is_none() && grant.current.refresh_id == reference.token_id
            }))
        }
    }
}

fn describe(token: IssuedToken) -> ActiveToken {
    match token {
        IssuedToken::Access(claims) => ActiveToken {
            token_type: Some("Bearer"),
            scope: Some(claims.scope),
            client_id: claims.client_id,
            username: claims.sub.clone(),
            sub: claims.sub,
            iss: claims.iss,
            aud: claims.aud,
            jti: claims.jti,
            iat: claims.iat,
            exp: claims.exp,
        },
        IssuedToken::Refresh(claims) => ActiveToken {
            token_type: None,
            scope: None,
            client_id: claims.client_id,
            username: claims.sub.clone(),
            sub: claims.sub,
            iss: claims.iss,
            aud: claims.aud,
            jti: claims.jti,
            iat: claims.iat,
            exp: claims.exp,
        },
    }
}
