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
use guard::census::Census;
use guard::config::Config;
use guard::fetch::{Failure, FailureLog, Severity};
use guard::guard::{Fetch, Guard, Subject};
use guard::waiting::{BATCH, Source};

/// One configuration of the filter in one VM.
pub(super) struct Root {
    shared: Shared,
    metrics: Metrics,
    fetches: RefCell<HashMap<u32, Fetch>>,
    failures: RefCell<FailureLog<Source>>,
    census: RefCell<Census>,
    /// True if the host has a timer. Without a timer, requests cause the ticks.
    ticks: bool,
    /// Time of the last sweep of expired revocations, in seconds of the steady clock.
    swept: Cell<Option<u64>>,
    /// True if the root context has ended.
    ended: Cell<bool>,
}

impl Root {
    /// Starts with this configuration. `None` if the configuration is invalid; the log then has the reasons.
    ///
    /// Calls at which the SDK panics in a host that refuses them are made here once, so that such a host
    /// refuses the plugin.
    pub(super) fn configure(context: u32, configuration: &[u8]) -> Option<Self> {
        hostcalls::set_effective_context(context).ok()?;
        let signatures = HostSignatures::probe();
        match Config::parse(configuration, &signatures) {
            Ok(config) => {
                for warning in config.rules.warnings() {
                    log::write(LogLevel::Warn, &format!("configuration: {warning}"));
                }
                let metrics = Metrics::define();
                Metrics::host_signatures(&signatures);
                let mut guard = Guard::new(config).with_host(Box::new(signatures));
                // Hosts allow no fetch during the configuration of a plugin, so the first tick starts the
                // fetches.
                let ticks = calls::set_tick_period(Duration::from_millis(1)).is_ok();
                if ticks {
                    // A VM that follows another VM looks for news on every tick.
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
                    census: RefCell::new(Census::new(env!("CARGO_PKG_VERSION"))),
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

    pub(super) const fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Exchanges feed pages with the other VMs, starts due fetches, resumes requests that have waited, and
    /// publishes metrics.
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
        if self.ticks
            && let Some(vms) = self.census.borrow_mut().count(&HostData, now)
        {
            self.metrics.running(vms);
        }
        drop(guard);
        self.log_remarks();
    }

    /// Decides about a request when its headers have arrived.
    pub(super) fn decide(&self, context: u32) -> Action {
        if !self.ticks && self.is_behind() {
            self.tick_from(context);
        }
        let action = request::decide(&self.shared, context);
        if !self.ticks && action == Action::Pause {
            // Without a timer, the fetch must start now.
            self.tick_from(context);
        }
        action
    }

    /// Ticks in the callback of this request, for hosts without a timer.
    fn tick_from(&self, context: u32) {
        if !self.ended.get() && hostcalls::set_effective_context(self.shared.root_context).is_ok() {
            calls::tick(self.shared.root_context);
            let _ = hostcalls::set_effective_context(context);
        }
    }

    /// True if a tick is due in a host without a timer.
    fn is_behind(&self) -> bool {
        let ticked = self.swept.get().is_some() && now() == self.shared.tick();
        !ticked || !self.shared.waiting.borrow().is_empty()
    }

    /// Ends the root context. Its requests may still exist.
    pub(super) fn end(&self) {
        self.ended.set(true);
        self.shared.guard.borrow_mut().resign();
        let mut census = self.census.borrow_mut();
        let running = census.leave(&HostData, self.shared.steady());
        self.metrics.withdraw(running);
    }

    /// Handles the end of a call, with or without a response.
    pub(super) fn call_ended(&self, call: u32, body_size: usize) {
        let fetch = self.fetches.borrow_mut().remove(&call);
        if let Some(fetch) = fetch {
            self.fetched(&fetch, body_size);
            self.log_remarks();
            // The next page follows at once, and so does what the resumed requests need next.
            self.resume_released();
            self.fetch(self.shared.steady());
        }
    }

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

    fn fetch(&self, now: u64) {
        // A fetch that the host refuses may be due again at once, and no later callback might start it.
        loop {
            let due = self.shared.guard.borrow_mut().due(now);
            if due.is_empty() {
                return;
            }
            for fetch in due {
                self.start(fetch, now);
            }
        }
    }

    fn start(&self, fetch: Fetch, now: u64) {
        let endpoint = &fetch.endpoint;
        let mut headers = vec![
            (":method", fetch.method()),
            (":path", endpoint.path.as_str()),
            (":authority", endpoint.authority.as_str()),
        ];
        headers.extend(fetch.headers());
        let body = fetch.body().map(str::as_bytes);
        let timeout = Duration::from_secs(fetch.timeout);
        match hostcalls::dispatch_http_call(&endpoint.cluster, headers, body, Vec::new(), timeout) {
            Ok(call) => {
                self.shared
                    .waiting
                    .borrow_mut()
                    .fetch_started(fetch.source());
                self.fetches.borrow_mut().insert(call, fetch);
            }
            Err(_) => {
                let why = "the host knows no such cluster, or is not ready";
                self.fetch_failed(&fetch, &Failure::without_response(why), now);
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
                let goes_on = self.shared.guard.borrow().goes_on(fetch, is_usable, now);
                let mut waiting = self.shared.waiting.borrow_mut();
                if goes_on {
                    waiting.extend(fetch.source(), now);
                } else {
                    waiting.fetch_ended(fetch.source());
                }
            }
            Err(failure) => {
                self.metrics.fetch(false);
                self.fetch_failed(fetch, &failure, now);
            }
        }
    }

    fn fetch_failed(&self, fetch: &Fetch, failure: &Failure, now: u64) {
        let mut guard = self.shared.guard.borrow_mut();
        guard.failed(fetch.issuer, fetch.subject, failure.status, now);
        let known = guard.has_keys(fetch.issuer);
        let goes_on = guard.goes_on(fetch, false, now);
        drop(guard);
        self.log_failure(fetch, &failure.why, now);
        let mut waiting = self.shared.waiting.borrow_mut();
        // Without keys, requests wait for the next attempt, if there is a timer to start one. With keys,
        // requests are decided now.
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

    /// Resumes released requests: at most [`BATCH`], and a tick soon for the rest.
    fn resume_released(&self) {
        if !self.shared.waiting.borrow().has_released() {
            return;
        }
        // Without a timer, no later tick would resume the rest.
        let batch = if self.ticks { BATCH } else { usize::MAX };
        for _ in 0..batch {
            // Takes one turn at a time, because an answer may end other requests, which must not be answered
            // any more.
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

/// Returns the body of a successful response, or else the failure, as far as the host reports it.
fn read_response(fetch: &Fetch, body_size: usize) -> Result<Vec<u8>, Failure> {
    let longest = fetch.subject.longest_answer();
    let headers = calls::response_headers().unwrap_or_default();
    let status = headers.iter().find(|(name, _)| *name == b":status");
    let Some((_, status)) = status else {
        return Err(Failure::without_response(format!(
            "no answer within {} seconds, or no connection",
            fetch.timeout
        )));
    };
    // Reads one byte more than allowed, to detect a body that is too long.
    let size = body_size.min(longest + 1);
    let body = hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, size);
    let body = body.ok().flatten().unwrap_or_default();
    if status == b"200" {
        return Ok(body);
    }
    // The gateway's own message distinguishes refused connections, DNS errors and TLS errors.
    let words: String = String::from_utf8_lossy(&body)
        .chars()
        .filter(|character| !character.is_control())
        .take(200)
        .collect();
    let status = String::from_utf8_lossy(status);
    Err(Failure {
        why: format!("status {status}: {words}"),
        status: status.parse().ok(),
    })
}
