//! One worker: a guard with its driver, and the loop around them.
//!
//! A guard belongs to one thread, like the VM of a gateway's worker. No request waits for a lock, and a worker
//! that blocks does not block others. Expensive resources are shared: one worker reads a revocation feed for
//! all workers, and fetches share connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use guard::config::Config;
use guard::denial_log::{Denied, Line};
use guard::driver::{Driver, Remark, Task};
use guard::fetch::Fetch;
use guard::verdict::Denial;
use guard::{Effect, Guard, Request};
use guard_native::Clocks;
use keys::failures::Severity;
use keys_native::NativeSignatures;
use tokio::sync::{Notify, oneshot};

use crate::fetch::Fetcher;
use crate::metrics::{OwnDenial, WorkerMetrics};
use guard_native::ProcessData;

#[derive(Debug)]
pub(crate) struct Worker {
    driver: RefCell<Driver>,
    /// Sends the decision about each waiting request to the task that answers the gateway.
    waiting: RefCell<HashMap<u32, oneshot::Sender<Effect>>>,
    contexts: Cell<u32>,
    hurry: Notify,
    fetcher: Fetcher,
    metrics: WorkerMetrics,
}

/// Runs a part of a worker. If it panics, the program ends. Otherwise the worker would continue with old or half applied data,
/// and would let revoked tokens pass if `when_stale` allows that.
async fn all_or_nothing(part: impl Future<Output = ()> + 'static) {
    let running = actix_web::rt::spawn(part);
    if running.await.is_err_and(|error| error.is_panic()) {
        tracing::error!("a worker has stopped after a panic: the program ends");
        std::process::exit(1);
    }
}

impl Worker {
    /// Creates a worker that knows no keys except inline ones. [`Worker::watch`] fetches the rest.
    pub(crate) fn new(
        config: Config,
        data: ProcessData,
        fetcher: Fetcher,
        metrics: WorkerMetrics,
    ) -> Self {
        let guard = Guard::new(config)
            .with_host(Box::new(NativeSignatures))
            .with_shared_data(Box::new(data));
        Self {
            driver: RefCell::new(Driver::new(guard, &Clocks)),
            waiting: RefCell::default(),
            contexts: Cell::default(),
            hurry: Notify::new(),
            fetcher,
            metrics,
        }
    }

    /// Runs the worker until the program ends.
    pub(crate) async fn watch(self: Rc<Self>) {
        all_or_nothing(self.run()).await;
    }

    /// Ticks forever.
    async fn run(self: Rc<Self>) {
        loop {
            self.driver.borrow_mut().tick(&Clocks);
            self.work();
            let period = self.driver.borrow().next_tick();
            // Ticks again when the time is over or a request needs a fetch.
            let _ = tokio::time::timeout(period, self.hurry.notified()).await;
        }
    }

    /// Does what the driver wants done now, and publishes metrics.
    fn work(self: &Rc<Self>) {
        let mut driver = self.driver.borrow_mut();
        while let Some(task) = driver.next_task() {
            match task {
                Task::Log(remark) => log(&remark),
                Task::Send(fetch) => self.send(fetch),
                Task::Answer { id, effect, .. } => {
                    if let Some(decided) = self.waiting.borrow_mut().remove(&id) {
                        // The gateway may have closed the connection.
                        let _ = decided.send(effect);
                    }
                }
            }
        }
        // The runtime of a worker has one thread.
        let busy = tokio::runtime::Handle::current()
            .metrics()
            .worker_total_busy_duration(0);
        let is_ready = driver.is_ready();
        self.metrics.publish(driver.metrics(), busy, is_ready);
    }

    fn send(self: &Rc<Self>, fetch: Fetch) {
        let worker = Rc::clone(self);
        actix_web::rt::spawn(all_or_nothing(async move {
            let result = worker.fetcher.fetch(&fetch).await;
            let mut driver = worker.driver.borrow_mut();
            driver.fetched(&fetch, result, &Clocks);
            drop(driver);
            worker.work();
        }));
    }

    /// Decides about a request, after a fetch if one is needed. Counts the decision, and logs a refusal.
    pub(crate) async fn decide(&self, request: Request<'_>, request_id: &[u8]) -> Effect {
        let denied = Denied {
            method: request.method,
            target: request.target,
            request_id,
        };
        let context = self.contexts.get().wrapping_add(1);
        self.contexts.set(context);
        let decided = {
            let mut driver = self.driver.borrow_mut();
            driver.keep_time(&Clocks);
            driver.arrived(context, request, &denied, &Clocks)
        };
        let effect = match decided {
            Some(effect) => effect,
            None => self.wait(context).await,
        };
        let line = self.driver.borrow_mut().carried_out(&effect, &denied);
        write(line);
        effect
    }

    /// Waits for the decision about a request that the driver holds.
    async fn wait(&self, context: u32) -> Effect {
        let (decided, decision) = oneshot::channel();
        self.waiting.borrow_mut().insert(context, decided);
        let _place = Place {
            worker: self,
            context,
        };
        self.hurry.notify_one();
        let decision = decision.await;
        decision.unwrap_or_else(|_| {
            let driver = self.driver.borrow();
            driver.guard().denial(Denial::KeysUnavailable, None)
        })
    }

    /// Counts and logs a request that token-guard refused before the guard saw it. `reason`: for the log.
    pub(crate) fn refuse(
        &self,
        denial: OwnDenial,
        reason: &'static str,
        status: u32,
        request: &Denied<'_>,
    ) {
        self.metrics.denied(denial);
        let mut driver = self.driver.borrow_mut();
        driver.keep_time(&Clocks);
        write(driver.denial_line(reason, status, false, request));
    }

    /// Returns the answer to a request for the metadata of the resource (RFC 9728 §3.2); `None` for any other
    /// request.
    pub(crate) fn metadata(&self, method: &[u8], target: &[u8]) -> Option<guard::answers::Answer> {
        guard::answers::metadata(self.driver.borrow().guard().config(), method, target)
    }

    /// The header of `forward` that one of `names`, in lower case, spells in another way.
    pub(crate) fn respelled<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Option<String> {
        let driver = self.driver.borrow();
        names.find_map(|name| driver.guard().respelled(name).map(str::to_owned))
    }

    /// True if the gateway's access log may receive [`guard::access_log`]'s data.
    pub(crate) fn tells_access_log(&self) -> bool {
        self.driver.borrow().guard().config().access_log_state
    }
}

/// The place of a waiting request. Dropping it, for example when the gateway closes the connection, removes the
/// request.
struct Place<'a> {
    worker: &'a Worker,
    context: u32,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.worker.waiting.borrow_mut().remove(&self.context);
        self.worker.driver.borrow_mut().gone(self.context);
    }
}

/// Writes the line about a refused request.
fn write(line: Option<Line>) {
    if let Some(line) = line {
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
}

fn log(
    Remark {
        severity,
        issuer,
        fetch,
        what,
    }: &Remark,
) {
    let issuer = issuer.as_deref();
    let Some((subject, endpoint)) = fetch else {
        let about = issuer.map_or("", |_| "revocations: ");
        tracing::warn!(issuer, "{about}{what}");
        return;
    };
    let (cluster, path) = (endpoint.cluster.as_str(), endpoint.path.as_str());
    match severity {
        Severity::Info => tracing::info!(issuer, subject, "{what}"),
        Severity::Warning => tracing::warn!(issuer, subject, cluster, path, "{what}"),
        Severity::Error => tracing::error!(issuer, subject, cluster, path, "{what}"),
    }
}
