//! The order of the checks of an assertion stands once, in a list for each kind of assertion: a verification returns the
//! first refusal, an explanation all outcomes.

use std::borrow::Cow;
use std::time::Duration;

use claims::json::{self, numeric_date};
use serde_json::{Map, Value};

use super::claim::Claim;
use super::{AssertionError, Unverified};
use crate::settings::Settings;
use domain::clock::Timestamp;

/// Maximum length of `jti`, in characters.
const MAX_JTI_CHARACTERS: usize = 255;

/// An assertion, and what its checks compare it with.
#[derive(Debug)]
pub struct Case<'a, S: ?Sized> {
    pub(super) assertion: &'a Unverified<'a>,
    /// The expected `iss`.
    pub(super) issuer: &'a str,
    /// What verifies the signature: the registered certificates or keys of a client, or a provider's key.
    pub(super) signer: &'a S,
    /// One of them must be the only audience.
    pub(super) audiences: Vec<Cow<'a, str>>,
    /// Longest time from now to `exp`.
    pub(super) most: Duration,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
    pub(super) checks: &'a [Check<S>],
}

/// What a check found, in words, or the refusal.
pub type Finding = Result<String, AssertionError>;

/// A check with its name.
pub(super) type Check<S> = (&'static str, fn(&Case<'_, S>) -> Finding);

impl<S: ?Sized> Case<'_, S> {
    /// Runs all checks in order. Returns the time until which the store keeps the `jti`: `exp` plus the clock skew. Until then, a
    /// replica whose clock is behind, or a clock that was set back, may still accept the assertion (RFC 7523 §3, "ensure that JWTs
    /// are not replayed by maintaining the set of used \"jti\" values").
    pub(super) fn remembered_until(&self) -> Result<Timestamp, AssertionError> {
        for (_, check) in self.checks {
            check(self)?;
        }
        Ok(self.expires_at()? + self.settings.lifetimes.clock_skew)
    }

    /// A failed check does not hide later checks. A check that has no input fails as the check that looked for the input, and
    /// is left out.
    pub fn explain(&self) -> Vec<(&'static str, Finding)> {
        let mut outcomes = Vec::<(&'static str, Finding)>::new();
        for (name, check) in self.checks {
            let outcome = check(self);
            if outcome.is_ok() || outcomes.iter().all(|(_, before)| *before != outcome) {
                outcomes.push((name, outcome));
            }
        }
        outcomes
    }

    pub(super) fn text(&self, claim: Claim) -> Result<&str, AssertionError> {
        self.assertion.text(claim)
    }

    /// `name`: of the expected issuer in the refusal.
    pub(super) fn issuer(&self, name: &str) -> Finding {
        let received = self.text(Claim::Issuer)?.to_owned();
        if received == self.issuer {
            Ok(received)
        } else {
            let accepted = name.to_owned();
            Err(AssertionError::Issuer { received, accepted })
        }
    }

    pub(super) fn audience(&self) -> Finding {
        let received = audience(&self.assertion.claims)?;
        let mut audiences = self.audiences.iter();
        let found = received.filter(|received| audiences.any(|expected| expected == received));
        found
            .map(str::to_owned)
            .ok_or_else(|| AssertionError::Audience {
                received: received.map(str::to_owned),
                expected: self.audiences.join(" or "),
            })
    }

    pub(super) fn expiry(&self) -> Finding {
        let at = self.expires_at()?;
        let left = at.since(self.now).as_secs();
        Ok(format!("{}, {left} s from now", at.rfc3339()))
    }

    fn expires_at(&self) -> Result<Timestamp, AssertionError> {
        let Self { now, most, .. } = *self;
        let at = self.date(Claim::Expiry)?;
        let at = at.ok_or(AssertionError::Missing(Claim::Expiry))?;
        if at <= now {
            return Err(AssertionError::Expired { at, now });
        }
        if at > now + most {
            return Err(AssertionError::TooLong { at, now, most });
        }
        Ok(at)
    }

    pub(super) fn issue_time(&self) -> Finding {
        self.not_ahead(Claim::IssuedAt)?;
        let at = self.date(Claim::IssuedAt)?.map(Timestamp::rfc3339);
        at.ok_or(AssertionError::Missing(Claim::IssuedAt))
    }

    /// The time `claim` may be absent.
    pub(super) fn not_ahead(&self, claim: Claim) -> Finding {
        match self.date(claim)? {
            Some(time) if time > self.now + self.settings.lifetimes.clock_skew => {
                Err(AssertionError::InFuture(claim, time, self.now))
            }
            _ => Ok("has come, or is absent".to_owned()),
        }
    }

    pub(super) fn id(&self) -> Finding {
        let jti = self.text(Claim::Id)?;
        if jti.is_empty() || jti.chars().count() > MAX_JTI_CHARACTERS {
            return Err(AssertionError::WrongType(Claim::Id));
        }
        Ok(jti.to_owned())
    }

    pub(super) fn account(&self) -> Finding {
        for claim in [Claim::UserId, Claim::UserSite] {
            text(&self.assertion.claims, claim)?;
        }
        Ok("are strings, or absent".to_owned())
    }

    fn date(&self, claim: Claim) -> Result<Option<Timestamp>, AssertionError> {
        match present(&self.assertion.claims, claim) {
            None => Ok(None),
            Some(value) => numeric_date(value)
                .map(|seconds| Some(Timestamp::from_seconds(seconds)))
                .ok_or(AssertionError::WrongType(claim)),
        }
    }
}

/// `aud`, if it is one string or a list of one string (D-10).
///
/// # Errors
/// [`AssertionError::Missing`].
pub(super) fn audience(claims: &Map<String, Value>) -> Result<Option<&str>, AssertionError> {
    let audience = present(claims, Claim::Audience);
    Ok(
        match audience.ok_or(AssertionError::Missing(Claim::Audience))? {
            Value::String(audience) => Some(audience),
            Value::Array(audiences) => match audiences.as_slice() {
                [Value::String(audience)] => Some(audience),
                _ => None,
            },
            _ => None,
        },
    )
}

pub(super) fn present(claims: &Map<String, Value>, claim: Claim) -> Option<&Value> {
    json::present(claims, claim.name())
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
