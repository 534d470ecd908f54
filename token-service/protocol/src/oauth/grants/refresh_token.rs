//! Refresh (protocol.md §4.2 rule 1, RFC 6749 §6, D-3).
//!
//! Parameters: `refresh_token`, `scope`.

use claims::token::REFRESH_TOKEN_TYPE;
use serde_json::{Map, Value};

use super::{answer_step, requested_scope, rotate};
use crate::Context;
use crate::oauth::client_authentication::PresentedClient;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::Parameters;
use crate::oauth::token_response::TokenResponse;
use domain::{Client, GrantId, IntegrationType, RefreshRotation, TokenId};

/// Exchanges a refresh token for a new pair of tokens.
///
/// # Errors
/// A [`TokenError`]; a token that was used before its grace ended its grant.
pub async fn refresh(
    context: &Context<'_>,
    presented: &PresentedClient,
    form: &Parameters<'_>,
) -> Result<TokenResponse, TokenError> {
    let client = presented.fully_authenticated()?;
    if !may_refresh(client) {
        return Err(TokenError::GrantNotPermitted);
    }
    let token = required(form, Parameter::RefreshToken)?;
    let claims = context
        .keys
        .verify(token, REFRESH_TOKEN_TYPE)
        .ok_or(TokenError::RefreshToken)?;
    let (grant_id, refresh_id) = read(&claims, context).ok_or(TokenError::RefreshToken)?;
    let rotation = RefreshRotation {
        grant_id,
        refresh_id,
        client_id: client.client_id.clone(),
        scope: requested_scope(form)?,
        next_refresh_id: TokenId::generate(context.random)?,
        next_access_id: TokenId::generate(context.random)?,
        now: context.now,
        lifetime: context.settings.lifetimes.refresh_token,
        grace: context.settings.lifetimes.refresh_reuse_grace,
    };
    let issued = rotate(context, rotation).await?;
    answer_step(context, &issued)
}

/// Whether the client's integration type refreshes tokens (protocol.md §4.2).
#[must_use]
pub const fn may_refresh(client: &Client) -> bool {
    matches!(
        client.integration,
        IntegrationType::WebServer { .. } | IntegrationType::Installed { .. }
    )
}

/// The state of a token, its expiry too, is in the store under these ids; the claims only have to be ours.
fn read(claims: &Map<String, Value>, context: &Context<'_>) -> Option<(GrantId, TokenId)> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let issuer = context.settings.issuer.as_str();
    if text("iss")? != issuer || text("aud")? != issuer {
        return None;
    }
    Some((
        GrantId::parse(text("grant_id")?)?,
        TokenId::parse(text("jti")?)?,
    ))
}
