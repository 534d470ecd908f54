//! The tokens of the current flows: types and claims (protocol.md §2.1, §2.2; RFC 9068). Claims that are read own their
//! text; those that are written may borrow it.

use serde::{Deserialize, Serialize};

/// `typ` of an access token (RFC 9068 §2.1). The filter accepts no other.
pub const ACCESS_TOKEN_TYPE: &str = "at+jwt";
/// `typ` of a refresh token: known to the token endpoint alone.
pub const REFRESH_TOKEN_TYPE: &str = "rt+jwt";
/// `typ` of the identity service's token that travels as `idcs_access_token`: accepted nowhere as a bearer token.
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
    /// The client that the token was issued to.
    pub client_id: Text,
    /// The underlying token of the identity service, itself a JWT.
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
    /// Issue time.
    pub iat: u64,
    /// Expiry time: the token is refused from this second on.
    pub exp: u64,
    /// Unique id of this token.
    pub jti: Text,
    /// The authorization that the token comes from. Revoking the authorization ends all its tokens.
    pub grant_id: Text,
}

/// The claims of a refresh token. Its state lives in the store under `grant_id`; the token proves who made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshTokenClaims<Text = String> {
    /// The issuer: {lobby_url}.
    pub iss: Text,
    /// The issuer itself: only its token endpoint accepts the token.
    pub aud: Text,
    /// The authorization-server account.
    pub sub: Text,
    /// The client that the token was issued to.
    pub client_id: Text,
    /// Issue time, seconds since 1970.
    pub iat: u64,
    /// Expiry time, seconds since 1970.
    pub exp: u64,
    /// Unique id of this token: one step in the grant's rotation.
    pub jti: Text,
    /// The authorization that the token continues.
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
    /// Issue time, seconds since 1970.
    pub iat: u64,
    /// Expiry time, seconds since 1970.
    pub exp: u64,
    /// Unique id of this token.
    pub jti: Text,
}
