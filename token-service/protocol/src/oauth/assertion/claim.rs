//! The claims of an assertion.

use strum::IntoStaticStr;

/// A claim that an assertion has or may have (protocol.md §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Claim {
    #[strum(serialize = "iss")]
    Issuer,
    #[strum(serialize = "sub")]
    Subject,
    #[strum(serialize = "aud")]
    Audience,
    #[strum(serialize = "exp")]
    Expiry,
    #[strum(serialize = "iat")]
    IssuedAt,
    #[strum(serialize = "nbf")]
    NotBefore,
    #[strum(serialize = "jti")]
    Id,
    UserId,
    UserSite,
    ClientId,
    Scope,
    Resource,
}

impl Claim {
    /// The name in the JSON object.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    /// The expected form of the value.
    pub const fn form(self) -> &'static str {
        match self {
            Self::Issuer | Self::Subject | Self::UserId | Self::UserSite | Self::ClientId => {
                "a string"
            }
            Self::Scope => "a list of scope tokens separated by single spaces",
            Self::Resource => "a string or a list of strings",
            Self::Audience => "a string or a list of one string",
            Self::Expiry | Self::IssuedAt | Self::NotBefore => "a number of seconds since 1970",
            Self::Id => "a string of 1 to 255 characters",
        }
    }
}
