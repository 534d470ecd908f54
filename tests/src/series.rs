//! Samples of the metrics of token services, with which promtool tests the alert rules.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// The values of each series, one for each sample. A sample that is missing is `None`.
#[derive(Debug, Default)]
pub struct Series(BTreeMap<String, Vec<Option<f64>>>);

impl Series {
    /// Takes a sample with this number of the metrics `names`, and of `up`. `metrics` is `None` if Prometheus would not have
    /// reached the service.
    pub fn take(&mut self, service: &str, number: usize, metrics: Option<&str>, names: &[&str]) {
        let is_up = f64::from(u8::from(metrics.is_some()));
        self.push("up", service, "", number, is_up);
        for line in metrics.unwrap_or_default().lines() {
            let Some((name, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let (metric, labels) = name.split_once('{').unwrap_or((name, "}"));
            if names.contains(&metric)
                && let Ok(value) = value.parse()
            {
                let labels = labels.trim_end_matches('}');
                self.push(metric, service, labels, number, value);
            }
        }
    }

    fn push(&mut self, metric: &str, service: &str, labels: &str, number: usize, value: f64) {
        let comma = if labels.is_empty() { "" } else { "," };
        let name =
            format!("{metric}{{job=\"token-service\",instance=\"{service}\"{comma}{labels}}}");
        let values = self.0.entry(name).or_default();
        values.resize(number, None);
        values.push(Some(value));
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.values().map(Vec::len).max().unwrap_or_default()
    }

    /// The values of the series of a metric.
    pub fn of(&self, metric: &str) -> impl Iterator<Item = &[Option<f64>]> {
        let of = self.0.iter().filter(move |(name, _)| {
            let labels = name.strip_prefix(metric);
            labels.is_some_and(|labels| labels.starts_with('{'))
        });
        of.map(|(_, values)| values.as_slice())
    }

    /// The series for promtool. Each keeps its last value for `more` samples.
    fn for_promtool(&self, more: usize) -> Vec<Value> {
        let count = self.count();
        let series = self.0.iter().map(|(name, values)| {
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
        repository: &Path,
        folder: &Path,
        (interval, more): (&str, usize),
        expected: &Value,
    ) -> Result<()> {
        let test = json!({
            "rule_files": [repository.join("charts/gatepass/files/prometheus-alerts.yml")],
            "evaluation_interval": interval,
            "tests": [{
                "interval": interval,
                "input_series": self.for_promtool(more),
                "promql_expr_test": expected,
            }],
        });
        let file = folder.join("alerts.json");
        std::fs::write(&file, test.to_string())?;
        let output = Command::new(repository.join(".cache/promtool"))
            .args(["test", "rules"])
            .arg(&file)
            .output()?;
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{said}");
        Ok(())
    }
}
