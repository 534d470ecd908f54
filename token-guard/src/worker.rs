//! One worker: a guard, the requests that wait for its fetches, and the loop that drives it.
//!
//! A guard belongs to one thread, like the VM of a gateway's worker. No request waits for a lock, and a worker
//! that blocks does not block others. Expensive resources are shared: one worker reads a revocation feed for
//! all workers, and fetches share connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use guard::answers::Denial;
use guard::clock::{Clock, Time};
use guard::config::{Config, WhenStale};
use guard::denial_log::{Denied, Line};
use guard::fetch::{Failure, FailureLog, Severity};
use guard::guard::{Decision, Effect, Fate, Fetch, Guard, Outcome, Patience, Request, Subject};
use guard::waiting::{Source, Turn, Waiting};
use tokio::sync::{Notify, oneshot};

use crate::fetch::Fetcher;
use crate::metrics::{Gauges, Refused, WorkerMetrics};
use crate::shared_data::WorkersData;
use crate::signatures::NativeSignatures;

/// Time between two ticks.
const TICK: Duration = Duration::from_secs(1);

/// Time between two ticks while another worker reads revocations for this one.
const FOLLOWING_TICK: Duration = Duration::from_millis(50);

/// Most log lines about refused requests that a worker writes in a second.
const LINES_PER_SECOND: u32 = 10;

#[derive(Debug)]
struct Held {
    method: Vec<u8>,
    target: Vec<u8>,
    authorization: Vec<Vec<u8>>,
    /// Sends the decision to the task that answers the gateway.
    decided: oneshot::Sender<Effect>,
}

/// The log of refusals in the current second.
#[derive(Debug, Default)]
struct Lines {
    second: u64,
    written: u32,
    left_out: u64,
}

#[derive(Debug)]
pub(crate) struct Worker {
    guard: RefCell<Guard>,
    waiting: RefCell<Waiting<Held>>,
    contexts: Cell<u32>,
    clock: RefCell<Clock>,
    started: Instant,
    lines: RefCell<Lines>,
    failures: RefCell<FailureLog<Source>>,
    /// Time of the last sweep of expired revocations, in seconds of the steady clock.
    swept: Cell<Option<u64>>,
    hurry: Notify,
    fetcher: Fetcher,
    metrics: WorkerMetrics,
}

impl Worker {
    /// Creates a worker that knows no keys except inline ones. [`Worker::run`] fetches the rest.
    pub(crate) fn new(
        config: Config,
        data: WorkersData,
        fetcher: Fetcher,
        metrics: WorkerMetrics,
    ) -> Self {
        let guard = Guard::new(config)
            .with_host(Box::new(NativeSignatures))
            .with_shared_data(Box::new(data));
        Self {
            guard: RefCell::new(guard),
            waiting: RefCell::default(),
            contexts: Cell::default(),
            clock: RefCell::default(),
            started: Instant::now(),
            lines: RefCell::default(),
            failures: RefCell::default(),
            swept: Cell::default(),
            hurry: Notify::new(),
            fetcher,
            metrics,
        }
    }

    /// Runs the worker until the program ends. If the worker panics, the program ends too. Otherwise the worker
    /// would continue with old data, and would let revoked tokens pass if `when_stale` allows that.
    pub(crate) async fn watch(self: Rc<Self>) {
        let running = actix_web::rt::spawn(self.run());
        if running.await.is_err_and(|error| error.is_panic()) {
            tracing::error!("a worker has stopped after a panic: the program ends");
            std::process::exit(1);
        }
    }

    /// Ticks forever.
    async fn run(self: Rc<Self>) {
        loop {
            let period = self.tick();
            // Ticks again when the time is over or a request needs a fetch.
            let _ = tokio::time::timeout(period, self.hurry.notified()).await;
        }
    }

    fn take_time(&self) -> Time {
        let monotonic = self.started.elapsed().as_secs();
        let (time, stepped) = self.clock.borrow_mut().read(now(), Some(monotonic));
        let mut guard = self.guard.borrow_mut();
        guard.set_time(time);
        if stepped {
            tracing::warn!("the clock stepped: all revocations are read again");
            guard.doubt();
        }
        time
    }

    /// Starts due fetches and resumes requests that have waited. Returns the time until the next tick.
    fn tick(self: &Rc<Self>) -> Duration {
        let now = self.take_time().steady;
        let (news, follows) = {
            let mut guard = self.guard.borrow_mut();
            (guard.keep_in_step(), guard.follows())
        };
        self.fetch_due(now);
        {
            let mut waiting = self.waiting.borrow_mut();
            for issuer in news {
                waiting.fetch_ended((issuer, Subject::Revocations));
            }
            waiting.expire(now);
        }
        self.resume_released();
        if self.swept.replace(Some(now)) != Some(now) {
            self.guard.borrow_mut().sweep();
        }
        self.publish(now);
        self.log_remarks();
        if follows { FOLLOWING_TICK } else { TICK }
    }

    fn publish(&self, now: u64) {
        let is_ready = self.is_ready();
        let waiting = self.waiting.borrow().len();
        let mut guard = self.guard.borrow_mut();
        let gauges = Gauges::of(&guard, waiting, is_ready, now);
        // The runtime of a worker has one thread.
        let busy = tokio::runtime::Handle::current()
            .metrics()
            .worker_total_busy_duration(0);
        self.metrics.publish(guard.take_counts(), busy, gauges);
    }

    /// True if the worker can decide about the tokens of at least one issuer, because an issuer that is down
    /// must not block the tokens of the others.
    fn is_ready(&self) -> bool {
        let guard = self.guard.borrow();
        let mut issuers = guard.config().issuers.iter().enumerate();
        issuers.any(|(issuer, config)| {
            let needs_feed = config
                .revocations
                .as_ref()
                .is_some_and(|source| source.when_stale == WhenStale::Deny);
            guard.has_keys(issuer) && (!needs_feed || guard.is_known(issuer, Subject::Revocations))
        })
    }

    fn fetch_due(self: &Rc<Self>, now: u64) {
        let due = self.guard.borrow_mut().due(now);
        for fetch in due {
            self.waiting.borrow_mut().fetch_started(fetch.source());
            let worker = Rc::clone(self);
            actix_web::rt::spawn(async move {
                let outcome = worker.fetcher.fetch(&fetch).await;
                worker.fetched(&fetch, outcome);
            });
        }
    }

    fn fetched(self: &Rc<Self>, fetch: &Fetch, outcome: Result<Vec<u8>, Failure>) {
        let now = self.take_time().steady;
        let source = fetch.source();
        match outcome {
            Ok(body) => {
                let outcome =
                    self.guard
                        .borrow_mut()
                        .fetched(fetch.issuer, fetch.subject, &body, now);
                let is_usable = outcome.is_ok();
                self.metrics.fetched(is_usable);
                match outcome {
                    Ok(remarks) => {
                        self.log_success(fetch);
                        for remark in &remarks {
                            self.remark(fetch, Severity::Warning, remark);
                        }
                    }
                    Err(why) => {
                        let why = format!("the response cannot be used: {why}");
                        self.log_failure(fetch, &why, now);
                    }
                }
                let goes_on = self.guard.borrow().goes_on(fetch, is_usable, now);
                let mut waiting = self.waiting.borrow_mut();
                if goes_on {
                    waiting.extend(source, now);
                } else {
                    waiting.fetch_ended(source);
                }
            }
            Err(Failure { status, why }) => {
                self.metrics.fetched(false);
                let mut guard = self.guard.borrow_mut();
                guard.failed(fetch.issuer, fetch.subject, status, now);
                let is_known = guard.has_keys(fetch.issuer);
                let goes_on = guard.goes_on(fetch, false, now);
                drop(guard);
                self.log_failure(fetch, &why, now);
                // Without keys, requests wait for the next attempt. With keys, requests are decided now.
                let mut waiting = self.waiting.borrow_mut();
                if goes_on {
                    waiting.extend(source, now);
                } else if is_known {
                    waiting.fetch_failed(source);
                }
            }
        }
        self.log_remarks();
        // The next page, or the next held request, follows at once.
        self.fetch_due(now);
        self.resume_released();
        self.publish(now);
    }

    /// Resumes all released requests. Here, unlike in a proxy-wasm host, the calls do not nest.
    fn resume_released(&self) {
        loop {
            let turn = self.waiting.borrow_mut().next_turn();
            let Some(turn) = turn else {
                return;
            };
            self.resume(turn);
        }
    }

    fn resume(&self, turn: Turn<Held>) {
        let held = &turn.request;
        let authorization: Vec<&[u8]> = held.authorization.iter().map(Vec::as_slice).collect();
        let request = Request {
            method: &held.method,
            target: &held.target,
            authorization: &authorization,
        };
        let outcome = self.ask(request, turn.patience);
        match outcome.decision {
            Decision::Wait { issuer, subject } => {
                let now = self.take_time().steady;
                let mut waiting = self.waiting.borrow_mut();
                waiting.hold_again(turn, (issuer, subject), now);
                drop(waiting);
                self.hurry.notify_one();
            }
            _ => {
                let effect = self.guard.borrow().effect(outcome);
                // The gateway may have closed the connection.
                let _ = turn.request.decided.send(effect);
            }
        }
    }

    fn ask(&self, request: Request<'_>, patience: Patience) -> Outcome {
        let wall = self.take_time().wall;
        let mut guard = self.guard.borrow_mut();
        guard.decide(request, patience, wall, || wall)
    }

    /// Decides about a request, after a fetch if one is needed. Counts the decision, and logs a refusal.
    pub(crate) async fn decide(&self, request: Request<'_>, request_id: &[u8]) -> Effect {
        let outcome = self.ask(request, Patience::Left);
        let effect = match outcome.decision {
            Decision::Wait { issuer, subject } => self.wait((issuer, subject), request).await,
            _ => self.guard.borrow().effect(outcome),
        };
        self.guard.borrow_mut().count(&effect);
        if let Some(denial) = &effect.denial {
            let (status, passes) = match &effect.fate {
                Fate::Pass { .. } => (0, true),
                Fate::Answer(answer) => (answer.status, false),
            };
            let denied = Denied {
                method: request.method,
                target: request.target,
                request_id,
            };
            self.log_refusal(denial.name(), status, passes, &denied);
        }
        effect
    }

    /// Holds a request until the fetch from `source` has ended.
    async fn wait(&self, source: Source, request: Request<'_>) -> Effect {
        if self.waiting.borrow().is_full() {
            return self.guard.borrow().effect(Denial::Busy.into());
        }
        let (decided, decision) = oneshot::channel();
        let held = Held {
            method: request.method.to_vec(),
            target: request.target.to_vec(),
            authorization: request
                .authorization
                .iter()
                .map(|header| header.to_vec())
                .collect(),
            decided,
        };
        let place = Place::take(self);
        let now = self.take_time().steady;
        self.waiting
            .borrow_mut()
            .hold(place.context, source, now, held);
        self.hurry.notify_one();
        let decision = decision.await;
        drop(place);
        decision.unwrap_or_else(|_| self.guard.borrow().effect(Denial::KeysUnavailable.into()))
    }

    /// Counts and logs a request that token-guard refused before the guard saw it.
    pub(crate) fn refuse(&self, refused: Refused, status: u32, request: &Denied<'_>) {
        self.metrics.refused(refused);
        self.log_refusal(refused.name(), status, false, request);
    }

    /// Returns the answer to a request for the metadata of the resource (RFC 9728 §3.2); `None` for any other
    /// request.
    pub(crate) fn metadata(&self, method: &[u8], target: &[u8]) -> Option<guard::answers::Answer> {
        guard::answers::metadata(self.guard.borrow().config(), method, target)
    }

    /// The header of `forward` of which one of `names`, in lower case, is another spelling.
    pub(crate) fn respelled<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Option<String> {
        let guard = self.guard.borrow();
        names.find_map(|name| guard.respelled(name).map(str::to_owned))
    }

    /// True if the gateway's access log may receive [`guard::access_log`]'s data.
    pub(crate) fn tells_access_log(&self) -> bool {
        self.guard.borrow().config().access_log_state
    }

    fn log_refusal(&self, reason: &str, status: u32, passes: bool, request: &Denied<'_>) {
        let second = self.started.elapsed().as_secs();
        let mut lines = self.lines.borrow_mut();
        if lines.second != second {
            lines.second = second;
            lines.written = 0;
        }
        if lines.written >= LINES_PER_SECOND {
            lines.left_out += 1;
            return;
        }
        lines.written += 1;
        let left_out = std::mem::take(&mut lines.left_out);
        let line = Line::new(reason, status, passes, left_out, request);
        tracing::info!(
            event = line.event,
            left_out = line.left_out,
            method = line.method,
            path = line.path,
            reason = line.reason,
            request_id = line.request_id,
            status = line.status,
        );
    }

    fn log_remarks(&self) {
        let mut guard = self.guard.borrow_mut();
        for (issuer, remark) in guard.take_remarks() {
            let issuer = guard.config().issuers.get(issuer);
            let issuer = issuer.map_or("", |config| config.issuer.as_str());
            tracing::warn!(issuer, "revocations: {remark}");
        }
    }

    fn log_failure(&self, fetch: &Fetch, why: &str, now: u64) {
        let source = fetch.log_source();
        let is_known = self.guard.borrow().is_known(source.0, source.1);
        let mut failures = self.failures.borrow_mut();
        if let Some(severity) = failures.failed(source, why, is_known, now) {
            self.remark(fetch, severity, why);
        }
    }

    fn log_success(&self, fetch: &Fetch) {
        if self.failures.borrow_mut().succeeded(&fetch.log_source()) {
            let (issuer, subject) = self.names(fetch);
            tracing::info!(issuer, subject, "fetched, after failures");
        }
    }

    fn names(&self, fetch: &Fetch) -> (String, &'static str) {
        let guard = self.guard.borrow();
        let issuer = guard.config().issuers.get(fetch.issuer);
        let issuer = issuer.map_or_else(String::new, |config| config.issuer.clone());
        (issuer, fetch.subject.name())
    }

    fn remark(&self, fetch: &Fetch, severity: Severity, what: &str) {
        let (issuer, subject) = self.names(fetch);
        let cluster = fetch.endpoint.cluster.as_str();
        let path = fetch.endpoint.path.as_str();
        match severity {
            Severity::Warning => tracing::warn!(issuer, subject, cluster, path, "{what}"),
            Severity::Error => tracing::error!(issuer, subject, cluster, path, "{what}"),
        }
    }
}

/// The place of a waiting request. Dropping it, for example when the gateway closes the connection, removes the
/// request.
struct Place<'a> {
    worker: &'a Worker,
    context: u32,
}

impl<'a> Place<'a> {
    fn take(worker: &'a Worker) -> Self {
        let context = worker.contexts.get().wrapping_add(1);
        worker.contexts.set(context);
        Self { worker, context }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.worker.waiting.borrow_mut().forget(self.context);
    }
}

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the program that reads the wall clock"
)]
fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_secs())
}
