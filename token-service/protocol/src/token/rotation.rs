//! The states of signing keys: announced, signing, retired, forgotten.
//!
//! A key is published for [`Policy::announce_for`] before its first signature, so that every gateway has fetched the
//! key. A key stays published until the last token that it signed has expired. So no rotation makes a gateway refuse a
//! valid token.

use std::time::Duration;

use claims::Algorithm;

use super::identity;
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{LegacyInstance, SealedSigningKey};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Algorithm of access, refresh and identity tokens.
    pub algorithm: Algorithm,
    /// True if the legacy flow is enabled. Its tokens use Ed25519 with any `algorithm`.
    pub legacy: bool,
    /// Time from a key's first signature to that of its successor.
    pub rotate_every: Duration,
    /// How long a key is published before it signs.
    pub announce_for: Duration,
    pub longest_token: Duration,
}

impl Policy {
    pub fn of(settings: &Settings, instances: &[LegacyInstance]) -> Self {
        let lifetimes = &settings.lifetimes;
        Self {
            algorithm: settings.signing.algorithm,
            legacy: !instances.is_empty(),
            rotate_every: settings.signing.rotate_every,
            announce_for: settings.signing.announce_for,
            longest_token: identity::lifetime(settings)
                .max(lifetimes.refresh_token)
                .max(lifetimes.legacy_access_token),
        }
    }

    /// The algorithms that must have a key.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> + use<> {
        let legacy = self.legacy && self.algorithm != Algorithm::EdDsa;
        [self.algorithm]
            .into_iter()
            .chain(legacy.then_some(Algorithm::EdDsa))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// Published, but not signing yet.
    Announced,
    Signing,
    /// No longer signing; still published because its tokens have not all expired.
    Retired,
}

/// A change to the keys in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Add {
        algorithm: Algorithm,
        signs_from: Timestamp,
        number: u32,
        /// Creation time of the newest known key of the algorithm. If the store has a later key, another replica was
        /// faster, and the step does nothing.
        unless_after: Option<Timestamp>,
    },
    Retire {
        kid: String,
    },
    /// Mark a retired key as signing again: the configured algorithm was changed and changed back.
    Resume {
        kid: String,
    },
    /// Remove a key whose last token has expired.
    Forget {
        kid: String,
    },
}

/// The keys that sign at `now`.
#[derive(Debug, Clone, Copy)]
pub struct Signers<'a> {
    /// Signs the tokens of the current flows.
    pub current: Option<&'a SealedSigningKey>,
    /// Signs the tokens of the legacy flow.
    pub legacy: Option<&'a SealedSigningKey>,
}

impl<'a> Signers<'a> {
    /// Chooses the newest of `keys` that has the configured algorithm and is past its announcement. Until a newly
    /// configured algorithm has such a key, the newest key of any algorithm continues to sign. If no key is past its
    /// announcement, the first key signs: the clock went back, or is behind that of the replica that made the key.
    pub fn at(keys: &'a [SealedSigningKey], policy: &Policy, now: Timestamp) -> Self {
        let of = |wanted: Option<Algorithm>| {
            let keys = keys.iter();
            keys.filter(move |key| wanted.is_none_or(|algorithm| key.algorithm == algorithm))
        };
        let newest = |wanted| {
            let past = of(wanted).filter(|key| key.signs_from <= now);
            past.max_by(|one, other| one.turn().cmp(&other.turn()))
        };
        let first = |wanted| of(wanted).min_by(|one, other| one.turn().cmp(&other.turn()));
        let eddsa = Some(Algorithm::EdDsa);
        Self {
            current: newest(Some(policy.algorithm))
                .or_else(|| newest(None))
                .or_else(|| first(None)),
            legacy: (newest(eddsa).or_else(|| first(eddsa))).filter(|_| policy.legacy),
        }
    }

    pub fn state(&self, key: &SealedSigningKey, now: Timestamp) -> KeyState {
        let signs = [self.current, self.legacy]
            .into_iter()
            .flatten()
            .any(|signer| signer.kid == key.kid);
        match (signs, key.signs_from <= now) {
            (true, _) => KeyState::Signing,
            (false, true) => KeyState::Retired,
            (false, false) => KeyState::Announced,
        }
    }
}

/// The steps that are due for `keys` at `now`; usually none.
pub fn due(keys: &[SealedSigningKey], policy: &Policy, now: Timestamp) -> Vec<Step> {
    let signers = Signers::at(keys, policy, now);
    let mut steps = Vec::new();
    for algorithm in policy.algorithms() {
        match newest(keys, algorithm) {
            None => {
                let stand_in = signers.current.is_some() && algorithm == policy.algorithm;
                let wait = if stand_in {
                    policy.announce_for
                } else {
                    Duration::ZERO
                };
                steps.push(Step::Add {
                    algorithm,
                    signs_from: now + wait,
                    number: 0,
                    unless_after: None,
                });
            }
            Some(newest)
                if newest.signs_from + policy.rotate_every <= now + policy.announce_for =>
            {
                steps.push(successor(newest, now + policy.announce_for));
            }
            Some(_) => {}
        }
    }
    for key in keys {
        let kid = key.kid.clone();
        match (signers.state(key, now), key.retired_at) {
            (KeyState::Signing, Some(_)) => steps.push(Step::Resume { kid }),
            (KeyState::Retired, None) => steps.push(Step::Retire { kid }),
            (KeyState::Retired, Some(since)) if since + policy.longest_token <= now => {
                steps.push(Step::Forget { kid });
            }
            _ => {}
        }
    }
    steps
}

/// The steps of a rotation on demand. If `announced`, the new key signs after the usual announcement. Otherwise the new
/// key signs at once, for the case that the old key leaked; gateways fetch the new key when they receive its first
/// token.
pub fn on_demand(
    keys: &[SealedSigningKey],
    policy: &Policy,
    announced: bool,
    now: Timestamp,
) -> Vec<Step> {
    let wait = if announced {
        policy.announce_for
    } else {
        Duration::ZERO
    };
    policy
        .algorithms()
        .filter_map(|algorithm| newest(keys, algorithm))
        .map(|newest| successor(newest, now + wait))
        .collect()
}

fn newest(keys: &[SealedSigningKey], algorithm: Algorithm) -> Option<&SealedSigningKey> {
    keys.iter()
        .filter(|key| key.algorithm == algorithm)
        .max_by_key(|key| (key.created_at, key.number))
}

const fn successor(of: &SealedSigningKey, signs_from: Timestamp) -> Step {
    Step::Add {
        algorithm: of.algorithm,
        signs_from,
        number: of.number.saturating_add(1),
        unless_after: Some(of.created_at),
    }
}

#[cfg(test)]
mod tests;
