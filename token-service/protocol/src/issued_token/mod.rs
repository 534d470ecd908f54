//! A token that this service issued, as revocation and introspection receive it.

pub mod introspection;
pub mod revocation;

use claims::token::{ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE};
use claims::{AccessTokenClaims, RefreshTokenClaims};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Context;
use crate::legacy::access_token;
use crate::legacy::refresh_token::LegacyRefreshToken;
use domain::clock::Timestamp;
use domain::{ClientId, Grant, GrantId, TokenId, TokenReference, TokenSubject, Username};
use store::StoreError;

/// A token that this service signed, whatever has become of it since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuedToken {
    /// An access token.
    Access(Box<AccessTokenClaims>),
    /// A refresh token.
    Refresh(RefreshTokenClaims),
    /// An access token of the legacy flow.
    Legacy(Box<LegacyClaims>),
}

/// What the claims of a legacy access token say.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LegacyClaims {
    /// `https://{hostname}` of the instance.
    pub iss: String,
    /// The resource server.
    pub aud: String,
    /// User ID of the linked account.
    pub sub: String,
    /// The client.
    pub client_id: String,
    /// Issue time, seconds since 1970.
    pub iat: u64,
    /// Expiry time, seconds since 1970.
    pub exp: u64,
    /// Unique id: [`TokenId::legacy`].
    pub jti: String,
    /// The authorization.
    pub grant_id: String,
}

impl IssuedToken {
    /// Reads a token. `None` if this service did not issue it. Times are not compared.
    #[must_use]
    pub fn read(context: &Context<'_>, token: &str) -> Option<Self> {
        let settings = context.settings;
        if let Some(claims) = context.keys.verify(token, REFRESH_TOKEN_TYPE) {
            let claims: RefreshTokenClaims = read(Value::Object(claims))?;
            let ours = claims.iss == settings.issuer && claims.aud == settings.issuer;
            return ours.then_some(Self::Refresh(claims));
        }
        let claims = Value::Object(context.keys.verify(token, ACCESS_TOKEN_TYPE)?);
        let issuer = claims.get("iss").and_then(Value::as_str)?;
        if issuer == settings.issuer {
            let claims: AccessTokenClaims = read(claims)?;
            return (claims.aud == settings.api_audience).then(|| Self::Access(Box::new(claims)));
        }
        let mut instances = context.registry.legacy_instances().iter();
        let is_legacy =
            instances.any(|instance| access_token::issuer(&instance.hostname) == issuer);
        if !is_legacy {
            return None;
        }
        let claims: LegacyClaims = read(claims)?;
        (claims.aud == settings.api_audience).then(|| Self::Legacy(Box::new(claims)))
    }

    /// The client that it was issued to.
    #[must_use]
    pub fn client_id(&self) -> &str {
        match self {
            Self::Access(claims) => &claims.client_id,
            Self::Refresh(claims) => &claims.client_id,
            Self::Legacy(claims) => &claims.client_id,
        }
    }

    /// Its expiry, in seconds since 1970.
    #[must_use]
    pub const fn expires_at(&self) -> u64 {
        match self {
            Self::Access(claims) => claims.exp,
            Self::Refresh(claims) => claims.exp,
            Self::Legacy(claims) => claims.exp,
        }
    }

    /// Everything by which the token may have been revoked. `None` if this service made no such id.
    #[must_use]
    pub fn reference(&self) -> Option<TokenReference> {
        let (issuer, jti, grant_id, iat) = match self {
            Self::Access(claims) => (&claims.iss, &claims.jti, &claims.grant_id, claims.iat),
            Self::Refresh(claims) => (&claims.iss, &claims.jti, &claims.grant_id, claims.iat),
            Self::Legacy(claims) => (&claims.iss, &claims.jti, &claims.grant_id, claims.iat),
        };
        let subject = match self {
            Self::Access(claims) => TokenSubject::User {
                username: Username::parse(&claims.sub)?,
                account: Some((claims.user_id.clone(), claims.user_site.clone())),
            },
            Self::Refresh(claims) => TokenSubject::User {
                username: Username::parse(&claims.sub)?,
                account: None,
            },
            Self::Legacy(claims) => TokenSubject::Legacy {
                user_id: claims.sub.clone(),
            },
        };
        let token_id = match self {
            Self::Access(_) | Self::Refresh(_) => TokenId::parse(jti)?,
            Self::Legacy(_) => TokenId::parse_legacy(jti)?,
        };
        Some(TokenReference {
            issuer: issuer.clone(),
            token_id,
            grant_id: GrantId::parse(grant_id)?,
            client_id: ClientId::parse(self.client_id())?,
            subject,
            issued_at: Timestamp::from_seconds(iat),
        })
    }
}

fn read<T: DeserializeOwned>(claims: Value) -> Option<T> {
    serde_json::from_value(claims).ok()
}

/// A legacy refresh token that this service made, on one of its instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyRefresh {
    /// The id of the token, among those of its grant.
    pub refresh_id: TokenId,
    /// The grant of the token.
    pub grant: Grant,
}

impl LegacyRefresh {
    /// Reads a token. `None` if this service did not issue it, or its grant is forgotten.
    ///
    /// # Errors
    /// The store's.
    pub async fn read(context: &Context<'_>, text: &str) -> Result<Option<Self>, StoreError> {
        let key = context.encryption_key;
        let mut instances = context.registry.legacy_instances().iter();
        let found = instances.find_map(|instance| {
            let token = LegacyRefreshToken::parse(text, &instance.hostname, key)?;
            Some((token.grant_id, token.id(&instance.hostname, key)))
        });
        let Some((grant_id, refresh_id)) = found else {
            return Ok(None);
        };
        let grant = context.store.grant(grant_id).await?;
        Ok(grant.map(|grant| Self { refresh_id, grant }))
    }
}
