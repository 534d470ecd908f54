//! The time by which rows are due, for the sweep. It does not follow a step of the clock before the clock has run evenly
//! for a while: a clock that is ahead for a moment must not remove revocations for good (operating.md, "A wrong clock").

use std::time::{Duration, Instant};

use domain::clock::Timestamp;
use domain::revocation::READERS_CLOCK_SKEW;

/// After this time without a step, the clock is right. A sweep that comes late costs only space.
const EVEN_FOR: Duration = Duration::from_secs(3600);

/// Largest difference between clock and monotonic time that is no step. Both count in whole seconds here.
const STEP: Duration = Duration::from_secs(2);

/// Differences that the log names. Revocations stay for longer.
const FAR: Duration = READERS_CLOCK_SKEW;

#[derive(Debug)]
pub(crate) struct SweepTime {
    due: Timestamp,
    looked_at: Instant,
    /// The clock and the monotonic time of the last step, or of the start.
    even_since: (Timestamp, Instant),
    told: bool,
}

impl SweepTime {
    /// `swept_at` is the time of the last sweep of the store.
    pub(crate) fn start(swept_at: Timestamp, clock: Timestamp, at: Instant) -> Self {
        Self {
            due: swept_at,
            looked_at: at,
            even_since: (clock, at),
            told: false,
        }
    }

    /// What expired before the returned time is due by the clock, and by the last sweep and the monotonic time since.
    pub(crate) fn due(&mut self, clock: Timestamp, at: Instant) -> Timestamp {
        let (even_from, even_since) = self.even_since;
        let expected = even_from + at.duration_since(even_since);
        if difference(clock, expected) > STEP {
            self.even_since = (clock, at);
        }
        let known = self.due + at.duration_since(self.looked_at);
        let is_even = at.duration_since(self.even_since.1) >= EVEN_FOR;
        self.due = if is_even { clock } else { clock.min(known) };
        self.looked_at = at;
        self.tell(clock, known, is_even);
        self.due
    }

    fn tell(&mut self, clock: Timestamp, known: Timestamp, is_even: bool) {
        let is_far = !is_even && difference(clock, known) > FAR;
        if is_far && !self.told {
            tracing::error!(
                clock = clock.rfc3339(),
                store = known.rfc3339(),
                "the clock is far from the time of the last sweep: until the clock has run evenly for an hour, rows stay \
                 that are expired by one of the two only. Check the clock, unless the service was stopped in between"
            );
        }
        self.told = is_far;
    }
}

fn difference(one: Timestamp, other: Timestamp) -> Duration {
    one.since(other).max(other.since(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    const EVEN: u64 = EVEN_FOR.as_secs();

    /// Looks at the time with a clock that is `ahead` seconds ahead, `seconds` after the start.
    struct Looks(SweepTime, Instant);

    impl Looks {
        fn start(swept_at: Timestamp, clock: Timestamp) -> Self {
            let start = Instant::now();
            Self(SweepTime::start(swept_at, clock, start), start)
        }

        fn due(&mut self, clock: Timestamp, seconds: u64) -> Timestamp {
            self.0.due(clock, self.1 + Duration::from_secs(seconds))
        }
    }

    #[test]
    fn a_clock_that_is_ahead_at_a_start_makes_nothing_due() {
        let mut looks = Looks::start(at(0), at(4000));
        assert_eq!(looks.due(at(4000), 0), at(0));
        assert_eq!(looks.due(at(4006), 6), at(6));
        // Corrected.
        assert_eq!(looks.due(at(12), 7), at(7));
        assert_eq!(looks.due(at(12 + EVEN), 7 + EVEN), at(12 + EVEN));
    }

    #[test]
    fn a_clock_that_is_ahead_for_a_while_makes_nothing_due() {
        let mut looks = Looks::start(at(0), at(0));
        assert_eq!(looks.due(at(EVEN), EVEN), at(EVEN));
        assert_eq!(looks.due(at(EVEN + 4030), EVEN + 30), at(EVEN + 30));
        assert_eq!(looks.due(at(EVEN + 4066), EVEN + 66), at(EVEN + 66));
        assert_eq!(looks.due(at(EVEN + 90), EVEN + 90), at(EVEN + 90));
    }

    #[test]
    fn a_clock_that_is_behind_makes_nothing_due_and_is_followed() {
        let mut looks = Looks::start(at(5000), at(1000));
        assert_eq!(looks.due(at(1000), 0), at(1000));
        // Corrected.
        assert_eq!(looks.due(at(5030), 30), at(1030));
        assert_eq!(looks.due(at(5030 + EVEN), 30 + EVEN), at(5030 + EVEN));
    }

    /// Also after a stop that was longer than a moment.
    #[test]
    fn what_a_stop_left_behind_is_due_after_an_hour() {
        let week = 7 * 86_400;
        let mut looks = Looks::start(at(0), at(week));
        assert_eq!(looks.due(at(week + 30), 30), at(30));
        assert_eq!(looks.due(at(week + EVEN - 1), EVEN - 1), at(EVEN - 1));
        assert_eq!(looks.due(at(week + EVEN), EVEN), at(week + EVEN));
    }

    #[test]
    fn a_line_names_each_time_of_a_wrong_clock_once() {
        let mut looks = Looks::start(at(0), at(0));
        let mut told = |clock, seconds| {
            let before = looks.0.told;
            looks.due(clock, seconds);
            (before, looks.0.told)
        };
        assert_eq!(told(at(30), 30), (false, false));
        assert_eq!(told(at(4060), 60), (false, true));
        assert_eq!(told(at(4090), 90), (true, true));
        assert_eq!(told(at(120), 120), (true, false));
        assert_eq!(told(at(4150), 150), (false, true));
    }
}
