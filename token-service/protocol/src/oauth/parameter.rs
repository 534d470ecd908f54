//! The parameters of the endpoints that clients call directly.

/// A parameter that the token, revocation or introspection endpoint reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// `assertion` (RFC 7523 §2.1).
    Assertion,
    /// `client_id` (RFC 6749 §2.3.1).
    ClientId,
    /// `client_secret` (RFC 6749 §2.3.1).
    ClientSecret,
    /// `code` (RFC 6749 §4.1.3).
    Code,
    /// `code_verifier` (RFC 7636 §4.5).
    CodeVerifier,
    /// `grant_type` (RFC 6749 §4.1.3).
    GrantType,
    /// `redirect_uri` (RFC 6749 §4.1.3).
    RedirectUri,
    /// `refresh_token` (RFC 6749 §6).
    RefreshToken,
    /// `scope` (RFC 6749 §3.3).
    Scope,
    /// `token` (RFC 7009 §2.1, RFC 7662 §2.1).
    Token,
    /// `user_id` (protocol.md §4.2 rule 2).
    UserId,
    /// `user_site` (protocol.md §4.2 rule 2).
    UserSite,
}

impl Parameter {
    pub const ALL: [Self; 12] = [
        Self::Assertion,
        Self::ClientId,
        Self::ClientSecret,
        Self::Code,
        Self::CodeVerifier,
        Self::GrantType,
        Self::RedirectUri,
        Self::RefreshToken,
        Self::Scope,
        Self::Token,
        Self::UserId,
        Self::UserSite,
    ];

    /// The name, as clients send it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assertion => "assertion",
            Self::ClientId => "client_id",
            Self::ClientSecret => "client_secret",
            Self::Code => "code",
            Self::CodeVerifier => "code_verifier",
            Self::GrantType => "grant_type",
            Self::RedirectUri => "redirect_uri",
            Self::RefreshToken => "refresh_token",
            Self::Scope => "scope",
            Self::Token => "token",
            Self::UserId => "user_id",
            Self::UserSite => "user_site",
        }
    }
}

impl AsRef<str> for Parameter {
    fn as_ref(&self) -> &str {
        self.name()
    }
}
