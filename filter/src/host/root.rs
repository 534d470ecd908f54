//! Configuration, ticks and fetches.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::types::{Action, BufferType, LogLevel};

use super::calls;
use super::crypto::HostSignatures;
use super::data::HostData;
use super::log;
use super::metrics::Metrics;
use super::request::{self, resume};
use super::shared::{FOLLOWING_TICK, Shared, TICK, now};
use guard::config::Config;
use guard::fetch::{FailureLog, Severity};
use guard::guard::{Fetch, Guard, Subject};
use guard::waiting::{BATCH, Source};

/// One configuration of the filter in one VM.
pub(super) struct Root {
    shared: Shared,
    metrics: Metrics,
    fetches: RefCell<HashMap<u32, Fetch>>,
    failures: RefCell<FailureLog<Source>>,
    /// Whether the host ticks. Where it does not, requests stand in for ticks.
    ticks: bool,
    /// When revocations that are over were swept out, in seconds of the steady clock.
    swept: Cell<Option<u64>>,
    /// Whether the root context has ended.
    ended: Cell<bool>,
}

impl Root {
    /// Starts with this configuration; `None`, with the reasons in the log, when it is bad.
    ///
    /// Whatever the SDK panics at, where a host never does it, is called here once: such a host refuses the plugin.
    pub(super) fn configure(context: u32, configuration: &[u8]) -> Option<Self> {
        hostcalls::set_effective_context(context).ok()?;
        let signatures = HostSignatures::probe();
        match Config::parse(configuration, &signatures) {
            Ok(config) => {
                let metrics = Metrics::define();
                Metrics::host_signatures(&signatures);
                let mut guard = Guard::new(config).with_host(Box::new(signatures));
                // Hosts do not let a plugin fetch while it is being configured: the first tick does.
                let ticks = calls::set_tick_period(Duration::from_millis(1)).is_ok();
                if ticks {
                    // A VM that follows another one looks for news on many ticks.
                    guard = guard.with_shared_data(Box::new(HostData));
                } else {
                    log::write(
                        LogLevel::Warn,
                        "the host has no timer: requests cause all fetches, and wait for them",
                    );
                }
                Some(Self {
                    ticks,
                    shared: Shared::new(context, guard),
                    metrics,
                    fetches: RefCell::default(),
                    failures: RefCell::default(),
                    swept: Cell::default(),
                    ended: Cell::default(),
                })
            }
            Err(problems) => {
                for problem in &problems {
                    log::write(LogLevel::Critical, &format!("configuration: {problem}"));
                }
                None
            }
        }
    }

    /// What its requests share.
    pub(super) const fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Keeps in step with the other VMs, fetches what is due, goes on with requests that have waited, and publishes
    /// metrics.
    pub(super) fn tick(&self) {
        let now = self.shared.take_time();
        let (news, follows) = {
            let mut guard = self.shared.guard.borrow_mut();
            (guard.keep_in_step(), guard.follows())
        };
        let _ = calls::set_tick_period(if follows { FOLLOWING_TICK } else { TICK });
        self.fetch(now);
        {
            let mut waiting = self.shared.waiting.borrow_mut();
            for issuer in news {
                waiting.fetch_ended((issuer, Subject::Revocations));
            }
            waiting.expire(now);
        }
        self.resume_released();
        let waiting = self.shared.waiting.borrow().len();
        let mut guard = self.shared.guard.borrow_mut();
        if self.swept.replace(Some(now)) != Some(now) {
            guard.sweep();
        }
        self.metrics.publish(&mut guard, waiting, now);
        drop(guard);
        self.log_remarks();
    }

    /// Decides about a request whose headers have come.
    pub(super) fn decide(&self, context: u32) -> Action {
        if !self.ticks && self.is_behind() {
            self.tick_from(context);
        }
        let action = request::decide(&self.shared, context);
        if !self.ticks && action == Action::Pause {
            // A request that waits cannot wait for a tick.
            self.tick_from(context);
        }
        action
    }

    /// Ticks in place of a host without a timer, in the callback of this request.
    fn tick_from(&self, context: u32) {
        if !self.ended.get() && hostcalls::set_effective_context(self.shared.root_context).is_ok() {
            calls::tick(self.shared.root_context);
            let _ = hostcalls::set_effective_context(context);
        }
    }

    /// Whether a host without a timer should have ticked by now.
    fn is_behind(&self) -> bool {
        let ticked = self.swept.get().is_some() && now() == self.shared.tick();
        !ticked || !self.shared.waiting.borrow().is_empty()
    }

    /// The root context ends. Requests under it may still be there.
    pub(super) fn end(&self) {
        self.ended.set(true);
        self.metrics.withdraw();
    }

    /// The host has the end of a call to tell.
    pub(super) fn call_ended(&self, call: u32, body_size: usize) {
        let fetch = self.fetches.borrow_mut().remove(&call);
        if let Some(fetch) = fetch {
            self.fetched(&fetch, body_size);
            self.log_remarks();
            // The next page, or the next held request, follows at once.
            self.fetch(self.shared.steady());
            self.resume_released();
        }
    }

    /// Logs what there is to say about feeds.
    fn log_remarks(&self) {
        let mut guard = self.shared.guard.borrow_mut();
        for (issuer, remark) in guard.take_remarks() {
            let issuer = guard.config().issuers.get(issuer);
            let issuer = issuer.map_or("", |config| config.issuer.as_str());
            log::write(
                LogLevel::Warn,
                &format!("revocations of {issuer}: {remark}"),
            );
        }
    }

    /// Starts the fetches that are due.
    fn fetch(&self, now: u64) {
        let due = self.shared.guard.borrow_mut().due(now);
        for fetch in due {
            let endpoint = &fetch.endpoint;
            let mut headers = vec![
                (":method", fetch.method()),
                (":path", endpoint.path.as_str()),
                (":authority", endpoint.authority.as_str()),
            ];
            headers.extend(fetch.headers());
            let body = fetch.body().map(str::as_bytes);
            let timeout = Duration::from_secs(fetch.timeout);
            match hostcalls::dispatch_http_call(
                &endpoint.cluster,
                headers,
                body,
                Vec::new(),
                timeout,
            ) {
                Ok(call) => {
                    self.shared
                        .waiting
                        .borrow_mut()
                        .fetch_started(fetch.source());
                    self.fetches.borrow_mut().insert(call, fetch);
                }
                Err(_) => self.fetch_failed(
                    &fetch,
                    "the host knows no such cluster, or is not ready",
                    now,
                ),
            }
        }
    }

    fn fetched(&self, fetch: &Fetch, body_size: usize) {
        let now = self.shared.take_time();
        match read_response(fetch, body_size) {
            Ok(body) => {
                let outcome =
                    self.shared
                        .guard
                        .borrow_mut()
                        .fetched(fetch.issuer, fetch.subject, &body, now);
                let is_usable = outcome.is_ok();
                self.metrics.fetch(is_usable);
                match outcome {
                    Ok(remarks) => {
                        self.log_success(fetch);
                        for remark in &remarks {
                            self.remark(fetch, LogLevel::Warn, remark);
                        }
                    }
                    Err(why) => {
                        let why = format!("the response cannot be used: {why}");
                        self.log_failure(fetch, &why, now);
                    }
                }
                let goes_on = self.shared.guard.borrow().goes_on(fetch, is_usable);
                let mut waiting = self.shared.waiting.borrow_mut();
                if goes_on {
                    waiting.extend(fetch.source(), now);
                } else {
                    waiting.fetch_ended(fetch.source());
                }
            }
            Err(why) => {
                self.metrics.fetch(false);
                self.fetch_failed(fetch, &why, now);
            }
        }
    }

    fn fetch_failed(&self, fetch: &Fetch, why: &str, now: u64) {
        let mut guard = self.shared.guard.borrow_mut();
        guard.failed(fetch.issuer, fetch.subject, now);
        let known = guard.has_keys(fetch.issuer);
        let goes_on = guard.goes_on(fetch, false);
        drop(guard);
        self.log_failure(fetch, why, now);
        let mut waiting = self.shared.waiting.borrow_mut();
        // Without any keys a request may as well wait for the next try, if there is a tick to make one; with some, it gets
        // its answer now.
        if goes_on {
            waiting.extend(fetch.source(), now);
        } else if known || !self.ticks {
            waiting.fetch_failed(fetch.source());
        }
    }

    fn log_failure(&self, fetch: &Fetch, why: &str, now: u64) {
        let source = fetch.log_source();
        let is_known = self.shared.guard.borrow().is_known(source.0, source.1);
        let mut failures = self.failures.borrow_mut();
        match failures.failed(source, why, is_known, now) {
            Some(Severity::Warning) => self.remark(fetch, LogLevel::Warn, why),
            Some(Severity::Error) => self.remark(fetch, LogLevel::Error, why),
            None => {}
        }
    }

    fn log_success(&self, fetch: &Fetch) {
        if self.failures.borrow_mut().succeeded(&fetch.log_source()) {
            self.remark(fetch, LogLevel::Info, "fetched, after failures");
        }
    }

    fn remark(&self, fetch: &Fetch, level: LogLevel, what: &str) {
        let guard = self.shared.guard.borrow();
        let issuer = guard
            .config()
            .issuers
            .get(fetch.issuer)
            .map_or("", |config| config.issuer.as_str());
        let subject = fetch.subject.name();
        let endpoint = &fetch.endpoint;
        let line = format!(
            "{subject} of {issuer} from cluster {} at {}: {what}",
            endpoint.cluster, endpoint.path
        );
        log::write(level, &line);
    }

    /// Goes on with the requests whose turn has come: [`BATCH`] of them, and a tick soon with the others.
    fn resume_released(&self) {
        if !self.shared.waiting.borrow().has_released() {
            return;
        }
        // Without a tick to go on, there is no later.
        let batch = if self.ticks { BATCH } else { usize::MAX };
        for _ in 0..batch {
            // One by one: an answer may end other requests, which must not be answered any more.
            let turn = self.shared.waiting.borrow_mut().next_turn();
            let Some(turn) = turn else {
                break;
            };
            if hostcalls::set_effective_context(turn.context).is_ok() {
                resume(&self.shared, turn);
            }
        }
        if self.shared.waiting.borrow().has_released() {
            self.shared.hurry();
        }
        let _ = hostcalls::set_effective_context(self.shared.root_context);
    }
}

/// The body of a good response; otherwise what went wrong, as far as the host tells.
fn read_response(fetch: &Fetch, body_size: usize) -> Result<Vec<u8>, String> {
    let longest = fetch.subject.longest_answer();
    let headers = calls::response_headers().unwrap_or_default();
    let status = headers.iter().find(|(name, _)| *name == b":status");
    let Some((_, status)) = status else {
        return Err(format!(
            "no answer within {} seconds, or no connection",
            fetch.timeout
        ));
    };
    // One byte more than allowed shows that there is too much.
    let size = body_size.min(longest + 1);
    let body = hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, size);
    let body = body.ok().flatten().unwrap_or_default();
    if status == b"200" {
        return Ok(body);
    }
    // The gateway's own words tell a refused connection from DNS and TLS.
    let words: String = String::from_utf8_lossy(&body)
        .chars()
        .filter(|character| !character.is_control())
        .take(200)
        .collect();
    let status = String::from_utf8_lossy(status);
    Err(format!("status {status}: {words}"))
}
