//! What operators see meanwhile: `/readyz`, the metrics with their alerts, and the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use tests::browsing::agent;
use tests::{Log, Pair, pace};

/// Interval between two samples of the metrics.
const EVERY: Duration = Duration::from_secs(1);

/// The alert that must fire and end, and the metrics of the rules about requests and the store.
const ALERT: &str = "TokenServiceStoreFails";
const METRICS: [&str; 2] = [
    "token_service_store_failed_transactions_total",
    "token_service_http_requests_total",
];

/// The values of each series, one for each sample. A series that began later has `None` before.
#[derive(Debug, Default)]
struct Series(BTreeMap<String, Vec<Option<f64>>>);

/// Looks at both token services all the time.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    unready: Arc<AtomicUsize>,
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
    pub(crate) fn start(pair: &Pair) -> Self {
        let ports = pair.ports();
        let services =
            [ports.internal, ports.internal_replica].map(|port| format!("127.0.0.1:{port}"));
        let (over, unready) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let series = Arc::<Mutex<Series>>::default();
        let descriptions = Arc::<Mutex<BTreeSet<String>>>::default();
        let thread = std::thread::spawn({
            let (over, unready) = (Arc::clone(&over), Arc::clone(&unready));
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
                    for service in &services {
                        if let Some((503, body)) = get(service, "/readyz")
                            && let Some(description) = of_the_store(&body)
                        {
                            unready.fetch_add(1, Ordering::Relaxed);
                            lock(&seen).insert(description);
                        }
                        let metrics = get(service, "/metrics");
                        let metrics = metrics.map(|(_, body)| body);
                        lock(&series).take(service, samples, metrics.as_deref());
                    }
                    samples += 1;
                }
            }
        });
        Self {
            over,
            unready,
            descriptions,
            series,
            thread,
            log: pair.log(),
        }
    }

    /// Number of looks at which `/readyz` returned 503 and named the store with a cause.
    pub(crate) fn unready(&self) -> usize {
        self.unready.load(Ordering::Relaxed)
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
        Ok(Samples {
            series: std::mem::take(&mut lock(&self.series)),
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

impl Series {
    /// Takes a sample with this number.
    fn take(&mut self, service: &str, number: usize, metrics: Option<&str>) {
        for line in metrics.unwrap_or_default().lines() {
            let Some((name, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let (metric, labels) = name.split_once('{').unwrap_or((name, "}"));
            let (true, Ok(value)) = (METRICS.contains(&metric), value.parse()) else {
                continue;
            };
            let labels = labels.trim_end_matches('}');
            let comma = if labels.is_empty() { "" } else { "," };
            let name =
                format!("{metric}{{job=\"token-service\",instance=\"{service}\"{comma}{labels}}}");
            let values = self.0.entry(name).or_default();
            values.resize(number, None);
            values.push(Some(value));
        }
    }

    /// The series for `promtool test rules`: each keeps its last value for `more` samples.
    fn for_promtool(&self, count: usize, more: usize) -> Vec<Value> {
        let series = self.0.iter().map(|(name, values)| {
            let mut text = String::new();
            let (mut last, mut values) = (None, values.iter());
            for _ in 0..count {
                last = values.next().copied().flatten().or(last);
                match last {
                    Some(value) => _ = write!(text, "{value} "),
                    None => text += "_ ",
                }
            }
            text += &last.map_or("_".to_owned(), |value| format!("{value}+0x{more}"));
            json!({"series": name, "values": text})
        });
        series.collect()
    }
}

impl Samples {
    /// True if the runbook says what to do about each description of `/readyz`.
    pub(crate) fn know_the_runbook(&self, repository: &Path) -> Result<bool> {
        let page = std::fs::read_to_string(repository.join("docs/runbook.md"))?;
        let (_, chapter) = page
            .split_once(&format!("### {ALERT}\n"))
            .context("the runbook lacks the alert")?;
        let (chapter, _) = chapter.split_once("\n### ").unwrap_or((chapter, ""));
        let cells = chapter.lines().filter_map(|line| line.strip_prefix("| `"));
        let known: Vec<&str> = cells
            .filter_map(|row| row.split(" | ").next())
            .flat_map(|cell| cell.split('`').step_by(2))
            .filter(|phrase| !phrase.is_empty())
            .collect();
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
    pub(crate) fn judge(&self, repository: &Path, state: &Path) -> Result<bool> {
        let count = self
            .series
            .0
            .values()
            .map(Vec::len)
            .max()
            .context("no metrics")?;
        let failed = self
            .series
            .0
            .iter()
            .filter(|(name, _)| name.starts_with(METRICS[0]));
        // When the last service has failed for the first time.
        let firsts = failed.map(|(_, values)| {
            let first = values.first().copied().flatten();
            values
                .iter()
                .position(|value| value.is_some() && *value != first)
        });
        let fires = firsts
            .collect::<Option<Vec<usize>>>()
            .context("a service did not fail")?;
        let fires = fires.into_iter().max().context("no service")? + 2;
        let (over, alert) = (
            count + 400,
            format!("count(ALERTS{{alertname=\"{ALERT}\",alertstate=\"firing\"}})"),
        );
        let rules = repository.join("charts/gatepass/files/prometheus-alerts.yml");
        let test = json!({
            "rule_files": [rules],
            "evaluation_interval": "1s",
            "tests": [{
                "interval": "1s",
                "input_series": self.series.for_promtool(count, 400),
                "promql_expr_test": [
                    {"expr": alert, "eval_time": format!("{fires}s"), "exp_samples": [{"labels": "{}", "value": 2}]},
                    {"expr": "ALERTS", "eval_time": format!("{over}s"), "exp_samples": []},
                ],
            }],
        });
        let file = state.join("alerts.json");
        std::fs::write(&file, test.to_string())?;
        let output = Command::new(repository.join(".cache/promtool"))
            .args(["test", "rules"])
            .arg(&file)
            .output()?;
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => println!("{ALERT} fired at both token services, and ended."),
            false => println!("The alerts are not as they should be: {said}"),
        }
        Ok(output.status.success())
    }
}
