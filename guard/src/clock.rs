//! Two clocks: the wall clock for the dates in tokens, and a steady clock, which never goes back, for
//! intervals. A step of the wall clock must neither stop the feed nor make an old feed look fresh.

/// Both clocks, read at the same moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970, by the host's clock.
    pub wall: u64,
    /// Seconds since an arbitrary moment, which is the same for all VMs of a gateway: they share times. Never goes back.
    pub steady: u64,
}

/// Largest difference between the movements of the two clocks from one reading to the next, in seconds. A
/// larger difference is a step.
const STEP_SECONDS: u64 = 3;

/// For hosts without a monotonic clock: the most by which one reading of the wall clock advances the steady
/// clock, in seconds. Readings are a second apart, so a larger advance is a step, or the host slept.
const LONGEST_MOVE_SECONDS: u64 = 5;

/// The clocks of a host.
pub trait HostClock {
    /// Seconds since 1970.
    fn wall(&self) -> u64;

    /// Seconds since an arbitrary moment, which never go back; `None` if the host has no such clock.
    fn monotonic(&self) -> Option<u64>;
}

/// For hosts that have read both clocks already.
impl HostClock for Time {
    fn wall(&self) -> u64 {
        self.wall
    }

    fn monotonic(&self) -> Option<u64> {
        Some(self.steady)
    }
}

#[derive(Debug, Default, Clone)]
pub struct Clock {
    last: Option<Time>,
}

impl Clock {
    /// Reads the time: `wall` from the host's wall clock, and `monotonic` from its monotonic clock, if it has
    /// one, both in seconds. Returns true if the wall clock stepped since the last call.
    ///
    /// Without a monotonic clock, the steady clock starts with the wall clock and follows it, but never back and never by a leap.
    pub fn read(&mut self, wall: u64, monotonic: Option<u64>) -> (Time, bool) {
        let Some(last) = self.last else {
            let steady = monotonic.unwrap_or(wall);
            let first = Time { wall, steady };
            self.last = Some(first);
            return (first, false);
        };
        let steady = match monotonic {
            Some(now) => now.max(last.steady),
            None => last.steady + wall.saturating_sub(last.wall).min(LONGEST_MOVE_SECONDS),
        };
        let time = Time { wall, steady };
        self.last = Some(time);
        let expected = last.wall.saturating_add(steady - last.steady);
        (time, wall.abs_diff(expected) > STEP_SECONDS)
    }
}

impl Clock {
    /// True if the host's monotonic clock still shows the second of the last reading.
    pub fn is_current(&self, monotonic: Option<u64>) -> bool {
        monotonic.is_some() && monotonic == self.last.map(|last| last.steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn the_steady_clock_goes_on_through_steps_in_both_directions() {
        let mut clock = Clock::default();
        clock.read(NOW, Some(50));
        for (wall, monotonic, steady, stepped) in [
            (NOW + 1, 51, 51, false),
            (NOW + 7200, 52, 52, true),
            // Never back.
            (NOW + 7200, 51, 52, false),
            (NOW + 7201, 53, 53, false),
            (NOW + 4, 54, 54, true),
            (NOW + 5, 55, 55, false),
            // The process was stopped for an hour, and both clocks show it.
            (NOW + 3605, 3655, 3655, false),
        ] {
            let time = Time { wall, steady };
            assert_eq!(clock.read(wall, Some(monotonic)), (time, stepped));
        }
        // A VM that starts later has the same time.
        let later = Clock::default().read(NOW + 3606, Some(3656));
        assert_eq!(later, clock.read(NOW + 3606, Some(3656)));
    }

    #[test]
    fn without_a_monotonic_clock_it_neither_goes_back_nor_leaps() {
        let mut clock = Clock::default();
        clock.read(NOW, None);
        for (wall, moved, stepped) in [
            (NOW + 1, 1, false),
            (NOW + 7200, 6, true),
            (NOW + 7201, 7, false),
            (NOW - 3600, 7, true),
            (NOW - 3599, 8, false),
        ] {
            let steady = NOW + moved;
            let time = Time { wall, steady };
            assert_eq!(clock.read(wall, None), (time, stepped));
        }
    }

    #[test]
    fn drift_is_no_step() {
        let mut clock = Clock::default();
        clock.read(NOW, Some(0));
        for second in 1..1000 {
            let (_, stepped) = clock.read(NOW + second * 2, Some(second));
            assert!(!stepped);
        }
    }
}
