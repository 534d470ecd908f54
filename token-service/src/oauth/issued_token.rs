//! A token of ours that comes back to us, for revocation and introspection.

use claims::token::{ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE};
use claims::{AccessTokenClaims, RefreshTokenClaims};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Context;
use crate::clock::Timestamp;
use crate::registry::{ClientId, Username};
use crate::store::{GrantId, TokenId, TokenReference};

/// A token that this service signed, whatever has become of it since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuedToken {
    /// An access token.
    Access(Box<AccessTokenClaims>),
    /// A refresh token.
    Refresh(RefreshTokenClaims),
}

impl IssuedToken {
    /// Reads a token; `None` when it is not one of ours. Times are not compared.
    #[must_use]
    pub fn read(context: &Context<'_>, token: &str) -> Option<Self> {
        let config = context.config;
        if let Some(claims) = claims::<RefreshTokenClaims>(context, token, REFRESH_TOKEN_TYPE) {
            let ours = claims.iss == config.issuer && claims.aud == config.issuer;
            return ours.then_some(Self::Refresh(claims));
        }
        let claims = claims::<AccessTokenClaims>(context, token, ACCESS_TOKEN_TYPE)?;
        let ours = claims.iss == config.issuer && claims.aud == config.api_audience;
        ours.then(|| Self::Access(Box::new(claims)))
    }

    /// The client that it was issued to.
    #[must_use]
    pub fn client_id(&self) -> &str {
        match self {
            Self::Access(claims) => &claims.client_id,
            Self::Refresh(claims) => &claims.client_id,
        }
    }

    /// Its expiry, in seconds since 1970.
    #[must_use]
    pub const fn expires_at(&self) -> u64 {
        match self {
            Self::Access(claims) => claims.exp,
            Self::Refresh(claims) => claims.exp,
        }
    }

    /// The ids under which it may have been revoked; `None` when one of them is none of ours.
    #[must_use]
    pub fn reference(&self) -> Option<TokenReference> {
        let (jti, grant_id, client_id, sub, iat) = match self {
            Self::Access(claims) => (
                &claims.jti,
                &claims.grant_id,
                &claims.client_id,
                &claims.sub,
                claims.iat,
            ),
            Self::Refresh(claims) => (
                &claims.jti,
                &claims.grant_id,
                &claims.client_id,
                &claims.sub,
                claims.iat,
            ),
        };
        Some(TokenReference {
            token_id: TokenId::parse(jti)?,
            grant_id: GrantId::parse(grant_id)?,
            client_id: ClientId::parse(client_id)?,
            username: Username::parse(sub)?,
            issued_at: Timestamp::from_seconds(iat),
        })
    }
}

fn claims<T: DeserializeOwned>(context: &Context<'_>, token: &str, typ: &str) -> Option<T> {
    let claims = context.keys.verify(token, typ)?;
    serde_json::from_value(Value::Object(claims)).ok()
}
