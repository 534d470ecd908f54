//! The metrics for Prometheus.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;
use tests::gateways::TokenGuard;
use tests::{Artifacts, Issuer};

use crate::api::until;
use crate::support::{Client, OwnPair, WEB, file, get};

#[test]
fn requests_grants_store_and_keys_are_counted() {
    // The series of a provider exist from the start.
    let pair = OwnPair::start(&[
        ("TOKEN_SERVICE__IDENTITY_PROVIDERS__0__ID", "sso"),
        ("TOKEN_SERVICE__IDENTITY_PROVIDERS__0__ISSUER", "sso"),
        (
            "TOKEN_SERVICE__IDENTITY_PROVIDERS__0__JWKS_FILE",
            "/dev/null",
        ),
    ]);
    let lobby = pair.pair.lobby_url();
    WEB.grant(&lobby);
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
        "token_service_requests_without_client_address_total 0",
        "token_service_events_total{action=\"code_replayed\"} 0",
        "token_service_events_total{action=\"refresh_token_reused\"} 0",
        "token_service_grants 1",
        "token_service_sessions 1",
        "token_service_passwords_waiting 0",
        "token_service_mail_failed_total 0",
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
    assert!(!reply.body.contains("with/a"), "clients choose no label");
    let url = format!("{}/metrics", pair.pair.internal_url());
    let open_metrics = get(
        &url,
        &[("accept", "application/openmetrics-text;q=0.9,*/*;q=0.1")],
    );
    for (reply, kind) in [
        (&reply, "text/plain; version=0.0.4; charset=utf-8"),
        (
            &open_metrics,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
    ] {
        assert_eq!(reply.header("content-type"), Some(kind));
    }
    assert!(open_metrics.body.ends_with("# EOF\n"));
    check(&reply.body);

    // A gateway that does not name its client. Each such request counts once, and once a minute in the log.
    let service = format!("http://127.0.0.1:{}", pair.pair.ports().public);
    guess
        .exchange(&service, "unknown", None)
        .assert_error(401, "invalid_client");
    let counted = "\ntoken_service_requests_without_client_address_total 1\n";
    assert!(metrics().body.contains(counted));
    let log = pair.pair.log();
    log.until_it_says("X-Forwarded-For of a trusted proxy has no address")
        .unwrap();

    let admin = pair.pair.ports().envoy_admin;
    let gateway = get(&format!("http://127.0.0.1:{admin}/stats/prometheus"), &[]);
    let guard = token_guard();
    // Only the native module has this one: `native::` reads it.
    let documents = documents().replace("token_filter_panics", "");
    for (prefix, least, metrics) in [
        ("token_service_", 10, &reply.body),
        ("token_filter_", 10, &gateway.body),
        ("token_filter_", 10, &guard),
        ("token_guard_", 1, &guard),
    ] {
        let names: BTreeSet<&str> = metrics
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(name)
            .collect();
        let shown: BTreeSet<&str> = documents
            .match_indices(prefix)
            .filter_map(|(start, _)| name(&documents[start..]))
            .filter(|name| name.len() > prefix.len())
            .collect();
        assert!(shown.len() >= least, "{shown:?}");
        for metric in shown {
            assert!(names.contains(metric), "dashboard or alerts show {metric}");
        }
    }
}

/// Asserts that Prometheus reads the metrics, and that they have its conventions.
fn check(text: &str) {
    let mut promtool = Command::new(
        Artifacts::find()
            .unwrap()
            .repository
            .join(".cache/promtool"),
    )
    .args(["check", "metrics"])
    .stdin(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let checked = promtool.wait_with_output().unwrap();
    let problems = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{problems}");
}

/// Dashboard and alerts.
fn documents() -> String {
    ["grafana-dashboard.json", "prometheus-alerts.yml"]
        .map(|name| file(&format!("charts/gatepass/files/{name}")))
        .concat()
}

/// The metric name at the start of a text.
fn name(text: &str) -> Option<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()
}

/// The metrics of token-guard with a running issuer.
fn token_guard() -> String {
    let issuer = Issuer::new().unwrap();
    let configuration = json!({
        "issuers": [issuer.configuration("https://api.example.com")],
        "rules": [{"path_prefix": "/"}],
    });
    let mut guard = TokenGuard::start(&configuration.to_string(), &[], &[]).unwrap();
    guard.until_ready().unwrap();
    let metrics = || get(&format!("{}/metrics", guard.internal_url()), &[]).body;
    // A waiting worker is not busy, but checking for work takes some time.
    until("workers have been busy", || {
        let busy = metrics();
        let mut lines = busy.lines();
        let busy = lines.find_map(|line| line.strip_prefix("token_guard_busy_seconds_total "));
        let busy: f64 = busy.unwrap().parse().unwrap();
        busy > 0.0
    });
    metrics()
}
