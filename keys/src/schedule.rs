//! When to fetch: at intervals, again after a failure with growing pauses, and sooner when a request needs it,
//! but not for each request. Times are seconds of the steady clock.

/// Time limit of a fetch, in seconds, unless the service is asked to hold the request.
pub const TIMEOUT_SECONDS: u64 = 5;

/// The longest pause after a failure, in seconds.
const MAX_PAUSE: u64 = 30;

/// Shortest time between two fetches that requests cause, in seconds. It limits the load on the upstream,
/// whatever clients send.
const HURRY_PAUSE: u64 = 2;

/// The schedule for one source.
#[derive(Debug, Clone)]
pub struct Schedule {
    interval: u64,
    next_at: u64,
    /// Time when the current fetch counts as lost.
    given_up_at: Option<u64>,
    last_hurry: Option<u64>,
    failures: u32,
}

impl Schedule {
    /// Creates a schedule with a fetch that is due at once, and then every `interval` seconds.
    pub const fn new(interval: u64) -> Self {
        Self {
            interval,
            next_at: 0,
            given_up_at: None,
            last_hurry: None,
            failures: 0,
        }
    }

    /// True if a fetch should start now. A fetch without an answer [`TIMEOUT_SECONDS`] after its time limit
    /// counts as lost.
    pub fn is_due(&self, now: u64) -> bool {
        !self.is_running(now) && now >= self.next_at
    }

    /// True while a fetch is running.
    pub fn is_running(&self, now: u64) -> bool {
        self.given_up_at.is_some_and(|given_up| now < given_up)
    }

    /// A fetch started, with a time limit of `timeout` seconds.
    pub const fn started(&mut self, now: u64, timeout: u64) {
        self.given_up_at = Some(now + timeout + TIMEOUT_SECONDS);
    }

    /// The fetch returned something usable.
    pub const fn succeeded(&mut self, now: u64) {
        self.given_up_at = None;
        self.failures = 0;
        self.next_at = now + self.interval;
    }

    /// The fetch returned something usable, and the next fetch must follow at once.
    pub const fn continues(&mut self, now: u64) {
        self.failures = 0;
        self.goes_on(now);
    }

    /// The next fetch, of another document of the same source, must follow at once. Whether the source fails is known after
    /// that one.
    pub const fn goes_on(&mut self, now: u64) {
        self.given_up_at = None;
        self.next_at = now;
    }

    /// The fetch returned something usable, and the next fetch follows after `pause` seconds.
    pub const fn pauses(&mut self, now: u64, pause: u64) {
        self.continues(now);
        self.next_at = now + pause;
    }

    /// The fetch failed. The next fetch follows after a pause of 1, 2, 4 seconds and so on, at most the
    /// interval.
    pub fn failed(&mut self, now: u64) {
        self.given_up_at = None;
        self.next_at = now + growing_pause(self.failures, MAX_PAUSE.min(self.interval));
        self.failures = self.failures.saturating_add(1);
    }

    /// The fetch failed. After a first failure, the next fetch follows at once, because another replica may
    /// answer it; after more, as [`failed`](Self::failed) says.
    pub fn failed_at_a_replica(&mut self, now: u64) {
        let is_first = !self.is_failing();
        self.failed(now);
        if is_first {
            self.next_at = now;
        }
    }

    pub const fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// A request needs a fetch that starts at `now` or later.
    pub fn hurry(&mut self, now: u64) {
        let earliest = self.last_hurry.map_or(now, |last| last + HURRY_PAUSE);
        let wanted = earliest.max(now);
        if wanted < self.next_at {
            self.next_at = wanted;
            self.last_hurry = Some(wanted);
        }
    }
}

/// The pause after `failures` earlier ones: 1, 2, 4 seconds and so on, at most `longest`.
pub fn growing_pause(failures: u32, longest: u64) -> u64 {
    let pause = 1_u64.checked_shl(failures).unwrap_or(longest);
    pause.min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_at_once_and_then_on_time() {
        let mut schedule = Schedule::new(300);
        assert!(schedule.is_due(1000));
        schedule.started(1000, TIMEOUT_SECONDS);
        assert!(!schedule.is_due(1000));
        schedule.succeeded(1001);
        assert!(!schedule.is_due(1300));
        assert!(schedule.is_due(1301));
    }

    #[test]
    fn failures_pause_longer_and_longer() {
        let mut schedule = Schedule::new(300);
        let mut now = 1000;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            schedule.started(now, TIMEOUT_SECONDS);
            schedule.failed(now);
            let pause = (0..).find(|pause| schedule.is_due(now + pause)).unwrap();
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_first_failure_at_a_replica_is_followed_by_a_fetch_at_once() {
        let mut schedule = Schedule::new(300);
        for start in [1000, 2000] {
            for pause in [0, 2, 4] {
                schedule.started(start, TIMEOUT_SECONDS);
                schedule.failed_at_a_replica(start);
                let due = (0..).find(|pause| schedule.is_due(start + pause));
                assert_eq!(due, Some(pause));
            }
            schedule.succeeded(start);
        }
    }

    #[test]
    fn a_lost_answer_is_given_up() {
        let mut schedule = Schedule::new(300);
        schedule.started(1000, TIMEOUT_SECONDS);
        assert!(!schedule.is_due(1009));
        assert!(schedule.is_due(1010));
    }

    /// Unknown keys a thousand times a second cause one fetch every two seconds.
    #[test]
    fn requests_cannot_cause_more_than_a_trickle() {
        let mut schedule = Schedule::new(300);
        schedule.started(0, TIMEOUT_SECONDS);
        schedule.succeeded(0);
        let mut fetches = 0;
        for now in 1..=100 {
            for _ in 0..1000 {
                schedule.hurry(now);
                if schedule.is_due(now) {
                    fetches += 1;
                    schedule.started(now, TIMEOUT_SECONDS);
                    schedule.succeeded(now);
                }
            }
        }
        assert_eq!(fetches, 50);
    }
}
