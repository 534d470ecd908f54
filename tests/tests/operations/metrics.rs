//! What Prometheus finds.

use std::collections::BTreeSet;

use crate::api::until;
use crate::support::{Browser, Client, OwnPair, WEB, get};

#[test]
fn requests_grants_store_and_keys_are_counted() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let code = Browser::new(&lobby).code_for(&WEB, None);
    assert_eq!(WEB.exchange(&lobby, &code, None).status, 200);
    WEB.exchange(&lobby, "unknown", None)
        .assert_error(400, "invalid_grant");
    get(&format!("{lobby}/nowhere/with/a/secret"), &[]);
    let guess = Client {
        secret: Some("wrong"),
        ..WEB
    };
    guess
        .exchange(&lobby, "unknown", None)
        .assert_error(401, "invalid_client");
    let metrics = || get(&format!("{}/metrics", pair.pair.internal_url()), &[]);
    assert_eq!(metrics().status, 200);
    // The audit log is written a moment later.
    until("the store has nothing to do", || {
        metrics()
            .body
            .contains("\ntoken_service_store_queued_operations 0\n")
    });
    let reply = metrics();
    for line in [
        "token_service_token_requests_total{grant_type=\"authorization_code\",outcome=\"ok\"} 1",
        "token_service_token_requests_total{grant_type=\"authorization_code\",outcome=\"invalid_grant\"} 1",
        "token_service_http_requests_total{route=\"/auth/token\",method=\"POST\",status=\"200\"} 1",
        "token_service_http_requests_total{route=\"unknown\",method=\"GET\",status=\"404\"} 1",
        "token_service_events_total{action=\"tokens_issued\"} 1",
        "token_service_refused_clients_total{reason=\"wrong_secret\"} 1",
        "token_service_events_total{action=\"code_replayed\"} 0",
        "token_service_events_total{action=\"refresh_token_reused\"} 0",
        "token_service_grants 1",
        "token_service_sessions 1",
        "token_service_passwords_waiting 0",
    ] {
        assert!(
            reply.body.lines().any(|found| found == line),
            "{line} in {}",
            reply.body
        );
    }
    for name in [
        "token_service_http_request_duration_seconds_bucket{",
        "token_service_store_batch_operations_bucket{",
        "token_service_store_commit_duration_seconds_bucket{",
        "token_service_signing_key_age_seconds{kid=",
        "token_service_certificate_expires_in_seconds{client_id=\"non-interactive-demo\"",
    ] {
        assert!(reply.body.contains(name), "{name} in {}", reply.body);
    }
    let build = concat!(
        "token_service_build_info{version=\"",
        env!("CARGO_PKG_VERSION"),
        "\"} 1"
    );
    assert!(
        reply.body.lines().any(|line| line == build),
        "{}",
        reply.body
    );
    let docs = pair.pair.artifacts().repository.join("docs");
    let [dashboard, alerts] = ["grafana-dashboard.json", "prometheus-alerts.yml"]
        .map(|file| std::fs::read_to_string(docs.join(file)).unwrap());
    let documents = dashboard + &alerts;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let shown = |prefix: &str| -> BTreeSet<&str> {
        let starts = documents.match_indices(prefix);
        let names =
            starts.filter_map(|(start, _)| documents[start..].split(|c| !is_part(c)).next());
        names.filter(|name| name.len() > prefix.len()).collect()
    };
    let admin = pair.pair.ports().envoy_admin;
    let gateway = get(&format!("http://127.0.0.1:{admin}/stats/prometheus"), &[]);
    for (prefix, least, metrics) in [
        ("token_service_", 10, &reply.body),
        ("token_filter_", 10, &gateway.body),
    ] {
        let names: BTreeSet<&str> = metrics
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(|c| !is_part(c)).next())
            .collect();
        let shown = shown(prefix);
        assert!(shown.len() >= least, "{shown:?}");
        for metric in shown {
            assert!(names.contains(metric), "dashboard or alerts show {metric}");
        }
    }
    assert!(!reply.body.contains("with/a"), "clients choose no label");
    assert!(reply.body.ends_with("# EOF\n"));
}
