//! Rate limits for attempts to guess a secret.
//!
//! The transaction that admits an attempt also counts it as failed, so that parallel guesses cannot exceed the limit. A
//! successful attempt is taken back afterwards, and leaves no trace: only failures delay attempts, and failures are
//! forgotten at the same rate whether successful attempts come or not.

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
    /// Time after which one failure is forgotten, in whole seconds; at least 1.
    pub forget_one_after: Duration,
}

/// Failures that are not yet forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Number of failures when the last one was counted.
    pub count: u32,
    pub last_at: Timestamp,
    /// Time when all failures are forgotten, one by one until then.
    pub expires_at: Timestamp,
}

/// Decides on an attempt at `now` for these keys, and returns the new failures of the first keys. A delayed attempt
/// counts only for the keys before the first key with a delay, and waits for the longest delay. Order the keys from
/// narrow to wide: repeated attempts then slow down the narrow keys, and the wide keys stay free for other users.
pub fn admit(keys: &[(PacedKey, Option<Failures>)], now: Timestamp) -> (Admission, Vec<Failures>) {
    let waits = |(paced, before): &(PacedKey, Option<Failures>)| paced.pace.wait(*before, now);
    let counted = keys
        .iter()
        .take_while(|key| waits(key).is_zero())
        .map(|(paced, before)| paced.pace.count(*before, now))
        .collect();
    let admission = match keys.iter().map(waits).max() {
        Some(wait) if !wait.is_zero() => Admission::Wait(wait),
        _ => Admission::Admitted(
            keys.iter()
                .map(|(paced, before)| Counted {
                    paced: *paced,
                    at: now,
                    last_at: before.map_or(now, |failures| failures.last_at),
                })
                .collect(),
        ),
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

/// A key for which an admitted attempt counts as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub paced: PacedKey,
    at: Timestamp,
    /// Time of the last failure before the attempt.
    last_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// The attempt may be made. It counts as failed for these keys until it is taken back.
    Admitted(Vec<Counted>),
    /// The attempt may be made after this time.
    Wait(Duration),
}

impl Counted {
    /// An attempt that was admitted at `at`, in an earlier request.
    pub const fn at(paced: PacedKey, at: Timestamp) -> Self {
        let last_at = at;
        Self { paced, at, last_at }
    }

    /// The key's `failures` without this attempt; `None` if none remain.
    pub fn take_back(&self, failures: Failures) -> Option<Failures> {
        let count = failures.count.checked_sub(1).filter(|count| *count > 0)?;
        let each = self.paced.pace.each();
        let expires_at = failures.expires_at.seconds().saturating_sub(each);
        // Where attempts are delayed, only one is in progress at a time. So `last_at` is either the time of this
        // attempt or of a later one.
        let last_at = match failures.last_at {
            last_at if last_at == self.at => self.last_at,
            later => later,
        };
        Some(Failures {
            count,
            last_at,
            expires_at: Timestamp::from_seconds(expires_at),
        })
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

    /// Time after which one failure is forgotten, in seconds.
    fn each(&self) -> u64 {
        self.forget_one_after.as_secs().max(1)
    }

    /// The number of failures in `before` that are not yet forgotten at `now`.
    fn remembered(&self, before: Option<Failures>, now: Timestamp) -> u32 {
        before.map_or(0, |failures| {
            let left = failures.expires_at.since(now).as_secs();
            let left = u32::try_from(left.div_ceil(self.each())).unwrap_or(u32::MAX);
            failures.count.min(left)
        })
    }

    /// How long the next attempt has to wait at `now` after the failures `before`; zero if it may be made now.
    pub fn wait(&self, before: Option<Failures>, now: Timestamp) -> Duration {
        let Some(failures) = before else {
            return Duration::ZERO;
        };
        let delay = self.delay(self.remembered(before, now));
        delay.saturating_sub(now.since(failures.last_at))
    }

    /// Adds one failure. The count stops rising where the delay does, so that the time to forget all failures is
    /// bounded.
    pub fn count(&self, before: Option<Failures>, now: Timestamp) -> Failures {
        let remembered = self.remembered(before, now);
        let count = if remembered > self.free && self.delay(remembered) == self.longest {
            remembered
        } else {
            remembered.saturating_add(1)
        };
        let each = Duration::from_secs(self.each());
        let forgotten_from = before.map_or(now, |failures| failures.expires_at.max(now));
        Failures {
            count,
            last_at: now,
            expires_at: (forgotten_from + each).min(now + each.saturating_mul(count)),
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

    /// Attempts at one address: for each its time, and whether it fails. Returns the failures after the last.
    fn office(attempts: impl Iterator<Item = (u64, bool)>) -> Option<Failures> {
        let address = PacedKey {
            key: Digest::of(b"address"),
            pace: PACE,
        };
        let mut failures = None;
        for (second, fails) in attempts {
            let (admission, counted) = admit(&[(address, failures)], at(second));
            let Admission::Admitted(keys) = admission else {
                panic!("waits at {second}: {admission:?}");
            };
            failures = match (&keys[..], &counted[..]) {
                ([key], [counted]) if !fails => key.take_back(*counted),
                (_, [counted]) => Some(*counted),
                _ => panic!("one key"),
            };
        }
        failures
    }

    #[test]
    fn only_failures_count_and_they_are_forgotten_between_right_attempts() {
        // Somebody mistypes every eleven minutes, and everybody else signs in without a pause.
        let busy = office((0..24 * 3600).map(|second| (second, second % 660 == 0)));
        let quiet = office((0..24 * 3600).step_by(660).map(|second| (second, true)));
        assert_eq!(busy, quiet);
        assert_eq!(PACE.remembered(busy, at(24 * 3600 - 1)), 1);
    }

    /// A right attempt that was admitted after a delay does not start the delay again.
    #[test]
    fn a_right_attempt_moves_no_clock() {
        let (_, failures) = waits(8);
        let address = PacedKey {
            key: Digest::of(b"address"),
            pace: PACE,
        };
        let now = failures.last_at + PACE.wait(Some(failures), failures.last_at);
        let (admission, counted) = admit(&[(address, Some(failures))], now);
        assert!(PACE.wait(counted.first().copied(), now) > Duration::ZERO);
        let Admission::Admitted(keys) = admission else {
            panic!("{admission:?}");
        };
        let after = keys[0].take_back(counted[0]);
        assert_eq!(after, Some(failures));
    }

    #[test]
    fn a_clock_that_goes_back_neither_forgets_nor_overflows() {
        let failures = Failures {
            count: u32::MAX,
            last_at: at(100),
            expires_at: at(u64::MAX / 2),
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
