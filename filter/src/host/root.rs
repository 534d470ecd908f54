//! Configuration, ticks and fetches.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{BufferType, ContextType, LogLevel, MapType};

use super::crypto::HostSignatures;
use super::log;
use super::metrics::Metrics;
use super::request::{RequestContext, resume};
use super::shared::{Shared, TICK, Waiting};
use crate::config::Config;
use crate::fetch::TIMEOUT_SECONDS;
use crate::guard::{Fetch, Guard, Patience, Subject};
use crate::keys::MAX_JWKS_BYTES;
use crate::revocations::MAX_FEED_BYTES;

/// One VM's root.
pub(super) struct Root {
    context_id: u32,
    running: Option<Running>,
}

/// What there is once the configuration was good.
struct Running {
    shared: Rc<Shared>,
    metrics: Metrics,
    fetches: HashMap<u32, Fetch>,
}

impl Root {
    pub(super) const fn new(context_id: u32) -> Self {
        Self {
            context_id,
            running: None,
        }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, _: usize, body_size: usize, _: usize) {
        let Some(running) = &mut self.running else {
            return;
        };
        if let Some(fetch) = running.fetches.remove(&token) {
            running.fetched(&fetch, body_size);
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        let text = hostcalls::get_buffer(BufferType::PluginConfiguration, 0, usize::MAX)
            .ok()
            .flatten()
            .unwrap_or_default();
        match Config::parse(&text) {
            Ok(config) => {
                let host = HostSignatures::probe();
                let guard = Guard::new(config).with_host(Box::new(host));
                let metrics = Metrics::define();
                metrics.host_signatures(host);
                self.running = Some(Running {
                    shared: Rc::new(Shared::new(self.context_id, guard)),
                    metrics,
                    fetches: HashMap::new(),
                });
                // Hosts do not let a plugin fetch while it is being configured: the first tick does.
                hostcalls::set_tick_period(Duration::from_millis(1)).is_ok()
            }
            Err(problems) => {
                for problem in &problems {
                    log::write(LogLevel::Critical, &format!("configuration: {problem}"));
                }
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some(running) = &mut self.running {
            let _ = hostcalls::set_tick_period(TICK);
            let now = running.shared.take_time();
            running.fetch(now);
            running.release(|waiting| waiting.until <= now, |_| Patience::Over);
            let waiting = running.shared.waiting.borrow().len();
            let mut guard = running.shared.guard.borrow_mut();
            running.metrics.publish(&mut guard, waiting, now);
        }
    }

    fn create_http_context(&self, context_id: u32) -> Option<Box<dyn HttpContext>> {
        let shared = Rc::clone(&self.running.as_ref()?.shared);
        Some(Box::new(RequestContext::new(context_id, shared)))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

impl Running {
    /// Starts the fetches that are due.
    fn fetch(&mut self, now: u64) {
        let due = self.shared.guard.borrow_mut().due(now);
        for fetch in due {
            let endpoint = &fetch.endpoint;
            let headers = vec![
                (":method", "GET"),
                (":path", endpoint.path.as_str()),
                (":authority", endpoint.authority.as_str()),
                ("accept", "application/json"),
            ];
            let timeout = Duration::from_secs(TIMEOUT_SECONDS);
            match hostcalls::dispatch_http_call(&endpoint.cluster, headers, None, vec![], timeout) {
                Ok(token) => {
                    self.await_fetch(&fetch);
                    self.fetches.insert(token, fetch);
                }
                Err(_) => self.fetch_failed(
                    &fetch,
                    "the host knows no such cluster, or is not ready",
                    now,
                ),
            }
        }
    }

    fn fetched(&mut self, fetch: &Fetch, body_size: usize) {
        let now = self.shared.take_time();
        match read_response(fetch.subject, body_size) {
            Ok(body) => {
                let outcome =
                    self.shared
                        .guard
                        .borrow_mut()
                        .fetched(fetch.issuer, fetch.subject, &body, now);
                self.metrics.fetch(outcome.is_ok());
                match outcome {
                    Ok(remarks) => remarks
                        .iter()
                        .for_each(|remark| self.remark(fetch, LogLevel::Warn, remark)),
                    Err(why) => self.remark(
                        fetch,
                        LogLevel::Error,
                        &format!("the answer cannot be used: {why}"),
                    ),
                }
                self.release(
                    |waiting| waiting.source == (fetch.issuer, fetch.subject),
                    |waited| {
                        if waited.fetch_started {
                            Patience::Over
                        } else {
                            Patience::Left
                        }
                    },
                );
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
        drop(guard);
        self.remark(fetch, LogLevel::Error, why);
        // Without any keys a request may as well wait for the next try; with some, it gets its answer now.
        if known {
            self.release(
                |waiting| waiting.source == (fetch.issuer, fetch.subject),
                |_| Patience::Over,
            );
        }
    }

    /// Notes that this fetch started after the requests that wait by now.
    fn await_fetch(&self, fetch: &Fetch) {
        for waiting in self.shared.waiting.borrow_mut().values_mut() {
            waiting.fetch_started |= waiting.source == (fetch.issuer, fetch.subject);
        }
    }

    fn remark(&self, fetch: &Fetch, level: LogLevel, what: &str) {
        let guard = self.shared.guard.borrow();
        let issuer = guard
            .config()
            .issuers
            .get(fetch.issuer)
            .map_or("", |config| config.issuer.as_str());
        let subject = match fetch.subject {
            Subject::Keys => "keys",
            Subject::Revocations => "revocations",
        };
        let endpoint = &fetch.endpoint;
        let line = format!(
            "{subject} of {issuer} from cluster {} at {}: {what}",
            endpoint.cluster, endpoint.path
        );
        log::write(level, &line);
    }

    /// Decides about the waiting requests that `which` names; those with patience left may go on waiting.
    fn release(&self, which: impl Fn(&Waiting) -> bool, patience: impl Fn(&Waiting) -> Patience) {
        let mut waiting = self.shared.waiting.borrow_mut();
        let released: Vec<(u32, Waiting)> =
            waiting.extract_if(|_, waiting| which(waiting)).collect();
        drop(waiting);
        if released.is_empty() {
            return;
        }
        for (context_id, waited) in released {
            if hostcalls::set_effective_context(context_id).is_ok() {
                let patience = patience(&waited);
                resume(&self.shared, context_id, waited, patience);
            }
        }
        let _ = hostcalls::set_effective_context(self.shared.root_context);
    }
}

/// The body of a good response; otherwise what went wrong, as far as the host tells.
fn read_response(subject: Subject, body_size: usize) -> Result<Vec<u8>, String> {
    let longest = match subject {
        Subject::Keys => MAX_JWKS_BYTES,
        Subject::Revocations => MAX_FEED_BYTES,
    };
    let status = hostcalls::get_map_value_bytes(MapType::HttpCallResponseHeaders, ":status");
    let Ok(Some(status)) = status else {
        return Err(format!(
            "no answer within {TIMEOUT_SECONDS} seconds, or no connection"
        ));
    };
    // One byte more than allowed shows that there is too much.
    let body = hostcalls::get_buffer(
        BufferType::HttpCallResponseBody,
        0,
        body_size.min(longest + 1),
    );
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
    let status = String::from_utf8_lossy(&status);
    Err(format!("status {status}: {words}"))
}
