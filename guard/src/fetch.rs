//! When something is fetched: on time, again after a failure with growing pauses, and sooner when a request needs
//! it, however many ask. Times are seconds of the steady clock.

/// How long a fetch may take, unless the service is asked to hold it.
pub const TIMEOUT_SECONDS: u64 = 5;

/// The longest pause after a failure.
const MAX_PAUSE: u64 = 30;

/// Between two fetches that requests caused lies at least this: whatever clients send, the upstream sees no more.
const HURRY_PAUSE: u64 = 2;

/// The schedule of one thing that is fetched.
#[derive(Debug)]
pub struct Schedule {
    interval: u64,
    next_at: u64,
    /// When the fetch that is under way is given up.
    given_up_at: Option<u64>,
    last_hurry: Option<u64>,
    failures: u32,
}

impl Schedule {
    /// Due at once, and then every `interval` seconds.
    #[must_use]
    pub const fn new(interval: u64) -> Self {
        Self {
            interval,
            next_at: 0,
            given_up_at: None,
            last_hurry: None,
            failures: 0,
        }
    }

    /// Whether a fetch should start now. One that has not answered for twice its time is given up.
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        !self.is_running(now) && now >= self.next_at
    }

    /// Whether a fetch is under way.
    #[must_use]
    pub fn is_running(&self, now: u64) -> bool {
        self.given_up_at.is_some_and(|given_up| now < given_up)
    }

    /// A fetch started that may take `timeout` seconds.
    pub const fn started(&mut self, now: u64, timeout: u64) {
        self.given_up_at = Some(now + timeout + TIMEOUT_SECONDS);
    }

    /// It brought something usable.
    pub const fn succeeded(&mut self, now: u64) {
        self.given_up_at = None;
        self.failures = 0;
        self.next_at = now + self.interval;
    }

    /// It brought something usable, and more waits.
    pub const fn continues(&mut self, now: u64) {
        self.given_up_at = None;
        self.failures = 0;
        self.next_at = now;
    }

    /// It brought something usable, and the next one starts after a pause.
    pub const fn pauses(&mut self, now: u64, pause: u64) {
        self.continues(now);
        self.next_at = now + pause;
    }

    /// It failed: pauses of 1, 2, 4 seconds and so on, never longer than the interval.
    pub fn failed(&mut self, now: u64) {
        self.given_up_at = None;
        let pause = 1_u64.checked_shl(self.failures).unwrap_or(MAX_PAUSE);
        self.failures = self.failures.saturating_add(1).min(16);
        self.next_at = now + pause.min(MAX_PAUSE).min(self.interval);
    }

    /// Whether the last fetch failed.
    #[must_use]
    pub const fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// A request needs a fetch that starts from now on.
    pub fn hurry(&mut self, now: u64) {
        let earliest = self.last_hurry.map_or(now, |last| last + HURRY_PAUSE);
        let wanted = earliest.max(now);
        if wanted < self.next_at {
            self.next_at = wanted;
            self.last_hurry = Some(wanted);
        }
    }
}

/// For so long, in seconds, failures of something that was never known are warnings: gateways start before the services that
/// they ask, and before names resolve.
const STARTING_SECONDS: u64 = 10;

/// How bad a failed fetch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Expected at a start.
    Warning,
    /// An operator has something to do.
    Error,
}

/// The failures of one thing that is fetched, as far as the log tells them: each reason once, because clients can cause a
/// fetch every [`HURRY_PAUSE`] seconds.
#[derive(Debug, Default)]
pub struct Failures {
    first_at: Option<u64>,
    logged: Option<(Severity, String)>,
}

impl Failures {
    /// A fetch failed. `is_known` says that an earlier one brought something. Returns how bad that is, if the log does not
    /// say it yet.
    pub fn failed(&mut self, why: &str, is_known: bool, now: u64) -> Option<Severity> {
        let first_at = *self.first_at.get_or_insert(now);
        let is_starting = !is_known && now.saturating_sub(first_at) < STARTING_SECONDS;
        let severity = match is_starting {
            true => Severity::Warning,
            false => Severity::Error,
        };
        let is_logged = self
            .logged
            .as_ref()
            .is_some_and(|(level, reason)| *level == severity && reason == why);
        if is_logged {
            return None;
        }
        self.logged = Some((severity, why.to_owned()));
        Some(severity)
    }

    /// A fetch brought something usable. Returns true if the log should say so, because it told of a failure before.
    pub fn succeeded(&mut self) -> bool {
        self.first_at = None;
        self.logged.take().is_some()
    }
}

/// The failures of everything that is fetched, by source.
#[derive(Debug)]
pub struct FailureLog<S>(Vec<(S, Failures)>);

impl<S> Default for FailureLog<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: PartialEq> FailureLog<S> {
    /// A fetch from `source` failed: see [`Failures::failed`].
    pub fn failed(&mut self, source: S, why: &str, is_known: bool, now: u64) -> Option<Severity> {
        let known = self.0.iter().position(|(other, _)| *other == source);
        let index = known.unwrap_or_else(|| {
            self.0.push((source, Failures::default()));
            self.0.len() - 1
        });
        let (_, failures) = self.0.get_mut(index)?;
        failures.failed(why, is_known, now)
    }

    /// A fetch from `source` brought something usable: see [`Failures::succeeded`].
    pub fn succeeded(&mut self, source: &S) -> bool {
        let mut all = self.0.iter_mut();
        let failures = all.find(|(other, _)| other == source);
        failures.is_some_and(|(_, failures)| failures.succeeded())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_failures_of_its_own() {
        let mut log = FailureLog::default();
        assert!(!log.succeeded(&"keys"), "nothing failed");
        for source in ["keys", "feed"] {
            let severity = log.failed(source, "no connection", true, 1);
            assert_eq!(severity, Some(Severity::Error));
            assert_eq!(log.failed(source, "no connection", true, 2), None);
        }
        assert!(log.succeeded(&"keys"));
        assert_eq!(log.failed("feed", "no connection", true, 3), None);
        assert!(log.succeeded(&"feed") && !log.succeeded(&"keys"));
    }

    #[test]
    fn failures_at_a_start_are_errors_only_when_they_persist() {
        let mut failures = Failures::default();
        let logged = (100..=130).map(|now| failures.failed("no connection", false, now));
        let logged: Vec<_> = logged.enumerate().filter(|(_, it)| it.is_some()).collect();
        let expected = [(0, Some(Severity::Warning)), (10, Some(Severity::Error))];
        assert_eq!(logged, expected);
    }

    #[test]
    fn what_was_known_before_fails_with_an_error() {
        let mut failures = Failures::default();
        assert!(!failures.succeeded(), "nothing failed");
        assert_eq!(failures.failed("a", true, 1), Some(Severity::Error));
        assert_eq!(failures.failed("a", true, 3), None);
        assert_eq!(failures.failed("b", true, 5), Some(Severity::Error));
        assert_eq!(failures.failed("b", true, 1000), None);
        assert!(failures.succeeded());
        assert_eq!(failures.failed("b", true, 1002), Some(Severity::Error));
    }

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
