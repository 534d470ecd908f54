//! Counts what the load expected and what it got.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Answer;

/// Operations of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Call,
    BadCall,
    ClientCredentials,
    JwtBearer,
    Page,
    SignIn,
    Code,
    Refresh,
    Legacy,
    Revoke,
    BadToken,
    Administration,
}

impl Operation {
    pub const ALL: [Self; 12] = [
        Self::Call,
        Self::BadCall,
        Self::ClientCredentials,
        Self::JwtBearer,
        Self::Page,
        Self::SignIn,
        Self::Code,
        Self::Refresh,
        Self::Legacy,
        Self::Revoke,
        Self::BadToken,
        Self::Administration,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "API call",
            Self::BadCall => "API call to refuse",
            Self::ClientCredentials => "client credentials",
            Self::JwtBearer => "JWT bearer",
            Self::Page => "authorization endpoint",
            Self::SignIn => "sign-in",
            Self::Code => "authorization code",
            Self::Refresh => "refresh",
            Self::Legacy => "legacy flow",
            Self::Revoke => "revocation",
            Self::BadToken => "token request to refuse",
            Self::Administration => "administration",
        }
    }

    /// True if the operation needs a running token service. API calls do not: the filter decides about them with the
    /// keys and revocations that it has.
    const fn needs_service(self) -> bool {
        !matches!(self, Self::Call | Self::BadCall)
    }
}

/// What is down during an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The only token service, or one of them dies over its requests.
    Service,
    /// The token service whose internal listener the administration uses. Another token service still runs.
    Administration,
    /// What all token services need, such as their database. Requests must get 503 with `Retry-After`.
    Retryable,
    /// The whole machine: it stood still.
    Machine,
}

/// A gap between two readings of the clock that is too long for any load: the machine stood still.
const STANDSTILL: Duration = Duration::from_secs(3);

/// After a standstill, newly issued codes, sessions and tokens may have expired.
const AFTERMATH: Duration = Duration::from_secs(25);

#[derive(Debug)]
struct Outage {
    scope: Scope,
    end: Option<Instant>,
}

/// Requests of one operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub as_expected: u64,
    /// Requests that failed because of an outage.
    pub excused: u64,
}

/// Times in one window.
#[derive(Debug, Default)]
pub struct Times {
    pub operations: BTreeMap<Operation, Vec<Duration>>,
    /// Of the same work again and again: a measure of the machine.
    pub machine: Vec<Duration>,
}

/// What an operation did since its last failure.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    failures: u64,
    works_since: Option<Instant>,
    last_success: Option<Instant>,
}

#[derive(Debug, Default)]
struct Book {
    runs: BTreeMap<Operation, Run>,
    counts: BTreeMap<Operation, Count>,
    times: Times,
    surprises: BTreeMap<String, u64>,
}

/// The counts of all threads.
#[derive(Debug, Default)]
pub struct Ledger {
    book: Mutex<Book>,
    outages: Mutex<Vec<Outage>>,
    last_look: Mutex<Option<Instant>>,
}

impl Ledger {
    /// Reads the clock to detect that the machine stood still. Call this more often than every [`STANDSTILL`].
    pub fn look_at_clock(&self) {
        self.looked(Instant::now());
    }

    fn looked(&self, now: Instant) {
        let mut last_look = self
            .last_look
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let last = last_look.replace(now);
        let stood_still = last.is_some_and(|last| now.duration_since(last) > STANDSTILL);
        drop(last_look);
        if stood_still {
            self.outages().push(Outage {
                scope: Scope::Machine,
                end: Some(now + AFTERMATH),
            });
        }
    }

    /// Notes the time that the machine took for the work of a probe.
    pub fn probed(&self, took: Duration) {
        self.book().times.machine.push(took);
    }

    /// Number of times that the machine stood still.
    pub fn standstills(&self) -> usize {
        let outages = self.outages();
        let standstills = outages
            .iter()
            .filter(|outage| outage.scope == Scope::Machine);
        standstills.count()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outages(&self) -> MutexGuard<'_, Vec<Outage>> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` as an outage.
    pub fn during_outage<T>(&self, scope: Scope, work: impl FnOnce() -> T) -> T {
        let index = {
            let mut outages = self.outages();
            outages.push(Outage { scope, end: None });
            outages.len() - 1
        };
        let done = work();
        if let Some(outage) = self.outages().get_mut(index) {
            outage.end = Some(Instant::now());
        }
        done
    }

    /// True if an outage since `start` explains that `operation` got this answer, or none.
    fn explains(&self, operation: Operation, answer: Option<&Answer>, start: Instant) -> bool {
        self.look_at_clock();
        let is_away = answer.is_none_or(|answer| answer.status >= 500);
        self.outages().iter().any(|outage| {
            let concerns = match outage.scope {
                Scope::Service => is_away && operation.needs_service(),
                Scope::Administration => is_away && operation == Operation::Administration,
                Scope::Retryable => {
                    operation.needs_service() && answer.is_some_and(Answer::names_a_retry)
                }
                Scope::Machine => true,
            };
            concerns && outage.end.is_none_or(|end| end > start)
        })
    }

    /// The end of the last outage, but not before `start`.
    pub fn undisturbed_since(&self, start: Instant) -> Instant {
        let outages = self.outages();
        let ends = outages
            .iter()
            .map(|outage| outage.end.unwrap_or_else(Instant::now));
        ends.fold(start, Instant::max)
    }

    /// Sends a request that must get one of the statuses `expected`. Otherwise counts the reason and returns `None`.
    pub fn expect(
        &self,
        operation: Operation,
        expected: &[u16],
        request: impl FnOnce() -> Result<Answer>,
    ) -> Option<Answer> {
        let start = Instant::now();
        let outcome = request();
        let took = start.elapsed();
        match outcome {
            Ok(answer) if expected.contains(&answer.status) => {
                self.note(operation, true);
                let mut book = self.book();
                book.counts.entry(operation).or_default().as_expected += 1;
                let times = &mut book.times.operations;
                times.entry(operation).or_default().push(took);
                Some(answer)
            }
            Ok(answer) => {
                let should_pass = is_success(expected.first());
                let slipped_in = !should_pass && is_success(Some(&answer.status));
                let kind = match (should_pass, slipped_in) {
                    (true, _) => "REFUSED, and should pass",
                    (false, true) => "PASSED, and should be refused",
                    (false, false) => "REFUSED otherwise than it should be",
                };
                // No outage explains that a request was wrongly accepted.
                self.note(operation, slipped_in);
                if !slipped_in && self.explains(operation, Some(&answer), start) {
                    self.excuse(operation);
                } else {
                    let body: String = answer.body.chars().take(160).collect();
                    self.surprise(operation, &format!("{kind}: {} {body}", answer.status));
                }
                None
            }
            Err(_) if self.explains(operation, None, start) => {
                self.note(operation, false);
                self.excuse(operation);
                None
            }
            Err(error) => {
                self.note(operation, false);
                self.surprise(operation, &format!("FAILED: {error:#}"));
                None
            }
        }
    }

    /// Notes whether an operation works now.
    pub fn note(&self, operation: Operation, works: bool) {
        let now = Instant::now();
        let mut book = self.book();
        let run = book.runs.entry(operation).or_default();
        if works {
            run.works_since.get_or_insert(now);
            run.last_success = Some(now);
        } else {
            *run = Run {
                failures: run.failures + 1,
                ..Run::default()
            };
        }
    }

    /// Forgets what [`Self::note`] noted.
    pub fn watch(&self) {
        self.book().runs.clear();
    }

    /// Failures since [`Self::watch`], of all operations.
    pub fn failures(&self) -> u64 {
        self.book().runs.values().map(|run| run.failures).sum()
    }

    /// The time from which on all `operations` worked, if each worked after `start` and has not failed since.
    pub fn all_work(&self, operations: &[Operation], start: Instant) -> Option<Instant> {
        let book = self.book();
        let mut since = start;
        for operation in operations {
            let run = book.runs.get(operation)?;
            if run.last_success? < start {
                return None;
            }
            since = since.max(run.works_since?);
        }
        Some(since)
    }

    fn excuse(&self, operation: Operation) {
        self.book().counts.entry(operation).or_default().excused += 1;
    }

    /// Counts a failure that must not happen.
    pub fn surprise(&self, operation: Operation, what: &str) {
        let line = format!("{}: {what}", operation.name());
        *self.book().surprises.entry(line).or_default() += 1;
    }

    /// The times of the window that ends now.
    pub fn take_times(&self) -> Times {
        std::mem::take(&mut self.book().times)
    }

    pub fn count(&self, operation: Operation) -> Count {
        self.book()
            .counts
            .get(&operation)
            .copied()
            .unwrap_or_default()
    }

    /// The failures that must not happen, with their counts.
    pub fn surprises(&self) -> BTreeMap<String, u64> {
        self.book().surprises.clone()
    }
}

fn is_success(status: Option<&u16>) -> bool {
    status.is_some_and(|status| *status < 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16) -> Result<Answer> {
        let mut answer = Answer {
            status,
            ..Answer::default()
        };
        if status == 503 {
            answer.headers.insert("retry-after", 1.into());
        }
        Ok(answer)
    }

    impl Ledger {
        /// True if a request that must get the status `expected` is told what it got.
        fn takes(&self, operation: Operation, expected: u16, status: u16) -> bool {
            let answer = self.expect(operation, &[expected], || answer(status));
            answer.is_some()
        }
    }

    #[test]
    fn what_should_pass_and_what_should_not_are_told_apart() {
        let ledger = Ledger::default();
        assert!(ledger.takes(Operation::Call, 200, 200));
        assert!(!ledger.takes(Operation::Call, 200, 401));
        assert!(!ledger.takes(Operation::BadCall, 401, 200));
        assert!(!ledger.takes(Operation::BadCall, 401, 400));
        let surprises: Vec<String> = ledger.surprises().into_keys().collect();
        assert_eq!(
            surprises,
            [
                "API call to refuse: PASSED, and should be refused: 200 ",
                "API call to refuse: REFUSED otherwise than it should be: 400 ",
                "API call: REFUSED, and should pass: 401 ",
            ]
        );
        assert_eq!(ledger.count(Operation::Call).as_expected, 1);
    }

    /// A restart explains a missing answer of the service, but no wrong answer, and no failure at the API.
    #[test]
    fn a_restart_explains_only_what_it_causes() {
        let ledger = Ledger::default();
        ledger.during_outage(Scope::Service, || {
            assert!(!ledger.takes(Operation::Refresh, 200, 503));
            assert!(!ledger.takes(Operation::Refresh, 200, 400));
            assert!(!ledger.takes(Operation::Call, 200, 503));
        });
        assert_eq!(ledger.count(Operation::Refresh).excused, 1);
        assert_eq!(ledger.surprises().len(), 2);
        ledger.takes(Operation::Refresh, 200, 503);
        assert_eq!(ledger.surprises().len(), 3, "the outage is over");

        ledger.during_outage(Scope::Administration, || {
            ledger.expect(Operation::Administration, &[200], || {
                anyhow::bail!("refused")
            });
            ledger.takes(Operation::JwtBearer, 200, 503);
        });
        assert_eq!(ledger.count(Operation::Administration).excused, 1);
        assert_eq!(ledger.surprises().len(), 4, "another service serves on");
    }

    /// A database that is away explains a refusal that names a retry, and nothing at the API.
    #[test]
    fn a_failover_explains_what_may_be_repeated() {
        let ledger = Ledger::default();
        let start = Instant::now();
        ledger.watch();
        ledger.during_outage(Scope::Retryable, || {
            ledger.takes(Operation::Refresh, 200, 503);
            ledger.takes(Operation::Refresh, 200, 500);
            ledger.expect(Operation::Refresh, &[200], || anyhow::bail!("no answer"));
            ledger.takes(Operation::Call, 200, 503);
        });
        assert_eq!(ledger.count(Operation::Refresh).excused, 1);
        assert_eq!(ledger.surprises().len(), 3);
        assert_eq!(ledger.failures(), 4);
        let works = |operation, since| ledger.all_work(&[operation], since).is_some();
        assert!(!works(Operation::Refresh, start));
        ledger.takes(Operation::Refresh, 200, 200);
        assert!(works(Operation::Refresh, start));
        assert!(!works(Operation::Call, start));
        assert!(!works(Operation::Refresh, Instant::now()));
    }

    /// A code may have expired while the machine stood still. Refusals must happen even then.
    #[test]
    fn a_standstill_explains_refusals_alone() {
        let ledger = Ledger::default();
        let start = Instant::now();
        ledger.looked(start);
        ledger.looked(start + STANDSTILL);
        assert_eq!(ledger.standstills(), 0, "a busy machine");
        ledger.looked(start + 3 * STANDSTILL);
        assert_eq!(ledger.standstills(), 1);
        ledger.takes(Operation::Code, 200, 400);
        assert_eq!(ledger.count(Operation::Code).excused, 1);
        ledger.takes(Operation::BadCall, 401, 200);
        assert_eq!(ledger.surprises().len(), 1);
    }
}
