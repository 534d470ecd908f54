//! What operators see meanwhile: `/readyz`, the metrics with their alerts, and the log.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tests::load::{Load, World};
use tests::visitor::Visitor;
use tests::{Answer, Log, Pair, Series, store_causes};

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
    load: Load,
    seen: Arc<Mutex<Seen>>,
    log: Log,
}

struct Seen {
    series: Series,
    /// Number of looks at which `/readyz` returned 503 and named the store with a cause.
    unready: usize,
    /// The descriptions of `/readyz`.
    descriptions: BTreeSet<String>,
    /// True if both token services were ready at the last look.
    all_ready: bool,
}

impl Watch {
    pub(crate) fn start(pair: &Pair, world: &Arc<World>) -> Result<Self> {
        let ports = pair.ports();
        let services =
            [ports.internal, ports.internal_replica].map(|port| format!("127.0.0.1:{port}"));
        let seen = Arc::new(Mutex::new(Seen {
            series: Series::of_rules(&pair.artifacts().repository)?,
            unready: 0,
            descriptions: BTreeSet::new(),
            all_ready: false,
        }));
        let (mut load, shared) = (Load::default(), Arc::clone(&seen));
        let (mut next, mut number) = (Instant::now(), 0);
        load.spawn(world, EVERY / 50, move |_, _| {
            if Instant::now() < next {
                return;
            }
            next += EVERY;
            let looks = services.each_ref().map(|service| {
                let get = |path: &str| {
                    let patient = Visitor::patient(Duration::from_secs(3));
                    patient.get(&format!("http://{service}{path}"), &[]).ok()
                };
                (get("/readyz"), get("/metrics"))
            });
            let is_ready = |answer: &Option<Answer>| {
                answer.as_ref().is_some_and(|answer| answer.status == 200)
            };
            let mut seen = lock(&shared);
            seen.all_ready = looks.iter().all(|(ready, _)| is_ready(ready));
            for (service, (ready, metrics)) in services.iter().zip(looks) {
                if let Some(description) = ready.and_then(|answer| of_the_store(&answer)) {
                    seen.unready += 1;
                    seen.descriptions.insert(description);
                }
                let metrics = metrics.filter(|answer| answer.status == 200);
                let metrics = metrics.as_ref().map(|answer| &*answer.body);
                seen.series.take("token-service", service, number, metrics);
            }
            number += 1;
        });
        let log = pair.log();
        Ok(Self { load, seen, log })
    }

    /// Number of looks at which `/readyz` returned 503 and named the store with a cause.
    pub(crate) fn unready(&self) -> usize {
        lock(&self.seen).unready
    }

    /// True if both token services were ready at the last look.
    pub(crate) fn all_ready(&self) -> bool {
        lock(&self.seen).all_ready
    }

    /// Number of warnings and errors in the logs of the token services so far.
    pub(crate) fn lines(&self) -> Result<usize> {
        self.log.until("any output", |text| {
            let lines = text.lines();
            let is_problem = |line: &&str| line.contains(" WARN ") || line.contains("ERROR ");
            Some(lines.filter(is_problem).count())
        })
    }

    /// Ends the watch. Returns true if the runbook says what to do about each description of `/readyz`, and if the alert
    /// fired and ended. A file with the samples is made in `state`.
    pub(crate) fn judge(self, repository: &Path, state: &Path) -> Result<bool> {
        self.load.stop()?;
        let seen = lock(&self.seen);
        let known = store_causes(repository)?;
        let mut all_well = true;
        for description in &seen.descriptions {
            if !known.iter().any(|phrase| description.contains(phrase)) {
                println!("The runbook does not know this description of /readyz: {description}");
                all_well = false;
            }
        }
        match judge_alerts(&seen.series, state) {
            Ok(()) => println!("{ALERT} fired at both token services, and ended."),
            Err(said) => {
                println!("The alerts are not as they should be: {said:#}");
                all_well = false;
            }
        }
        Ok(all_well)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The description of an answer of `/readyz` with the reason `store`.
fn of_the_store(answer: &Answer) -> Option<String> {
    let body: Value = serde_json::from_str(&answer.body).ok()?;
    let is_store = answer.status == 503 && body["reason"] == "store";
    let description = body["description"].as_str()?;
    is_store.then(|| description.to_owned())
}

/// Runs the alert rules over the metrics of this run: the alert fires at each service, and ends.
fn judge_alerts(series: &Series, state: &Path) -> Result<()> {
    // When the last service has failed for the first time.
    let firsts = series.of(FAILED).map(|values| {
        let first = values.first().copied().flatten();
        values
            .iter()
            .position(|value| value.is_some() && *value != first)
    });
    let fires = firsts
        .collect::<Option<Vec<usize>>>()
        .context("a service did not fail")?;
    let fires = fires.into_iter().max().context("no service")? + 2;
    let over = series.count() + MORE;
    let alert = format!("count(ALERTS{{alertname=\"{ALERT}\",alertstate=\"firing\"}})");
    let other =
        format!("count_over_time(ALERTS{{alertname=\"{OTHER}\",alertstate=\"firing\"}}[{over}s])");
    let expected = json!([
        {"expr": alert, "eval_time": format!("{fires}s"), "exp_samples": [{"labels": "{}", "value": 2}]},
        {"expr": "ALERTS", "eval_time": format!("{over}s"), "exp_samples": []},
        {"expr": other, "eval_time": format!("{over}s"), "exp_samples": []},
    ]);
    series.expect(state, ("1s", MORE), &expected)
}
