//! The claims of an assertion.

/// A claim that an assertion has or may have (protocol.md §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// `iss`: the client.
    Issuer,
    /// `sub`: the user.
    Subject,
    /// `aud`: the identity service.
    Audience,
    /// `exp`: expiry.
    Expiry,
    /// `iat`: issue time.
    IssuedAt,
    /// `nbf`: not before.
    NotBefore,
    /// `jti`: id for single use.
    Id,
    /// `user_id` of the linked account.
    UserId,
    /// `user_site` of the linked account.
    UserSite,
}

impl Claim {
    /// The name in the JSON object.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Issuer => "iss",
            Self::Subject => "sub",
            Self::Audience => "aud",
            Self::Expiry => "exp",
            Self::IssuedAt => "iat",
            Self::NotBefore => "nbf",
            Self::Id => "jti",
            Self::UserId => "user_id",
            Self::UserSite => "user_site",
        }
    }

    /// The expected form of the value.
    #[must_use]
    pub const fn form(self) -> &'static str {
        match self {
            Self::Issuer | Self::Subject | Self::UserId | Self::UserSite => "a string",
            Self::Audience => "a string or a list of one string",
            Self::Expiry | Self::IssuedAt | Self::NotBefore => "a number of seconds since 1970",
            Self::Id => "a string of 1 to 255 characters",
        }
    }
}
