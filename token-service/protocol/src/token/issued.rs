//! An issued token, as revocation, introspection and `explain` read it.

use claims::{AccessTokenClaims, Confirmation, RefreshTokenClaims};

use domain::clock::Timestamp;
use domain::{ClientId, GrantId, TokenId, TokenReference, TokenSubject, Username};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenUse {
    /// For the resource server.
    Access,
    /// For the token endpoint.
    Refresh,
}

/// A token that this service signed. It may have expired or been revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    pub token_use: TokenUse,
    /// All ids by which the token may have been revoked.
    pub reference: TokenReference,
    pub audience: String,
    pub subject: String,
    pub scope: Option<String>,
    pub jti: String,
    /// The claim `cnf`.
    pub confirmation: Option<Confirmation>,
    pub expires_at: Timestamp,
}

impl IssuedToken {
    /// An access token of the current flows. `None` if the ids in the claims are malformed.
    pub fn access(claims: AccessTokenClaims) -> Option<Self> {
        Some(Self {
            token_use: TokenUse::Access,
            reference: TokenReference {
                token_id: TokenId::parse(&claims.jti)?,
                grant_id: GrantId::parse(&claims.grant_id)?,
                client_id: ClientId::parse(&claims.client_id)?,
                subject: TokenSubject::User {
                    username: Username::parse(&claims.sub)?,
                    account: Some((claims.user_id, claims.user_site)),
                },
                bound_to: claims.cnf.unwrap_or_default(),
                issued_at: Timestamp::from_seconds(claims.iat),
                issuer: claims.iss,
            },
            audience: claims.aud,
            subject: claims.sub,
            scope: Some(claims.scope),
            jti: claims.jti,
            confirmation: claims.cnf,
            expires_at: Timestamp::from_seconds(claims.exp),
        })
    }

    /// A refresh token of the current flows. `None` if the ids in the claims are malformed.
    pub fn refresh(claims: RefreshTokenClaims) -> Option<Self> {
        Some(Self {
            token_use: TokenUse::Refresh,
            reference: TokenReference {
                token_id: TokenId::parse(&claims.jti)?,
                grant_id: GrantId::parse(&claims.grant_id)?,
                client_id: ClientId::parse(&claims.client_id)?,
                subject: TokenSubject::User {
                    username: Username::parse(&claims.sub)?,
                    account: None,
                },
                bound_to: Confirmation::default(),
                issued_at: Timestamp::from_seconds(claims.iat),
                issuer: claims.iss,
            },
            audience: claims.aud,
            subject: claims.sub,
            scope: None,
            jti: claims.jti,
            confirmation: None,
            expires_at: Timestamp::from_seconds(claims.exp),
        })
    }
}
