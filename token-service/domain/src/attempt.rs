//! Rate limits for attempts to guess a secret.
//!
//! The transaction that admits an attempt also counts it as failed, so that parallel guesses cannot exceed the limit. A
//! successful attempt is forgiven afterwards.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::digest::Digest;

/// How failures delay the next attempt. Each failure beyond `free` doubles the delay, up to `longest`. Failures are
/// forgotten one by one, so that nobody is locked out permanently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Number of failures without a delay.
    pub free: u32,
    /// Longest delay, in whole seconds.
    pub longest: Duration,
    /// Time without an attempt after which one failure is forgotten, in whole seconds; at least 1.
    pub forget_one_after: Duration,
}

/// Failures that are not yet forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    pub count: u32,
    /// Time of the last failure.
    pub last_at: Timestamp,
    /// Time when all failures are forgotten.
    pub expires_at: Timestamp,
}

/// Decides on an attempt at `now` for these keys, and returns the new failures of the first keys. A delayed attempt
/// counts only for the keys before the first key with a delay, and waits for the longest delay. Order the keys from
/// narrow to wide: repeated attempts then slow down the narrow keys, and the wide keys stay free for other users.
pub fn admit(keys: &[(Pace, Option<Failures>)], now: Timestamp) -> (Admission, Vec<Failures>) {
    let waits = |(pace, before): &(Pace, Option<Failures>)| pace.wait(*before, now);
    let counted = keys
        .iter()
        .take_while(|key| waits(key).is_zero())
        .map(|(pace, before)| pace.count(*before, now))
        .collect();
    let admission = match keys.iter().map(waits).max() {
        Some(wait) if !wait.is_zero() => Admission::Wait(wait),
        _ => Admission::Admitted,
    };
    (admission, counted)
}

/// A key for which attempts are counted, such as an account or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacedKey {
    /// Digest of the account or address.
    pub key: Digest,
    pub pace: Pace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// The attempt may be made. It counts as failed for all keys until it is forgiven.
    Admitted,
    /// The attempt may be made after this time.
    Wait(Duration),
}

impl Failures {
    /// The failures minus one; `None` if none remain.
    #[must_use]
    pub fn one_less(self) -> Option<Self> {
        let count = self.count.checked_sub(1).filter(|count| *count > 0)?;
        Some(Self { count, ..self })
    }
}

impl Pace {
    fn delay(&self, count: u32) -> Duration {
        match count.checked_sub(self.free) {
            None | Some(0) => Duration::ZERO,
            Some(beyond) => {
                let doubled = 1_u64.checked_shl(beyond - 1).unwrap_or(u64::MAX);
                Duration::from_secs(doubled).min(self.longest)
            }
        }
    }

    /// The number of failures in `before` that are not yet forgotten at `now`.
    fn remembered(&self, before: Option<Failures>, now: Timestamp) -> u32 {
        before.map_or(0, |failures| {
            let each = self.forget_one_after.as_secs().max(1);
            let forgotten = now.since(failures.last_at).as_secs() / each;
            failures
                .count
                .saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
        })
    }

    /// How long the next attempt has to wait at `now` after the failures `before`; zero if it may be made now.
    #[must_use]
    pub fn wait(&self, before: Option<Failures>, now: Timestamp) -> Duration {
        let Some(failures) = before else {
            return Duration::ZERO;
        };
        let delay = self.delay(self.remembered(before, now));
        delay.saturating_sub(now.since(failures.last_at))
    }

    /// Adds one failure. The count stops rising where the delay does, so that the time to forget all failures is
    /// bounded.
    #[must_use]
    pub fn count(&self, before: Option<Failures>, now: Timestamp) -> Failures {
        let remembered = self.remembered(before, now);
        let count = if remembered > self.free && self.delay(remembered) == self.longest {
            remembered
        } else {
            remembered.saturating_add(1)
        };
        Failures {
            count,
            last_at: now,
            expires_at: now + self.forget_one_after.saturating_mul(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        free: 3,
        longest: Duration::from_secs(60),
        forget_one_after: Duration::from_secs(600),
    };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    /// Makes each attempt at the earliest possible moment, and returns the waits.
    fn waits(attempts: usize) -> (Vec<u64>, Failures) {
        let (mut now, mut failures, mut waits) = (at(0), None, Vec::new());
        for _ in 0..attempts {
            let wait = PACE.wait(failures, now);
            waits.push(wait.as_secs());
            now = now + wait;
            assert_eq!(PACE.wait(failures, now), Duration::ZERO);
            failures = Some(PACE.count(failures, now));
        }
        (waits, failures.unwrap())
    }

    #[test]
    fn delays_double_after_the_free_failures_and_stop_at_the_longest() {
        let (waits, failures) = waits(14);
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(failures.count, 10, "the count stops where the delay does");
    }

    #[test]
    fn failures_are_forgotten_one_by_one_and_then_all() {
        let (_, failures) = waits(14);
        let next = |after: u64| {
            let now = failures.last_at + Duration::from_secs(after);
            let counted = PACE.count(Some(failures), now);
            PACE.wait(Some(counted), now).as_secs()
        };
        assert_eq!([60, 600, 1200, 1800].map(next), [60, 60, 32, 16]);
        assert_eq!(next(10 * 600), 0);
        assert_eq!(
            failures.expires_at,
            failures.last_at + Duration::from_secs(10 * 600)
        );
        let later = failures.last_at + Duration::from_secs(10 * 600);
        assert_eq!(
            PACE.count(Some(failures), later).count,
            1,
            "as at the start"
        );
    }

    #[test]
    fn a_clock_that_goes_back_neither_forgets_nor_overflows() {
        let failures = Failures {
            count: u32::MAX,
            last_at: at(100),
            expires_at: at(200),
        };
        assert_eq!(PACE.wait(Some(failures), at(0)), PACE.longest);
        assert_eq!(PACE.count(Some(failures), at(0)).count, u32::MAX);
        let never = Pace {
            forget_one_after: Duration::ZERO,
            ..PACE
        };
        assert_eq!(never.wait(Some(failures), at(300)), Duration::ZERO);
    }
}
