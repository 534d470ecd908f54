//! Refresh (protocol.md §4.2 rule 1, RFC 6749 §6, D-3).
//!
//! Parameters: `refresh_token`, `scope`.

use std::sync::Arc;

use claims::token::REFRESH_TOKEN_TYPE;
use serde_json::{Map, Value};

use super::{answer_step, requested_scope, rotate};
use crate::Context;
use crate::oauth::client_authentication::PresentedClient;
use crate::oauth::error::{TokenError, required};
use crate::oauth::parameter::Parameter;
use crate::oauth::parameters::Parameters;
use crate::oauth::possession::Possession;
use crate::oauth::token_response::TokenResponse;
use domain::{
    Client, GrantId, IntegrationType, RefreshRotation, RotationRefusal, TokenId, Username,
};

/// Exchanges a refresh token for a new pair of tokens.
///
/// # Errors
/// A [`TokenError`]. Reuse of a token after its grace period has revoked the grant.
pub async fn refresh(
    context: &Context<'_>,
    presented: &PresentedClient,
    form: &Parameters<'_>,
    possession: Possession,
) -> Result<TokenResponse, TokenError> {
    let client = presented.client();
    if !may_refresh(client) {
        return Err(TokenError::GrantNotPermitted);
    }
    let token = required(form, Parameter::RefreshToken)?;
    let claims = context
        .keys
        .verify(token, REFRESH_TOKEN_TYPE)
        .ok_or(TokenError::RefreshToken)?;
    let (grant_id, refresh_id) = read(&claims, context).ok_or(TokenError::RefreshToken)?;
    let username = claims.get("sub").and_then(Value::as_str);
    let rotation = RefreshRotation {
        grant_id,
        refresh_id,
        client_id: client.client_id.clone(),
        username: username.and_then(Username::parse),
        proven: possession.proven(),
        scope: requested_scope(form)?,
        second_factor: Arc::clone(&context.settings.second_factor),
        next_refresh_id: TokenId::generate(context.random)?,
        next_access_id: TokenId::generate(context.random)?,
        now: context.now,
        lifetime: context.settings.lifetimes.refresh_token,
        grace: context.settings.lifetimes.refresh_reuse_grace,
    };
    // Before the proof is used up, and again with the rotation.
    if rotation.proven.jkt.is_some() {
        let grant = context.store.grant(grant_id).await?;
        let grant = grant.ok_or(TokenError::Refresh(RotationRefusal::Unknown))?;
        let checked = grant.lives_for(&client.client_id);
        let checked = checked.and_then(|()| grant.is_bound_to(rotation.proven));
        checked.map_err(TokenError::Refresh)?;
    }
    let binding = possession.use_up(context).await?;
    let issued = rotate(context, rotation, context.settings.lifetimes.access_token).await?;
    answer_step(context, &issued, binding)
}

/// True if the client's integration type uses refresh tokens (protocol.md §4.2).
pub const fn may_refresh(client: &Client) -> bool {
    matches!(
        client.integration,
        IntegrationType::WebServer { .. } | IntegrationType::Installed { .. }
    )
}

/// Reads the ids of a token. The store has its state and expiry, so the claims only have to come from this service.
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
