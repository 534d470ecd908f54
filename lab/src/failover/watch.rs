//! What operators see meanwhile: `/readyz`, the metrics with their alerts, and the log.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use tests::browsing::agent;
use tests::{Log, Pair, Series, pace, store_causes};

/// Interval between two samples of the metrics.
const EVERY: Duration = Duration::from_secs(1);

/// Samples after the run, in which the alerts end, also that of the used tokens and codes that the load sends on purpose.
const MORE: usize = 700;

/// The alert that must fire and end, the metric of its rule, and the alert that must not fire.
const ALERT: &str = "TokenServiceStoreFails";
const FAILED: &str = "token_service_store_failed_transactions_total";
const OTHER: &str = "TokenServiceDown";

/// Looks at both token services all the time.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    unready: Arc<AtomicUsize>,
    /// True if all services were ready at the last look.
    all_ready: Arc<AtomicBool>,
    /// The descriptions of `/readyz`.
    descriptions: Arc<Mutex<BTreeSet<String>>>,
    series: Arc<Mutex<Series>>,
    thread: JoinHandle<()>,
    log: Log,
}

/// What a watch has seen.
pub(crate) struct Samples {
    series: Series,
    descriptions: BTreeSet<String>,
}

impl Watch {
    pub(crate) fn start(pair: &Pair, repository: &Path) -> Result<Self> {
        let ports = pair.ports();
        let services =
            [ports.internal, ports.internal_replica].map(|port| format!("127.0.0.1:{port}"));
        let (over, unready) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let series = Arc::new(Mutex::new(Series::of_rules(repository)?));
        let descriptions = Arc::<Mutex<BTreeSet<String>>>::default();
        let all_ready = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let (over, unready) = (Arc::clone(&over), Arc::clone(&unready));
            let all_ready = Arc::clone(&all_ready);
            let (seen, series) = (Arc::clone(&descriptions), Arc::clone(&series));
            move || {
                let mut samples = 0;
                let mut next = Instant::now();
                while !over.load(Ordering::Relaxed) {
                    if Instant::now() < next {
                        pace();
                        continue;
                    }
                    next += EVERY;
                    let mut ready = 0;
                    for service in &services {
                        match get(service, "/readyz") {
                            Some((200, _)) => ready += 1,
                            Some((503, body)) => {
                                if let Some(description) = of_the_store(&body) {
                                    unready.fetch_add(1, Ordering::Relaxed);
                                    lock(&seen).insert(description);
                                }
                            }
                            _ => {}
                        }
                        let metrics = get(service, "/metrics");
                        let metrics = metrics.filter(|(status, _)| *status == 200);
                        let metrics = metrics.map(|(_, body)| body);
                        lock(&series).take("token-service", service, samples, metrics.as_deref());
                    }
                    all_ready.store(ready == services.len(), Ordering::Relaxed);
                    samples += 1;
                }
            }
        });
        Ok(Self {
            over,
            unready,
            all_ready,
            descriptions,
            series,
            thread,
            log: pair.log(),
        })
    }

    /// Number of looks at which `/readyz` returned 503 and named the store with a cause.
    pub(crate) fn unready(&self) -> usize {
        self.unready.load(Ordering::Relaxed)
    }

    /// True if both token services were ready at the last look.
    pub(crate) fn all_ready(&self) -> bool {
        self.all_ready.load(Ordering::Relaxed)
    }

    /// Number of warnings and errors in the logs of the token services so far.
    pub(crate) fn lines(&self) -> Result<usize> {
        self.log.until("any output", |text| {
            let lines = text.lines();
            let is_problem = |line: &&str| line.contains(" WARN ") || line.contains("ERROR ");
            Some(lines.filter(is_problem).count())
        })
    }

    pub(crate) fn end(self) -> Result<Samples> {
        self.over.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the watch failed"))?;
        let series = Arc::into_inner(self.series).context("the watch goes on")?;
        Ok(Samples {
            series: series.into_inner().unwrap_or_else(PoisonError::into_inner),
            descriptions: std::mem::take(&mut lock(&self.descriptions)),
        })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get(service: &str, path: &str) -> Option<(u16, String)> {
    let response = agent(Duration::from_secs(3))
        .get(format!("http://{service}{path}"))
        .call()
        .ok()?;
    let status = response.status().as_u16();
    Some((status, response.into_body().read_to_string().ok()?))
}

/// The description of an answer of `/readyz` with the reason `store`.
fn of_the_store(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let is_store = body.get("reason")? == "store";
    let description = body.get("description")?.as_str()?;
    is_store.then(|| description.to_owned())
}

impl Samples {
    /// True if the runbook says what to do about each description of `/readyz`.
    pub(crate) fn know_the_runbook(&self, repository: &Path) -> Result<bool> {
        let known = store_causes(repository)?;
        let mut all_known = true;
        for description in &self.descriptions {
            if !known.iter().any(|phrase| description.contains(phrase)) {
                println!("The runbook does not know this description of /readyz: {description}");
                all_known = false;
            }
        }
        Ok(all_known)
    }

    /// Runs the alert rules over the metrics of this run: the alert fires at each service, and ends.
    pub(crate) fn judge(&self, state: &Path) -> Result<bool> {
        // When the last service has failed for the first time.
        let firsts = self.series.of(FAILED).map(|values| {
            let first = values.first().copied().flatten();
            values
                .iter()
                .position(|value| value.is_some() && *value != first)
        });
        let fires = firsts
            .collect::<Option<Vec<usize>>>()
            .context("a service did not fail")?;
        let fires = fires.into_iter().max().context("no service")? + 2;
        let over = self.series.count() + MORE;
        let alert = format!("count(ALERTS{{alertname=\"{ALERT}\",alertstate=\"firing\"}})");
        let other = format!(
            "count_over_time(ALERTS{{alertname=\"{OTHER}\",alertstate=\"firing\"}}[{over}s])"
        );
        let expected = json!([
            {"expr": alert, "eval_time": format!("{fires}s"), "exp_samples": [{"labels": "{}", "value": 2}]},
            {"expr": "ALERTS", "eval_time": format!("{over}s"), "exp_samples": []},
            {"expr": other, "eval_time": format!("{over}s"), "exp_samples": []},
        ]);
        let judged = self.series.expect(state, ("1s", MORE), &expected);
        match &judged {
            Ok(()) => println!("{ALERT} fired at both token services, and ended."),
            Err(said) => println!("The alerts are not as they should be: {said:#}"),
        }
        Ok(judged.is_ok())
    }
}
