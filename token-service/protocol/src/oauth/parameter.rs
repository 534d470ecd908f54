//! The parameters of the endpoints that clients call directly.

use strum::{AsRefStr, IntoStaticStr, VariantArray};

/// A parameter that the token, revocation or introspection endpoint reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, AsRefStr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Parameter {
    /// RFC 7523 §2.1.
    Assertion,
    /// RFC 7521 §4.2.
    ClientAssertion,
    /// RFC 7521 §4.2.
    ClientAssertionType,
    /// RFC 6749 §2.3.1.
    ClientId,
    /// RFC 6749 §2.3.1.
    ClientSecret,
    /// RFC 6749 §4.1.3.
    Code,
    /// RFC 7636 §4.5.
    CodeVerifier,
    /// RFC 6749 §4.1.3.
    GrantType,
    /// RFC 6749 §4.1.3.
    RedirectUri,
    /// RFC 6749 §6.
    RefreshToken,
    /// RFC 6749 §3.3.
    Scope,
    /// RFC 7009 §2.1, RFC 7662 §2.1.
    Token,
    /// protocol.md §4.2 rule 2.
    UserId,
    /// protocol.md §4.2 rule 2.
    UserSite,
}

impl Parameter {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The name, as clients send it.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}
