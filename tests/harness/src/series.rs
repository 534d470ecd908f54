//! Samples of the metrics of token services and gateways, with which promtool tests the alert rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

const RULES: &str = "charts/gatepass/files/prometheus-alerts.yml";

/// Samples of every metric that the alert rules of the chart name.
#[derive(Debug)]
pub struct Series {
    repository: PathBuf,
    metrics: BTreeSet<String>,
    /// The values of each series, one for each sample. A sample that is missing is `None`.
    values: BTreeMap<String, Vec<Option<f64>>>,
}

impl Series {
    /// No samples yet.
    ///
    /// # Errors
    /// If the repository has no rules.
    pub fn of_rules(repository: &Path) -> Result<Self> {
        let rules = std::fs::read_to_string(repository.join(RULES))?;
        let words = rules.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
        let metrics = words
            .filter(|word| word.starts_with("token_service_") || word.starts_with("token_filter_"));
        Ok(Self {
            repository: repository.to_owned(),
            metrics: metrics.map(str::to_owned).collect(),
            values: BTreeMap::new(),
        })
    }

    /// Takes a sample of the metrics of an instance of a job, and of `up`. `metrics` is `None` if Prometheus would not have
    /// reached the instance.
    pub fn take(&mut self, job: &str, instance: &str, number: usize, metrics: Option<&str>) {
        let of = format!("job=\"{job}\",instance=\"{instance}\"");
        let is_up = f64::from(u8::from(metrics.is_some()));
        self.push("up", &of, "", number, is_up);
        for line in metrics.unwrap_or_default().lines() {
            let Some((name, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let (metric, labels) = name.split_once('{').unwrap_or((name, "}"));
            if self.metrics.contains(metric)
                && let Ok(value) = value.parse()
            {
                let labels = labels.trim_end_matches('}');
                self.push(metric, &of, labels, number, value);
            }
        }
    }

    /// Takes the last sample so many times more.
    pub fn repeat(&mut self, times: usize) {
        let count = self.count();
        for values in self
            .values
            .values_mut()
            .filter(|values| values.len() == count)
        {
            let last = values.last().copied().flatten();
            values.resize(count + times, last);
        }
    }

    fn push(&mut self, metric: &str, of: &str, labels: &str, number: usize, value: f64) {
        let comma = if labels.is_empty() { "" } else { "," };
        let name = format!("{metric}{{{of}{comma}{labels}}}");
        let values = self.values.entry(name).or_default();
        values.resize(number, None);
        values.push(Some(value));
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.values.values().map(Vec::len).max().unwrap_or_default()
    }

    /// The values of the series of a metric.
    pub fn of(&self, metric: &str) -> impl Iterator<Item = &[Option<f64>]> {
        let of = self.values.iter().filter(move |(name, _)| {
            let labels = name.strip_prefix(metric);
            labels.is_some_and(|labels| labels.starts_with('{'))
        });
        of.map(|(_, values)| values.as_slice())
    }

    /// The series for promtool. Each keeps its last value for `more` samples.
    fn for_promtool(&self, more: usize) -> Vec<Value> {
        let count = self.count();
        let series = self.values.iter().map(|(name, values)| {
            let mut text = String::new();
            for number in 0..count {
                match values.get(number).copied().flatten() {
                    Some(value) => _ = write!(text, "{value} "),
                    None => text += "_ ",
                }
            }
            let last = values.iter().rev().find_map(|value| *value);
            text += &last.map_or("_".to_owned(), |value| format!("{value}+0x{more}"));
            json!({"series": name, "values": text})
        });
        series.collect()
    }

    /// Evaluates expressions over these samples, with the alert rules of the chart. `interval` is the time between two
    /// samples, such as `1s`; after the last sample, each series keeps its value for `more` samples. `expected`: see
    /// `promql_expr_test` of `promtool test rules`. A file with the test is made in `folder`.
    ///
    /// # Errors
    /// What promtool says if an expression has another value.
    pub fn expect(
        &self,
        folder: &Path,
        (interval, more): (&str, usize),
        expected: &Value,
    ) -> Result<()> {
        let test = json!({
            "rule_files": [self.repository.join(RULES)],
            "evaluation_interval": interval,
            "tests": [{
                "interval": interval,
                "input_series": self.for_promtool(more),
                "promql_expr_test": expected,
            }],
        });
        let file = folder.join("alerts.json");
        std::fs::write(&file, test.to_string())?;
        let output = Command::new(self.repository.join(".cache/promtool"))
            .args(["test", "rules"])
            .arg(&file)
            .output()?;
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{said}");
        Ok(())
    }
}
