//! Configuration, ticks and fetches.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::types::{Action, BufferType, LogLevel};

use super::calls;
use super::clock::Clocks;
use super::crypto::HostSignatures;
use super::data::HostData;
use super::log;
use super::metrics::Metrics;
use super::request;
use guard::Guard;
use guard::config::Config;
use guard::driver::{Driver, SOON, Task};
use guard::fetch::{Failure, Fetch};

/// One configuration of the filter in one VM. A VM has one thread.
pub(super) struct Root {
    context: u32,
    driver: RefCell<Driver>,
    metrics: Metrics,
    fetches: RefCell<HashMap<u32, Fetch>>,
}

impl Root {
    /// Starts with this configuration. `None` if the configuration is invalid or the host has no timer; the log then has the
    /// reasons.
    ///
    /// Calls at which the SDK panics in a host that refuses them are made here once, so that such a host
    /// refuses the plugin.
    pub(super) fn configure(context: u32, configuration: &[u8]) -> Option<Self> {
        hostcalls::set_effective_context(context).ok()?;
        let signatures = HostSignatures::probe();
        let config = match Config::parse(configuration, &signatures) {
            Ok(config) => config,
            Err(problems) => {
                for problem in &problems {
                    log::write(LogLevel::Critical, &format!("configuration: {problem}"));
                }
                return None;
            }
        };
        for warning in config.rules.warnings() {
            log::write(LogLevel::Warn, &format!("configuration: {warning}"));
        }
        Metrics::host_signatures(&signatures);
        let guard = Guard::new(config).with_host(Box::new(signatures));
        let guard = guard.with_shared_data(Box::new(HostData));
        // Hosts allow no fetch during the configuration of a plugin, so the first tick starts the fetches.
        if calls::set_tick_period(SOON).is_err() {
            let problem = "the host has no timer, which the fetches of keys and revocations need";
            log::write(LogLevel::Critical, problem);
            return None;
        }
        Some(Self {
            context,
            metrics: Metrics::define(),
            driver: RefCell::new(Driver::new(guard, &Clocks).in_batches()),
            fetches: RefCell::default(),
        })
    }

    /// Starts due fetches, resumes requests that have waited, and publishes metrics.
    pub(super) fn tick(&self) {
        self.driver.borrow_mut().tick(&Clocks);
        self.work();
        let mut driver = self.driver.borrow_mut();
        let _ = calls::set_tick_period(driver.next_tick());
        self.metrics
            .publish(&driver.metrics(), driver.time().steady);
        if let Some(vms) = driver.running() {
            self.metrics.running(vms);
        }
    }

    /// Decides about a request when its headers have arrived.
    pub(super) fn decide(&self, context: u32) -> Action {
        request::decide(&self.driver, context).unwrap_or_else(|| {
            // Only ticks start fetches: the fetches then belong to the root context, and do not end with the request that
            // needs them.
            self.hurry();
            Action::Pause
        })
    }

    /// Asks the host for a tick soon.
    fn hurry(&self) {
        if hostcalls::set_effective_context(self.context).is_ok() {
            // If the host refuses, the next tick still comes within a second.
            let _ = calls::set_tick_period(self.driver.borrow().next_tick());
        }
    }

    /// Removes a request that has ended.
    pub(super) fn forget(&self, context: u32) {
        if let Ok(mut driver) = self.driver.try_borrow_mut() {
            driver.gone(context);
        }
    }

    /// Ends the root context. Its requests may still exist.
    pub(super) fn end(&self) {
        self.metrics.withdraw(self.driver.borrow_mut().end());
    }

    /// Handles the end of a call, with or without a response.
    pub(super) fn call_ended(&self, call: u32, body_size: usize) {
        let fetch = self.fetches.borrow_mut().remove(&call);
        if let Some(fetch) = fetch {
            let result = read_response(&fetch, body_size);
            self.driver.borrow_mut().fetched(&fetch, result, &Clocks);
            self.work();
            if self.driver.borrow().hurries() {
                self.hurry();
            }
        }
    }

    /// Does what the driver wants done now. Releases the driver before each task, because an answer may end other requests.
    fn work(&self) {
        loop {
            let task = self.driver.borrow_mut().next_task();
            match task {
                None => break,
                Some(Task::Log(remark)) => log::remark(&remark),
                Some(Task::Send(fetch)) => self.send(fetch),
                Some(Task::Answer {
                    id,
                    effect,
                    request,
                }) => {
                    if hostcalls::set_effective_context(id).is_ok()
                        && request::carry_out(&self.driver, effect, &request.as_denied())
                            == Action::Continue
                    {
                        let _ = calls::continue_request();
                    }
                    let _ = hostcalls::set_effective_context(self.context);
                }
            }
        }
    }

    fn send(&self, fetch: Fetch) {
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
                self.fetches.borrow_mut().insert(call, fetch);
            }
            Err(_) => {
                let why = "the host knows no such cluster, or is not ready";
                self.driver.borrow_mut().not_sent(&fetch, why);
            }
        }
    }
}

/// The result of a fetch, as far as the host reports it.
fn read_response(fetch: &Fetch, body_size: usize) -> Result<Vec<u8>, Failure> {
    let headers = calls::response_headers().unwrap_or_default();
    let status = headers.iter().find(|(name, _)| *name == b":status");
    // Reads one byte more than allowed, to detect a body that is too long.
    let size = body_size.min(fetch.kind.longest_answer() + 1);
    let body = hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, size);
    let body = body.ok().flatten().unwrap_or_default();
    fetch.result(status.map(|(_, status)| status), body)
}
