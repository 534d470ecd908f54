//! Introspection (RFC 7662): a client asks whether one of its tokens is active.
//!
//! Parameters: `token`. `token_type_hint` is ignored, because the token itself shows its type.

use claims::Confirmation;
use serde::Serialize;
use utoipa::ToSchema;

use super::{OpaqueRefresh, read, read_opaque};
use crate::Context;
use crate::oauth::client_authentication::Served;
use crate::oauth::endpoint_request::EndpointRequest;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::token::{Binding, IssuedToken, TokenUse};
use domain::{Client, Grant, TokenId, TokenSubject, User, Username};

/// The response. For an inactive token, only `active`: RFC 7662 §2.2, "SHOULD NOT include any additional information
/// about an inactive token, including why the token is inactive".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Introspection {
    /// Whether the token would be accepted now.
    pub active: bool,
    /// Further members, for an active token.
    #[serde(flatten)]
    #[schema(value_type = ActiveToken)]
    pub token: Option<ActiveToken>,
}

/// An active token (RFC 7662 §2.2). Times are in seconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ActiveToken {
    /// `Bearer` or `DPoP`, for access tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<&'static str>,
    /// For access tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[schema(required = false)]
    pub client_id: String,
    #[schema(required = false)]
    pub username: String,
    /// The user; for tokens of the legacy flow the User ID of the linked account.
    #[schema(required = false)]
    pub sub: String,
    /// Issuer; legacy refresh tokens have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// Audience; legacy refresh tokens have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<String>,
    /// Unique id; legacy refresh tokens have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
    #[schema(required = false)]
    pub iat: u64,
    #[schema(required = false)]
    pub exp: u64,
    /// What the client must prove when it uses the token (RFC 9449 §6.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub cnf: Option<Confirmation>,
}

/// Returns the state of the token in the request. A client learns nothing about other clients' tokens.
///
/// # Errors
/// A [`TokenError`] if the request is malformed, the client did not authenticate (RFC 7662 §2.1 requires
/// authorization), or the store failed.
pub async fn introspect(
    context: &Context<'_>,
    request: &EndpointRequest<'_>,
) -> Result<Introspection, TokenError> {
    let (form, presented) = request.open(context, Served::AnyFlow).await?;
    presented.note_use(context);
    let client = presented.authenticated()?;
    let text = required(&form, Parameter::Token)?;
    let client_id = client.client_id.as_str();
    let active = match read(context, text) {
        Some(token) if token.reference.client_id.as_str() == client_id => {
            active(context, client, token).await?
        }
        Some(_) => None,
        None => active_opaque_refresh(context, text, client).await?,
    };
    Ok(Introspection {
        active: active.is_some(),
        token: active,
    })
}

/// The members for a JWT, if the token is active.
async fn active(
    context: &Context<'_>,
    client: &Client,
    token: IssuedToken,
) -> Result<Option<ActiveToken>, TokenError> {
    if token.expires_at <= context.now {
        return Ok(None);
    }
    let reference = &token.reference;
    let grant_id = reference.grant_id;
    let username = match &reference.subject {
        TokenSubject::User { username, .. } => Some(username.clone()),
        // Only the grant contains the user.
        TokenSubject::Account { .. } => {
            let grant = context.store.grant(grant_id).await?;
            grant.map(|grant| grant.username)
        }
    };
    let Some(username) = username else {
        return Ok(None);
    };
    let Some(user) = context.directory.user(username.as_str()).await? else {
        return Ok(None);
    };
    let active = match token.token_use {
        TokenUse::Access => !context.store.is_revoked(reference.clone()).await?,
        TokenUse::Refresh => {
            let grant = context.store.grant(grant_id).await?;
            grant.is_some_and(|grant| refreshes(context, &grant, reference.token_id, client, &user))
        }
    };
    Ok(active.then(|| describe(token, &username)))
}

/// True if this refresh token of the grant of `client` for `user` is the live one, and the sign-in is still enough (D-56).
fn refreshes(
    context: &Context<'_>,
    grant: &Grant,
    refresh_id: TokenId,
    client: &Client,
    user: &User,
) -> bool {
    let rules = &context.settings.second_factor;
    grant.lives_for(&client.client_id).is_ok()
        && grant.current.refresh_id == refresh_id
        && rules.accept(&grant.amr, user, client)
}

/// A refresh token that is not a JWT has no claims, so its members come from the grant.
async fn active_opaque_refresh(
    context: &Context<'_>,
    text: &str,
    client: &Client,
) -> Result<Option<ActiveToken>, TokenError> {
    let Some(opaque) = read_opaque(context, text).await? else {
        return Ok(None);
    };
    let OpaqueRefresh {
        refresh_id,
        is_enabled,
        grant,
    } = opaque;
    let step = &grant.current;
    let user = context.directory.user(grant.username.as_str()).await?;
    let active = is_enabled
        && context.now < step.refresh_expires_at
        && user.is_some_and(|user| refreshes(context, &grant, refresh_id, client, &user));
    Ok(active.then(|| ActiveToken {
        client_id: grant.client_id.to_string(),
        username: grant.username.to_string(),
        sub: grant.account.user_id.clone(),
        iat: step.issued_at.seconds(),
        exp: step.refresh_expires_at.seconds(),
        ..ActiveToken::default()
    }))
}

fn describe(token: IssuedToken, user: &Username) -> ActiveToken {
    let reference = token.reference;
    let binding = token.confirmation.map_or(Binding::Bearer, Binding::To);
    ActiveToken {
        token_type: match token.token_use {
            TokenUse::Access => Some(binding.token_type()),
            TokenUse::Refresh => None,
        },
        scope: token.scope,
        client_id: reference.client_id.to_string(),
        username: user.to_string(),
        sub: token.subject,
        iss: Some(reference.issuer),
        aud: Some(token.audience),
        jti: Some(token.jti),
        iat: reference.issued_at.seconds(),
        exp: token.expires_at.seconds(),
        cnf: binding.confirmation(),
    }
}
