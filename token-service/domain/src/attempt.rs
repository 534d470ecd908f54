//! Attempts to prove something that can be guessed, and how they are slowed down.
//!
//! An attempt counts as failed from the moment it is admitted, in the transaction that admits it, so that no number of
//! parallel guesses gets past the limit; a right one is forgiven afterwards.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::digest::Digest;

/// How failures slow down the next attempt. The delay doubles with each failure beyond the free ones, up to a longest
/// one, and failures are forgotten one by one: there is no lock-out for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Failures that cost nothing.
    pub free: u32,
    /// The longest delay, in whole seconds.
    pub longest: Duration,
    /// After each such time without an attempt one failure is forgotten; whole seconds, more than none.
    pub forget_one_after: Duration,
}

/// Failures that are not forgotten yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Number of failures.
    pub count: u32,
    /// When the last one was counted.
    pub last_at: Timestamp,
    /// When all are forgotten.
    pub expires_at: Timestamp,
}

/// Decides on an attempt at `now`, for keys with these failures, in the order of the keys. The answer has what is
/// counted for the first ones. An attempt that has to wait counts for the keys before the first that makes it wait, so
/// that whoever goes on trying is slowed down by the narrower keys and the wider ones stay free for others; it waits
/// for the longest.
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

/// One of the keys that an attempt counts for: an account, an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacedKey {
    /// What failures are counted for.
    pub key: Digest,
    /// How they slow down.
    pub pace: Pace,
}

/// Whether an attempt may be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Yes; it counts as failed for all of its keys until it is forgiven.
    Admitted,
    /// Not before this time has passed.
    Wait(Duration),
}

impl Failures {
    /// The same without one of them; `None` when none is left.
    #[must_use]
    pub fn one_less(self) -> Option<Self> {
        let count = self.count.checked_sub(1).filter(|count| *count > 0)?;
        Some(Self { count, ..self })
    }
}

impl Pace {
    /// The delay after the `count`th failure.
    fn delay(&self, count: u32) -> Duration {
        match count.checked_sub(self.free) {
            None | Some(0) => Duration::ZERO,
            Some(beyond) => {
                let doubled = 1_u64.checked_shl(beyond - 1).unwrap_or(u64::MAX);
                Duration::from_secs(doubled).min(self.longest)
            }
        }
    }

    /// The failures of `before` that are remembered at `now`.
    fn remembered(&self, before: Option<Failures>, now: Timestamp) -> u32 {
        before.map_or(0, |failures| {
            let each = self.forget_one_after.as_secs().max(1);
            let forgotten = now.since(failures.last_at).as_secs() / each;
            failures
                .count
                .saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
        })
    }

    /// How long the next attempt has to wait at `now`, after these failures; zero when it may be made.
    #[must_use]
    pub fn wait(&self, before: Option<Failures>, now: Timestamp) -> Duration {
        let Some(failures) = before else {
            return Duration::ZERO;
        };
        let delay = self.delay(self.remembered(before, now));
        delay.saturating_sub(now.since(failures.last_at))
    }

    /// One failure more. The count stops to rise where the delay does, so that the time to forget all is bounded.
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

    /// Makes an attempt at the earliest moment, again and again; the waits.
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
