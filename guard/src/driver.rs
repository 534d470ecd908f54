//! One guard with everything around it that is the same in every host: which fetches are sent when, which requests wait and
//! in which order they go on, what the log says, and what the metrics show.
//!
//! A host does four things:
//! - It tells what happens: [`Driver::tick`] whenever [`Driver::next_tick`] has passed, [`Driver::arrived`] and
//!   [`Driver::gone`] for each request, [`Driver::fetched`] or [`Driver::not_sent`] for each fetch.
//! - After a tick and after the end of a fetch it does what [`Driver::next_task`] returns, until that returns `None`.
//! - It carries out the [`Effect`] on each request, and then calls [`Driver::carried_out`].
//! - It publishes [`Driver::metrics`] after each tick.

mod remark;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

pub use self::remark::Remark;
pub use crate::waiting::Held;

use crate::answers::Denial;
use crate::census::Census;
use crate::clock::{Clock, HostClock, Time};
use crate::config::WhenStale;
use crate::denial_log::{Denied, Line, Throttle};
use crate::fetch::{Failure, FailureLog, Severity};
use crate::guard::{Decision, Effect, Fate, Fetch, FetchKind, Guard, Metrics, Patience, Request};
use crate::waiting::{BATCH, Source, Waiting};

/// Time between two ticks.
const TICK: Duration = Duration::from_secs(1);

/// Time between two ticks while another VM reads revocations for this one.
const FOLLOWING_TICK: Duration = Duration::from_millis(50);

/// Time to the next tick while a request waits for a fetch that is not sent yet, or for its turn.
const SOON: Duration = Duration::from_millis(1);

/// What the host does next.
#[derive(Debug)]
pub enum Task {
    /// Writes this to the log.
    Log(Remark),
    /// Sends this fetch, and calls [`Driver::fetched`] when it has ended.
    Send(Fetch),
    /// Carries out the effect on this request, which has waited.
    Answer {
        /// The number of the request in [`Driver::arrived`].
        id: u32,
        effect: Effect,
        request: Held,
    },
}

/// A guard and the requests that wait for its fetches. It belongs to one thread.
#[derive(Debug)]
pub struct Driver {
    guard: Guard,
    waiting: Waiting<Held>,
    clock: Clock,
    time: Time,
    /// Time of the last sweep of expired revocations, in seconds of the steady clock.
    swept: Option<u64>,
    /// True if a fetch may be due.
    looks_for_fetches: bool,
    to_send: VecDeque<Fetch>,
    /// Most requests that go on after one tick or fetch, and how many of them are left.
    batch: usize,
    turns: usize,
    has_timer: bool,
    /// True if the next tick must come soon.
    hurries: bool,
    remarks: VecDeque<Remark>,
    failures: FailureLog<Source>,
    throttle: Throttle,
    census: Census,
}

impl Driver {
    /// Creates a driver whose first tick is due at once.
    pub fn new(guard: Guard, clock: &impl HostClock) -> Self {
        let mut driver = Self {
            guard,
            waiting: Waiting::default(),
            clock: Clock::default(),
            time: Time::default(),
            swept: None,
            looks_for_fetches: false,
            to_send: VecDeque::new(),
            batch: usize::MAX,
            turns: 0,
            has_timer: true,
            hurries: true,
            remarks: VecDeque::new(),
            failures: FailureLog::default(),
            throttle: Throttle::default(),
            census: Census::new(env!("CARGO_PKG_VERSION")),
        };
        driver.tell_time(clock);
        driver
    }

    /// For hosts in which the answers of one callback nest: at most 32 requests go on after one tick or fetch.
    #[must_use]
    pub fn in_batches(self) -> Self {
        let batch = BATCH;
        Self { batch, ..self }
    }

    /// For hosts without a timer, which tick when a request arrives: no later tick sends a fetch again, or lets further
    /// requests go on.
    #[must_use]
    pub fn without_timer(self) -> Self {
        Self {
            has_timer: false,
            batch: usize::MAX,
            ..self
        }
    }

    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The time that the host told last.
    pub const fn time(&self) -> Time {
        self.time
    }

    /// Reads the clocks. [`Driver::tick`] and [`Driver::fetched`] do so too. Between them the time stands still: a cached
    /// token ends up to a second late, unless the host calls this before each request.
    pub fn tell_time(&mut self, clock: &impl HostClock) {
        let (time, stepped) = self.clock.read(clock.wall(), clock.monotonic());
        self.time = time;
        self.guard.set_time(time);
        if stepped {
            let what = "the clock stepped: all revocations are read again";
            self.remark(Severity::Warning, None, None, what.to_owned());
            self.guard.doubt();
        }
    }

    /// Exchanges feed pages with the other VMs, looks for due fetches, and ends the waits whose time is over.
    pub fn tick(&mut self, clock: &impl HostClock) {
        self.tell_time(clock);
        let now = self.time.steady;
        for issuer in self.guard.keep_in_step() {
            self.waiting.fetch_ended((issuer, FetchKind::Revocations));
        }
        self.waiting.expire(now);
        if self.swept.replace(now) != Some(now) {
            self.guard.sweep();
        }
        self.hurries = false;
        self.go_on();
    }

    /// Takes the result of a fetch.
    pub fn fetched(
        &mut self,
        fetch: &Fetch,
        result: Result<Vec<u8>, Failure>,
        clock: &impl HostClock,
    ) {
        self.tell_time(clock);
        let came = result.is_ok();
        let outcome = result.and_then(|body| {
            let (issuer, kind) = (fetch.issuer, fetch.kind);
            let applied = self.guard.fetched(issuer, kind, &body, self.time.steady);
            applied.map_err(|why| {
                Failure::without_response(format!("the response cannot be used: {why}"))
            })
        });
        self.guard.count_fetch(outcome.is_ok());
        match outcome {
            Ok(remarks) => {
                if self.failures.succeeded(&fetch.log_source()) {
                    let what = "fetched, after failures".to_owned();
                    self.remark_fetch(Severity::Info, fetch, what);
                }
                for remark in remarks {
                    self.remark_fetch(Severity::Warning, fetch, remark);
                }
                self.ended(fetch, true, true);
            }
            Err(failure) => self.failed(fetch, came, failure),
        }
    }

    /// The host refused to send this fetch.
    pub fn not_sent(&mut self, fetch: &Fetch, why: &str) {
        self.failed(fetch, false, Failure::without_response(why));
    }

    /// `came`: a body came, which the guard could not use.
    fn failed(&mut self, fetch: &Fetch, came: bool, Failure { status, why }: Failure) {
        let now = self.time.steady;
        if !came {
            self.guard.failed(fetch.issuer, fetch.kind, status, now);
        }
        let source = fetch.log_source();
        let is_known = self.guard.is_known(source.0, source.1);
        if let Some(severity) = self.failures.failed(source, &why, is_known, now) {
            self.remark_fetch(severity, fetch, why);
        }
        self.ended(fetch, came, false);
    }

    /// Releases the requests that waited for this fetch, unless another one follows at once.
    fn ended(&mut self, fetch: &Fetch, came: bool, is_usable: bool) {
        let (source, now) = (fetch.source(), self.time.steady);
        if self.guard.goes_on(fetch, is_usable, now) {
            self.waiting.extend(source, now);
        } else if came {
            self.waiting.fetch_ended(source);
        } else if self.guard.has_keys(fetch.issuer) || !self.has_timer {
            // Without keys, requests wait for the next attempt, if there is a timer to send it. With keys, requests are
            // decided now.
            self.waiting.fetch_failed(source);
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        self.looks_for_fetches = true;
        self.turns = self.batch;
    }

    /// What the host must do now. The host asks again after each task, because an answer may end other requests.
    pub fn next_task(&mut self) -> Option<Task> {
        loop {
            self.take_remarks();
            if let Some(remark) = self.remarks.pop_front() {
                return Some(Task::Log(remark));
            }
            if std::mem::take(&mut self.looks_for_fetches) {
                self.to_send.extend(self.guard.due(self.time.steady));
            }
            if let Some(fetch) = self.to_send.pop_front() {
                self.waiting.fetch_started(fetch.source());
                return Some(Task::Send(fetch));
            }
            if self.turns == 0 {
                self.hurries |= self.waiting.has_released();
                return None;
            }
            let turn = self.waiting.next_turn()?;
            self.turns -= 1;
            let wall = self.time.wall;
            let outcome = turn.request.with(|request| {
                let patience = turn.patience;
                self.guard.decide(request, patience, || wall)
            });
            if let Decision::Wait { issuer, kind } = outcome.decision {
                let now = self.time.steady;
                self.waiting.hold_again(turn, (issuer, kind), now);
                self.looks_for_fetches = true;
                continue;
            }
            return Some(Task::Answer {
                id: turn.context,
                effect: self.guard.effect(outcome),
                request: turn.request,
            });
        }
    }

    /// Time until the next tick.
    pub fn next_tick(&self) -> Duration {
        if self.hurries {
            SOON
        } else if self.guard.follows() {
            FOLLOWING_TICK
        } else {
            TICK
        }
    }

    /// True if the host must set its timer to [`Driver::next_tick`] again.
    pub const fn hurries(&self) -> bool {
        self.hurries
    }

    /// For hosts without a timer: true if a tick is due now.
    pub fn is_behind(&self, clock: &impl HostClock) -> bool {
        let ticked = self.swept.is_some() && clock.wall() == self.time.wall;
        !ticked || !self.waiting.is_empty()
    }

    /// Decides about a new request. `id`: a number of the host, different for each request that waits. `denied`: for the log. Returns `None` if
    /// the request waits for a [`Task::Answer`], and a tick is due soon. Only a token that is not in the cache needs the
    /// clock.
    pub fn arrived(
        &mut self,
        id: u32,
        request: Request<'_>,
        denied: &Denied<'_>,
        clock: &impl HostClock,
    ) -> Option<Effect> {
        let outcome = self.guard.decide(request, Patience::Left, || clock.wall());
        let Decision::Wait { issuer, kind } = outcome.decision else {
            return Some(self.guard.effect(outcome));
        };
        if self.waiting.is_full() {
            return Some(self.guard.denial(Denial::Busy, None));
        }
        let held = Held::new(request, denied);
        let now = self.time.steady;
        self.waiting.hold(id, (issuer, kind), now, held);
        self.hurries = true;
        None
    }

    /// Forgets a request that has ended, if it waits.
    pub fn gone(&mut self, id: u32) {
        self.waiting.forget(id);
    }

    /// Counts what the host has done with a request. Returns a line for the log if the request was refused, or would have
    /// been without report-only mode.
    pub fn carried_out(&mut self, effect: &Effect, request: &Denied<'_>) -> Option<Line> {
        self.guard.count(effect);
        let denial = effect.denial.as_ref()?;
        let (status, passes) = match &effect.fate {
            Fate::Pass { .. } => (0, true),
            Fate::Answer(answer) => (answer.status, false),
        };
        self.denial_line(denial.name(), status, passes, request)
    }

    /// The line for the log about a request that the host refused for its own reason; `None` if there have been too many
    /// lines in this second. `passes`: the request passes because of report-only mode.
    pub fn denial_line(
        &mut self,
        reason: &'static str,
        status: u32,
        passes: bool,
        request: &Denied<'_>,
    ) -> Option<Line> {
        let left_out = self.throttle.admits(self.time.steady)?;
        Some(Line::new(reason, status, passes, left_out, request))
    }

    /// Metrics of this VM, with counts since the last call.
    pub fn metrics(&mut self) -> Metrics {
        self.guard.metrics(self.waiting.len(), self.time.steady)
    }

    /// Number of running VMs, from time to time; `None` in hosts without shared data.
    pub fn running(&mut self) -> Option<u64> {
        let data = self.guard.shared_data();
        self.census.count(data, self.time.steady)
    }

    /// This VM ends. Returns the number of VMs that still run, if it is known.
    pub fn end(&mut self) -> Option<u64> {
        self.guard.resign();
        let data = self.guard.shared_data();
        self.census.leave(data, self.time.steady)
    }

    /// True if the guard can decide about the tokens of at least one issuer, because an issuer that is down must not block
    /// the tokens of the others.
    pub fn is_ready(&self) -> bool {
        let mut issuers = self.guard.config().issuers.iter().enumerate();
        issuers.any(|(issuer, config)| {
            let needs_feed = config
                .revocations
                .as_ref()
                .is_some_and(|source| source.when_stale == WhenStale::Deny);
            let has_feed = || self.guard.is_known(issuer, FetchKind::Revocations);
            self.guard.has_keys(issuer) && (!needs_feed || has_feed())
        })
    }

    fn remark_fetch(&mut self, severity: Severity, fetch: &Fetch, what: String) {
        self.remark(severity, Some(fetch.issuer), Some(fetch), what);
    }

    fn take_remarks(&mut self) {
        for (issuer, what) in self.guard.take_remarks() {
            self.remark(Severity::Warning, Some(issuer), None, what);
        }
    }

    fn remark(
        &mut self,
        severity: Severity,
        issuer: Option<usize>,
        fetch: Option<&Fetch>,
        what: String,
    ) {
        let issuers = &self.guard.config().issuers;
        let issuer = issuer.and_then(|issuer| issuers.get(issuer));
        self.remarks.push_back(Remark {
            severity,
            issuer: issuer.map(|config| config.issuer.clone()),
            fetch: fetch.map(|fetch| (fetch.kind.into(), fetch.endpoint.clone())),
            what,
        });
    }
}
