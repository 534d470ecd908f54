//! The scripts in `tests/k6/`, run by real k6: each script succeeds, and each fails if something is wrong.

use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;

use crate::support::OwnPair;

/// The exit code of k6 when a threshold is crossed.
const CROSSED: i32 = 99;
/// The exit code of k6 when the script marked the run as failed.
const MARKED_AS_FAILED: i32 = 110;

/// A separate pair for the load, so that the load delays no other test.
fn pair() -> &'static OwnPair {
    static PAIR: LazyLock<OwnPair> = LazyLock::new(|| OwnPair::start(&[]));
    &PAIR
}

/// Runs a script with these environment variables. Returns its exit code and its summary.
fn run(script: &str, environment: &[(&str, &str)]) -> (Output, Value) {
    let pair = &pair().pair;
    let repository = &pair.artifacts().repository;
    let folder = tempfile::TempDir::new().unwrap();
    let summary = folder.path().join("summary.json");
    let k6 = repository.join(".cache/k6");
    assert!(k6.exists(), "k6 is missing: run `make tools`");
    let output = Command::new(k6)
        .args(["run", "--quiet", "--no-color", "--no-usage-report"])
        // Disables k6's own listener, because it has a fixed port.
        .args(["--address", "", "--summary-export"])
        .arg(&summary)
        .arg(repository.join("tests/k6").join(script))
        .env("LOBBY_URL", pair.lobby_url())
        .env("API_URL", pair.api_url())
        .env("LEGACY_URL", pair.legacy_url())
        .env("NO_PROXY", "127.0.0.1")
        // The speed of a debug build on a busy machine is not meaningful.
        .env("P95", "off")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let summary = std::fs::read_to_string(summary)
        .map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
    (output, summary)
}

fn text(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes);
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

/// Number of requests with this name in the summary.
fn count(summary: &Value, name: &str) -> u64 {
    let metric = &summary["metrics"][format!("http_reqs{{name:{name}}}")];
    let count = metric["count"].as_u64();
    count.unwrap_or_else(|| panic!("nothing is said of {name} in {summary}"))
}

#[test]
fn the_smoke_test_goes_through_every_grant_once() {
    let (output, summary) = run("smoke.js", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for (name, requests) in [
        ("api", 6),
        ("api-without-token", 1),
        ("authorization_code", 2),
        ("authorize", 4),
        ("client_credentials", 1),
        ("jwt_bearer", 1),
        ("refresh_token", 2),
        ("select-account", 1),
        ("sign-in", 2),
    ] {
        assert_eq!(count(&summary, name), requests, "{name}");
    }
}

#[test]
fn a_short_load_test_makes_every_request() {
    let (output, summary) = run("load.js", &[("DURATION", "4s"), ("RATE", "0.05")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for name in [
        "api",
        "authorization_code",
        "authorize",
        "client_credentials",
        "jwt_bearer",
        "refresh_token",
        "select-account",
        "sign-in",
    ] {
        assert!(count(&summary, name) > 0, "{name}");
    }
}

#[test]
fn the_legacy_flow_goes_through() {
    let (output, summary) = run("legacy.js", &[("DURATION", "3s"), ("RATE", "0.5")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for name in [
        "api",
        "legacy_exchange",
        "legacy_refresh",
        "logon",
        "sign-in",
        "status",
    ] {
        assert!(count(&summary, name) > 0, "{name}");
    }
}

#[test]
fn a_refused_client_fails_the_run() {
    for variable in ["WEB_CLIENT_SECRET", "NON_INTERACTIVE_CLIENT_SECRET"] {
        let (output, _) = run("smoke.js", &[(variable, "wrong")]);
        assert_eq!(output.status.code(), Some(CROSSED), "{}", text(&output));
        assert!(
            text(&output).contains("invalid_client"),
            "{}",
            text(&output)
        );
    }
}

/// k6 itself logs the error, counts the iteration as complete and exits with 0.
#[test]
fn an_error_in_a_script_fails_the_run() {
    // No private key.
    let broken = [("PRIVATE_KEY", "../../demo/registrations.toml")];
    let (output, _) = run("smoke.js", &broken);
    assert_eq!(
        output.status.code(),
        Some(MARKED_AS_FAILED),
        "{}",
        text(&output)
    );
    let load = [broken[0], ("DURATION", "1s"), ("RATE", "0.05")];
    let (output, _) = run("load.js", &load);
    assert_eq!(
        output.status.code(),
        Some(MARKED_AS_FAILED),
        "{}",
        text(&output)
    );
}

/// A limit on a request that never happened is kept: k6 shows 0 seconds.
#[test]
fn a_limit_that_is_not_kept_fails_the_run() {
    let limited = [("DURATION", "2s"), ("RATE", "0.05"), ("P95_SIGN_IN", "0")];
    let (output, _) = run("load.js", &limited);
    assert_eq!(output.status.code(), Some(CROSSED), "{}", text(&output));
    assert!(
        text(&output).contains("http_req_duration{name:sign-in}"),
        "{}",
        text(&output)
    );
}
