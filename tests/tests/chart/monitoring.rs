//! What Prometheus and Grafana get.

use std::fs;

use serde_json::{Value, json};
use tests::Artifacts;

use super::{RENDERED, list, of_kind, pod, workloads};

/// The alert rules and the dashboard select the metrics that the PodMonitors collect.
#[test]
fn prometheus_and_grafana_find_what_the_chart_installs() {
    let documents = list(&RENDERED["token-guard-traefik"]["documents"]);
    let rule = of_kind(documents, "PrometheusRule")[0];
    let repository = Artifacts::find().unwrap().repository;
    let file = |name: &str| {
        let file = repository.join("charts/gatepass/files").join(name);
        fs::read_to_string(file).unwrap()
    };
    let alerts: Value = serde_saphyr::from_str(&file("prometheus-alerts.yml")).unwrap();
    assert_eq!(rule["spec"], alerts);
    let dashboards = of_kind(documents, "ConfigMap");
    let dashboard = dashboards
        .iter()
        .find(|map| map["metadata"]["labels"]["grafana_dashboard"] == "1")
        .unwrap();
    let dashboard = dashboard["data"]["gatepass.json"].as_str().unwrap();
    assert_eq!(dashboard, file("grafana-dashboard.json"));

    let monitors = of_kind(documents, "PodMonitor");
    assert_eq!(monitors.len(), 2);
    for monitor in monitors {
        assert_eq!(
            monitor["metadata"]["labels"]["release"],
            "kube-prometheus-stack"
        );
        let spec = &monitor["spec"];
        assert_eq!(spec["jobLabel"], "app.kubernetes.io/component");
        let endpoint = json!([{"port": "internal", "path": "/metrics"}]);
        assert_eq!(spec["podMetricsEndpoints"], endpoint);
        let selected = spec["selector"]["matchLabels"].as_object().unwrap();
        let selected: Vec<&Value> = workloads(documents)
            .into_iter()
            .filter(|workload| {
                let labels = &workload["spec"]["template"]["metadata"]["labels"];
                selected.iter().all(|(name, value)| labels[name] == *value)
            })
            .collect();
        let [workload] = selected[..] else {
            panic!("{selected:?}");
        };
        let job =
            &workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"];
        // As Prometheus would match it: `.*token-guard.*`.
        let job = format!("up{{job=~\".*{}.*\"}} == 0", job.as_str().unwrap());
        assert!(
            alerts.to_string().contains(&job.replace('"', "\\\"")),
            "{job}"
        );
        let ports = list(&pod(workload)["containers"][0]["ports"]).iter();
        let mut ports = ports.map(|port| &port["name"]);
        assert!(ports.any(|name| name == "internal"));
    }
}
