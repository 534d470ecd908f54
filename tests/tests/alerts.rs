//! The alert rules: when they fire, and their texts for operators.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use tests::Artifacts;

const RULES: &str = "charts/gatepass/files/prometheus-alerts.yml";
const TESTS: &str = "tests/prometheus/alerts.test.yml";

fn alerts() -> Vec<Value> {
    let repository = Artifacts::find().unwrap().repository;
    let text = fs::read_to_string(repository.join(RULES)).unwrap();
    let rules: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
    rules.collect()
}

fn names(alerts: &[Value]) -> BTreeSet<&str> {
    let names: BTreeSet<&str> = alerts
        .iter()
        .map(|alert| alert["alert"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), alerts.len(), "one name, one alert");
    names
}

#[test]
fn alerts_fire_when_they_should_and_no_other_does() {
    let repository = Artifacts::find().unwrap().repository;
    for arguments in [["check", "rules", RULES], ["test", "rules", TESTS]] {
        let output = Command::new(repository.join(".cache/promtool"))
            .args(arguments)
            .current_dir(&repository)
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    let tests = fs::read_to_string(repository.join(TESTS)).unwrap();
    let alerts = alerts();
    for name in names(&alerts) {
        let fires = format!(r#"alertname="{name}", alertstate="firing""#);
        assert!(tests.contains(&fires), "{name} never fires in the tests");
    }
}

#[test]
fn each_alert_says_what_to_do() {
    let repository = Artifacts::find().unwrap().repository;
    let alerts = alerts();
    for alert in &alerts {
        let severity = alert["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("warning" | "critical")), "{alert}");
        for annotation in ["summary", "runbook"] {
            let text = alert["annotations"][annotation].as_str();
            assert!(
                text.is_some_and(|text| text.len() > 10),
                "{annotation} of {alert}"
            );
        }
    }
    let runbook = fs::read_to_string(repository.join("docs/runbook.md")).unwrap();
    let (_, chapter) = runbook.split_once("\n## Alerts\n").unwrap();
    let headings = chapter.lines().filter_map(|line| line.strip_prefix("### "));
    let rows = chapter
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    // The names of alerts are one word with a capital letter.
    let of_alerts = headings
        .chain(rows)
        .filter(|name| name.starts_with(char::is_uppercase) && !name.contains(' '));
    assert_eq!(of_alerts.collect::<BTreeSet<&str>>(), names(&alerts));
}
