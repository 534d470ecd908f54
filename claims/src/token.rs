//! Types and claims of the tokens of the current flows (protocol.md §2.1, §2.2; RFC 9068). `Text` is an owned
//! string for reading claims, and may be a borrowed string for writing them.

use serde::{Deserialize, Serialize};

use crate::Confirmation;

/// `typ` of an access token (RFC 9068 §2.1). The filter accepts no other `typ` from the token service.
pub const ACCESS_TOKEN_TYPE: &str = "at+jwt";
/// `typ` of a refresh token. Only the token endpoint accepts it.
pub const REFRESH_TOKEN_TYPE: &str = "rt+jwt";
/// `typ` of the identity service's token in the claim `idcs_access_token`. No part accepts it as a bearer
/// token.
pub const IDENTITY_TOKEN_TYPE: &str = "idcs+jwt";
/// `typ` of a user assertion (protocol.md §2.3).
pub const ASSERTION_TYPE: &str = "JWT";

/// The claims of an access token (protocol.md §2.2, RFC 9068 §2.2). Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessTokenClaims<Text = String> {
    /// The issuer: {lobby_url}.
    pub iss: Text,
    /// The resource server: {api_url}.
    pub aud: Text,
    /// The authorization-server account.
    pub sub: Text,
    pub client_id: Text,
    /// The token of the identity service, itself a JWT.
    pub idcs_access_token: Text,
    /// Username of the linked project-information account.
    pub user_hat: Text,
    /// User ID of the linked project-information account.
    pub user_id: Text,
    /// URL of the instance on which that account is located.
    pub user_site: Text,
    /// Authorized scopes, joined by spaces.
    pub scope: Text,
    /// Authentication methods, for example `USERNAME_PASSWORD`, `TOTP`.
    pub amr: Vec<Text>,
    /// What the methods amount to; absent for one factor (RFC 9068 §2.2.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acr: Option<Text>,
    /// When the user signed in, in seconds since 1970; absent if no user did (RFC 9068 §2.2.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_time: Option<u64>,
    pub iat: u64,
    /// Time from which the token is refused.
    pub exp: u64,
    /// Unique for each token.
    pub jti: Text,
    /// The authorization from which the token was issued. Revoking the authorization revokes all its tokens.
    pub grant_id: Text,
    /// What the client must prove when it uses the token; absent for a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cnf: Option<Confirmation>,
}

/// The claims of a refresh token. The store holds its state under `grant_id`; the signature proves that the
/// token service issued the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshTokenClaims<Text = String> {
    /// The issuer: {lobby_url}.
    pub iss: Text,
    /// The issuer too, because only its token endpoint accepts the token.
    pub aud: Text,
    /// The authorization-server account.
    pub sub: Text,
    pub client_id: Text,
    /// Seconds since 1970.
    pub iat: u64,
    /// Seconds since 1970.
    pub exp: u64,
    /// Unique for each token: one step in the rotation of the grant.
    pub jti: Text,
    /// The authorization from which the token was issued.
    pub grant_id: Text,
}

/// The claims of the identity service's token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityTokenClaims<Text = String> {
    /// The identity service: {identity_audience_url}.
    pub iss: Text,
    /// The identity service: {identity_audience_url}.
    pub aud: Text,
    /// The authorization-server account.
    pub sub: Text,
    /// Seconds since 1970.
    pub iat: u64,
    /// Seconds since 1970.
    pub exp: u64,
    pub jti: Text,
}
