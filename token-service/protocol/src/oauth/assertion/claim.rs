//! The claims of an assertion.

use serde_json::{Map, Value};
use strum::IntoStaticStr;

use super::error::AssertionError;

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
}

impl Claim {
    /// The name in the JSON object.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    /// The expected form of the value.
    pub const fn form(self) -> &'static str {
        match self {
            Self::Issuer | Self::Subject | Self::UserId | Self::UserSite => "a string",
            Self::Audience => "a string or a list of one string",
            Self::Expiry | Self::IssuedAt | Self::NotBefore => "a number of seconds since 1970",
            Self::Id => "a string of 1 to 255 characters",
        }
    }
}

/// A claim's value. `null` counts as absent, because some libraries write unset claims as `null`.
pub(super) fn present(claims: &Map<String, Value>, claim: Claim) -> Option<&Value> {
    claims.get(claim.name()).filter(|value| !value.is_null())
}

pub(super) fn text(
    claims: &Map<String, Value>,
    claim: Claim,
) -> Result<Option<&str>, AssertionError> {
    match present(claims, claim) {
        None => Ok(None),
        Some(Value::String(value)) => Ok(Some(value)),
        Some(_) => Err(AssertionError::WrongType(claim)),
    }
}
