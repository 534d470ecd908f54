//! What the log gets of failed fetches.

/// Time after the start, in seconds, during which failures of a source that never answered are only warnings:
/// gateways start before the services that they fetch from, and before DNS works.
const STARTING_SECONDS: u64 = 10;

/// Severity of a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A source works again.
    Info,
    /// Expected at the start, or without an effect on requests.
    Warning,
    /// An operator must act.
    Error,
}

/// The failures of one source. The log gets each reason once, because clients can cause a fetch every
/// two seconds.
#[derive(Debug, Default)]
pub struct Failures {
    first_at: Option<u64>,
    logged: Option<(Severity, String)>,
}

impl Failures {
    /// A fetch failed. `is_known`: an earlier fetch succeeded. Returns the severity if the log does not contain
    /// this failure yet.
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

    /// A fetch succeeded. Returns true if the log should report it, because the log contains an earlier
    /// failure.
    pub fn succeeded(&mut self) -> bool {
        self.first_at = None;
        self.logged.take().is_some()
    }
}

/// The failures of all sources.
#[derive(Debug)]
pub struct FailureLog<S>(Vec<(S, Failures)>);

impl<S> Default for FailureLog<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: PartialEq> FailureLog<S> {
    /// A fetch from `source` failed. See [`Failures::failed`].
    pub fn failed(&mut self, source: S, why: &str, is_known: bool, now: u64) -> Option<Severity> {
        let known = self.0.iter().position(|(other, _)| *other == source);
        let index = known.unwrap_or_else(|| {
            self.0.push((source, Failures::default()));
            self.0.len() - 1
        });
        let (_, failures) = self.0.get_mut(index)?;
        failures.failed(why, is_known, now)
    }

    /// A fetch from `source` succeeded. See [`Failures::succeeded`].
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
}
