//! The claims of an assertion, and how each is read.

use claims::json::numeric_date;
use serde_json::{Map, Value};

use super::error::AssertionError;
use domain::clock::Timestamp;

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
    /// `jti`: the id that may be used once.
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

    /// What its value must be.
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

pub(super) fn required_text(
    claims: &Map<String, Value>,
    claim: Claim,
) -> Result<&str, AssertionError> {
    text(claims, claim)?.ok_or(AssertionError::Missing(claim))
}

/// A claim's value. Some libraries write a claim that is not set as `null`: it counts as absent.
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

pub(super) fn date(
    claims: &Map<String, Value>,
    claim: Claim,
) -> Result<Option<Timestamp>, AssertionError> {
    match present(claims, claim) {
        None => Ok(None),
        Some(value) => numeric_date(value)
            .map(|seconds| Some(Timestamp::from_seconds(seconds)))
            .ok_or(AssertionError::WrongType(claim)),
    }
}
