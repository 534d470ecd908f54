//! The host-independent half of every host: schedules fetches, holds and releases requests, makes log lines and metrics.
//!
//! A host does four things:
//! - It tells what happens: [`Driver::tick`] whenever [`Driver::next_tick`] has passed, [`Driver::arrived`] and
//!   [`Driver::gone`] for each request, [`Driver::fetched`] or [`Driver::not_sent`] for each fetch.
//! - After a tick and after the end of a fetch it does what [`Driver::next_task`] returns, until that returns `None`.
//! - It carries out the [`Effect`] on each request, and then calls [`Driver::carried_out`], or has both done by
//!   [`Driver::carry_out`].
//! - It publishes [`Driver::metrics`] after each tick.

mod passing;
mod remark;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use keys::failures::{FailureLog, Severity};
use keys::signature::HostVerifier;

pub use self::passing::Passing;
pub use self::remark::Remark;
pub use crate::waiting::Held;

use crate::census::Census;
use crate::clock::{Clock, HostClock, Time};
use crate::decide::{Decision, Effect, Guard, Metrics, Patience, Request};
use crate::denial_log::{Denied, Throttle};
use crate::fetch::{Failure, Fetch, FetchId, FetchKind};
use crate::shared_data::SharedData;
use crate::source::WhenStale;
use crate::verdict::Denial;
use crate::waiting::{BATCH, Waiting};

/// Time between two ticks.
const TICK: Duration = Duration::from_secs(1);

/// Time between two ticks while another VM reads revocations for this one.
const FOLLOWING_TICK: Duration = Duration::from_millis(50);

/// Time to the next tick while a request waits for a fetch that is not sent yet, or for its turn.
pub const SOON: Duration = Duration::from_millis(1);

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

/// How a fetch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With something usable.
    Usable,
    /// With a body that the guard could not use.
    Useless,
    /// Without a body.
    Nothing,
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
    /// Most requests that continue after one tick or fetch, and how many of them are left.
    batch: usize,
    turns: usize,
    /// True if the next tick must come soon.
    hurries: bool,
    remarks: VecDeque<Remark>,
    failures: FailureLog<FetchId>,
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
            hurries: true,
            remarks: VecDeque::new(),
            failures: FailureLog::default(),
            throttle: Throttle::default(),
            census: Census::new(env!("CARGO_PKG_VERSION")),
        };
        driver.tell_time(clock);
        driver
    }

    /// Creates a driver of the same configuration for another thread of this process. All share the feeds, which this
    /// one reads. What one of them fetches, the host gives to the others with [`Driver::joins`] and [`Driver::adopts`].
    #[must_use]
    pub fn sibling(
        &self,
        host: Box<dyn HostVerifier>,
        shared_data: Box<dyn SharedData>,
        clock: &impl HostClock,
    ) -> Self {
        let mut driver = Self::new(self.guard.sibling(host, shared_data), clock);
        // What they share has times of one steady clock.
        driver.clock = self.clock.clone();
        driver.tell_time(clock);
        driver
    }

    /// True if a panic interrupted a change of what several drivers share. None of them may continue.
    pub fn is_damaged(&self) -> bool {
        self.guard.is_damaged()
    }

    /// Another driver of this process sends `fetch`, whose result is for both.
    pub fn joins(&mut self, fetch: &Fetch, sender: &Self) {
        self.guard.adopt(fetch, &sender.guard);
        self.waiting.fetch_started(fetch.source());
    }

    /// The fetch of another driver of this process has ended.
    pub fn adopts(&mut self, fetch: &Fetch, end: End, sender: &Self, clock: &impl HostClock) {
        self.tell_time(clock);
        self.guard.adopt(fetch, &sender.guard);
        self.ended(fetch, end);
    }

    /// For hosts in which the answers of one callback nest: at most 32 requests continue after one tick or fetch.
    #[must_use]
    pub fn in_batches(self) -> Self {
        let batch = BATCH;
        Self { batch, ..self }
    }

    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The time that the host told last.
    pub const fn time(&self) -> Time {
        self.time
    }

    /// Reads the clocks. [`Driver::tick`] and [`Driver::fetched`] do so. Between them the time stands still, unless the host
    /// calls [`Driver::keep_time`] before each request.
    #[cold]
    fn tell_time(&mut self, clock: &impl HostClock) {
        let (time, stepped) = self.clock.read(clock.wall(), clock.monotonic());
        self.time = time;
        self.guard.set_time(time);
        if stepped {
            let what = "the clock stepped: all revocations are read again";
            self.remark(Severity::Warning, None, None, what.to_owned());
            self.guard.doubt();
        }
    }

    /// Reads the clocks if a second has passed. Between ticks a cached token then ends at most a second late, however long the
    /// host takes for other things.
    pub fn keep_time(&mut self, clock: &impl HostClock) {
        if !self.clock.is_current(clock.monotonic()) {
            self.tell_time(clock);
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

    /// Takes the result of a fetch. Returns how it ended, for the other drivers of this process.
    pub fn fetched(
        &mut self,
        fetch: &Fetch,
        result: Result<Vec<u8>, Failure>,
        clock: &impl HostClock,
    ) -> End {
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
                self.ended(fetch, End::Usable);
                End::Usable
            }
            Err(failure) if came => self.failed(fetch, End::Useless, failure),
            Err(failure) => self.failed(fetch, End::Nothing, failure),
        }
    }

    /// The host refused to send this fetch.
    pub fn not_sent(&mut self, fetch: &Fetch, why: &str) -> End {
        self.failed(fetch, End::Nothing, Failure::without_response(why))
    }

    fn failed(&mut self, fetch: &Fetch, end: End, Failure { status, why }: Failure) -> End {
        let now = self.time.steady;
        if end == End::Nothing {
            self.guard.failed(fetch.issuer, fetch.kind, status, now);
        }
        let source = fetch.log_source();
        let is_known = self.guard.is_known(source.0, source.1);
        if let Some(severity) = self.failures.failed(source, &why, is_known, now) {
            self.remark_fetch(severity, fetch, why);
        }
        self.ended(fetch, end);
        end
    }

    /// Releases the requests that waited for this fetch, unless another one follows at once.
    fn ended(&mut self, fetch: &Fetch, end: End) {
        let (source, now) = (fetch.source(), self.time.steady);
        if self.guard.goes_on(fetch, end == End::Usable, now) {
            self.waiting.extend(source, now);
        } else if end != End::Nothing {
            self.waiting.fetch_ended(source);
        } else if fetch.kind == FetchKind::Revocations || self.guard.has_keys(fetch.issuer) {
            // Without keys, requests wait for the next attempt. With keys, requests are decided now. A request that waits for a feed has
            // the keys of its issuer.
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
            let patience = turn.patience;
            let decide = |request: Request<'_>| self.guard.decide(request, patience, || wall);
            match turn.request.with(decide) {
                Decision::Now(effect) => {
                    return Some(Task::Answer {
                        id: turn.context,
                        effect,
                        request: turn.request,
                    });
                }
                Decision::After(source) => {
                    self.waiting.hold_again(turn, source, self.time.steady);
                    self.looks_for_fetches = true;
                }
            }
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

    /// Decides about a new request. `id`: a number of the host, different for each request that waits. `denied`: for
    /// the log. Returns `None` if the request waits for a [`Task::Answer`], and a tick is due soon. Only a token that
    /// is not in the cache needs the clock.
    pub fn arrived(
        &mut self,
        id: u32,
        request: Request<'_>,
        denied: &Denied<'_>,
        clock: &impl HostClock,
    ) -> Option<Effect> {
        match self.guard.decide(request, Patience::Left, || clock.wall()) {
            Decision::Now(effect) => Some(effect),
            Decision::After(source) => self.hold(id, source, request, denied),
        }
    }

    /// Holds a request, unless too many wait.
    #[cold]
    fn hold(
        &mut self,
        id: u32,
        source: FetchId,
        request: Request<'_>,
        denied: &Denied<'_>,
    ) -> Option<Effect> {
        if self.waiting.is_full() {
            if source.1 == FetchKind::Revocations {
                // Where a stale feed is allowed, the request need not wait for it.
                let (wall, patience) = (self.time.wall, Patience::Over(source.1));
                if let Decision::Now(effect) = self.guard.decide(request, patience, || wall)
                    && effect.denial.is_none()
                {
                    return Some(effect);
                }
            }
            return Some(self.guard.denial(Denial::Busy, None));
        }
        let held = Held::new(request, denied);
        let now = self.time.steady;
        self.waiting.hold(id, source, now, held);
        self.hurries = true;
        None
    }

    /// Forgets a request that has ended, if it waits.
    pub fn gone(&mut self, id: u32) {
        self.waiting.forget(id);
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
