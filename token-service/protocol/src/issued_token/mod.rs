//! Reads issued tokens, for revocation and introspection.

pub mod introspection;
pub mod revocation;

use claims::RefreshTokenClaims;
use claims::token::{ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE};
use serde_json::Value;

use crate::Context;
use crate::flows;
use crate::token::IssuedToken;
use domain::{Grant, TokenId};
use store::StoreError;

/// Reads a token. `None` if this service did not sign the token. Does not check times.
pub fn read(context: &Context<'_>, token: &str) -> Option<IssuedToken> {
    let settings = context.settings;
    if let Some(claims) = context.keys.verify(token, REFRESH_TOKEN_TYPE) {
        let claims: RefreshTokenClaims = serde_json::from_value(Value::Object(claims)).ok()?;
        let ours = claims.iss == settings.issuer && claims.aud == settings.issuer;
        return IssuedToken::refresh(claims).filter(|_| ours);
    }
    let claims = context.keys.verify(token, ACCESS_TOKEN_TYPE)?;
    let issuer = claims.get("iss").and_then(Value::as_str)?;
    let flow = flows::of_issuer(context, issuer)?;
    let token = flow.access_token(Value::Object(claims))?;
    (token.audience == settings.api_audience).then_some(token)
}

/// A refresh token that is not a JWT, with its grant.
struct OpaqueRefresh {
    /// The token's id within its grant.
    refresh_id: TokenId,
    /// OAuth2 is enabled where the token is used.
    is_enabled: bool,
    grant: Grant,
}

/// Reads a refresh token that is not a JWT. `None` if this service did not issue the token or the store has deleted its
/// grant.
async fn read_opaque(
    context: &Context<'_>,
    text: &str,
) -> Result<Option<OpaqueRefresh>, StoreError> {
    let Some((_, token)) = flows::opaque_refresh_token(context, text) else {
        return Ok(None);
    };
    let grant = context.store.grant(token.grant_id).await?;
    Ok(grant.map(|grant| OpaqueRefresh {
        refresh_id: token.refresh_id,
        is_enabled: token.is_enabled,
        grant,
    }))
}
