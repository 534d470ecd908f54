//! The order of the checks of an assertion stands once, in a list for each kind of assertion: a verification returns the
//! first refusal, an explanation all outcomes.

use std::borrow::Cow;
use std::time::Duration;

use claims::json::numeric_date;
use serde_json::{Map, Value};

use super::claim::Claim;
use super::{AssertionError, Unverified};
use crate::settings::Settings;
use domain::ClientId;
use domain::clock::Timestamp;

/// Maximum length of `jti`, in characters.
const MAX_JTI_CHARACTERS: usize = 255;

/// An assertion, and what its checks compare it with.
#[derive(Debug)]
pub struct Case<'a, K: 'static> {
    pub(super) assertion: &'a Unverified<'a>,
    pub(super) client_id: &'a ClientId,
    /// The registered certificates or keys of the client.
    pub(super) keys: &'a [K],
    pub(super) audience: Cow<'a, str>,
    /// Longest time from now to `exp`.
    pub(super) most: Duration,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
    pub(super) checks: &'static [Check<K>],
}

/// What a check found, in words, or the refusal.
pub type Finding = Result<String, AssertionError>;

/// A check with its name.
pub(super) type Check<K> = (&'static str, fn(&Case<'_, K>) -> Finding);

impl<K> Case<'_, K> {
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

    pub(super) fn issuer(&self) -> Finding {
        let issuer = self.text(Claim::Issuer)?.to_owned();
        if issuer == self.client_id.as_str() {
            Ok(issuer)
        } else {
            Err(AssertionError::Issuer(issuer))
        }
    }

    pub(super) fn audience(&self) -> Finding {
        check_audience(&self.assertion.claims, &self.audience)?;
        Ok(self.audience.clone().into_owned())
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

    fn date(&self, claim: Claim) -> Result<Option<Timestamp>, AssertionError> {
        match present(&self.assertion.claims, claim) {
            None => Ok(None),
            Some(value) => numeric_date(value)
                .map(|seconds| Some(Timestamp::from_seconds(seconds)))
                .ok_or(AssertionError::WrongType(claim)),
        }
    }
}

/// `aud` is one string or a list of one string, compared byte for byte (D-10).
pub(super) fn check_audience(
    claims: &Map<String, Value>,
    expected: &str,
) -> Result<(), AssertionError> {
    let audience =
        match present(claims, Claim::Audience).ok_or(AssertionError::Missing(Claim::Audience))? {
            Value::String(audience) => Some(audience),
            Value::Array(audiences) => match audiences.as_slice() {
                [Value::String(audience)] => Some(audience),
                _ => None,
            },
            _ => None,
        };
    if audience.is_some_and(|audience| audience == expected) {
        Ok(())
    } else {
        Err(AssertionError::Audience {
            received: audience.cloned(),
            expected: expected.to_owned(),
        })
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
