//! token-guard itself: its answers to gateways, its start and its end.

use serde_json::{Value, json};
use tests::gateways::TokenGuard;
use tests::{Answer, Artifacts, Issuer, wire};

use super::{clusters, configuration};
use crate::api::{token, until};
use crate::support::{get, late, lobby, pair};

/// token-guard with the configuration of the table and these arguments.
fn start(arguments: &[&str]) -> TokenGuard {
    let configuration = configuration(&Issuer::new().unwrap());
    TokenGuard::start(&configuration, &clusters(), arguments).unwrap()
}

fn metric(guard: &TokenGuard, name: &str) -> u64 {
    let text = get(&format!("{}/metrics", guard.internal_url()), &[]).body;
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let (_, value) = lines.find(|(other, _)| *other == name).unwrap();
    value.parse().unwrap()
}

/// Sends a request to token-guard directly.
fn ask(guard: &TokenGuard, path: &str, headers: &str) -> Answer {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: guard\r\nConnection: close\r\n{headers}\r\n");
    wire::send(guard.port(), &request).unwrap().unwrap()
}

const PROJECTS: &str = "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /api/projects\r\n";

/// The first requests to a new guard wait for the keys. Meanwhile `/readyz` is not 200, so load balancers send no
/// requests there.
#[test]
fn requests_wait_for_keys_that_are_late() {
    // A fetch without an answer ends after five seconds, and a request that waits for it gets 503.
    until("the keys come in time", a_request_waits);
}

/// False if the request has got 503 before.
fn a_request_waits() -> bool {
    let keys = get(&format!("{}/auth/jwks", lobby()), &[]).body;
    let (port, told) = late(keys);
    let clusters = [
        ("token-service", port),
        ("token-service-internal", pair().ports().internal),
    ];
    let configuration = configuration(&Issuer::new().unwrap());
    // Removes the issuer with inline keys, because with it the guard is ready at once.
    let mut configuration: Value = serde_json::from_str(&configuration).unwrap();
    configuration["issuers"].as_array_mut().unwrap().truncate(1);
    let configuration = configuration.to_string();
    let mut guard = TokenGuard::start(&configuration, &clusters, &["--workers", "1"]).unwrap();
    let readyz = format!("{}/readyz", guard.internal_url());
    assert_eq!(get(&readyz, &[]).status, 503);
    let headers = format!("{PROJECTS}Authorization: Bearer {}\r\n", token());
    let answer = std::thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&guard, "/forward-auth", &headers));
        until("the request waits", || {
            metric(&guard, "token_filter_waiting") == 1 || waits.is_finished()
        });
        drop(told);
        waits.join().unwrap()
    });
    if answer.status == 503 {
        return false;
    }
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.values("x-user-id"), ["1879048402"]);
    guard.until_ready().unwrap();
    until("the request is counted", || {
        metric(&guard, "token_filter_allowed") == 1
    });
    true
}

/// nginx configurations cannot read an answer's status other than 401 and 403, nor its body.
#[test]
fn nginx_gets_the_answer_of_a_refusal_in_headers() {
    let guard = start(&[]);
    let plain = ask(&guard, "/forward-auth", PROJECTS);
    assert_eq!(plain.status, 401);
    let folded = ask(&guard, "/auth-request", PROJECTS);
    assert_eq!(folded.status, 403);
    assert_eq!(folded.values("x-token-guard-status"), ["401"]);
    assert_eq!(folded.values("x-token-guard-body"), [plain.body.as_str()]);
    let challenge = plain.values("www-authenticate");
    assert_eq!(folded.values("www-authenticate"), challenge);
}

#[test]
fn who_is_no_gateway_gets_no_decision() {
    let guard = start(&["--trusted-peers", "10.0.0.0/8"]);
    let answer = ask(&guard, "/forward-auth", PROJECTS);
    assert_eq!(answer.status, 403);
    assert!(
        answer.body.contains("127.0.0.1 is not in --trusted-peers"),
        "{}",
        answer.body
    );
    assert_eq!(metric(&guard, "token_filter_denied{reason=\"peer\"}"), 1);
    guard.log().until_it_says(r#""reason":"peer""#).unwrap();
}

/// A question whose method or path is missing, repeated or malformed. The unit tests of token-guard have each.
#[test]
fn an_unclear_handover_is_refused_and_counted() {
    let guard = start(&[]);
    let healthz = "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /healthz";
    let respelled = format!("{healthz}\r\nX_Forwarded_Uri: /api/x\r\n");
    for (path, headers) in [
        ("/forward-auth", ""),
        ("/forward-auth", &respelled),
        ("/ext-authz", ""),
        ("/ext-authz/healthz", "X.Scope: admin\r\n"),
    ] {
        let answer = ask(&guard, path, headers);
        assert_eq!(answer.status, 400, "{path} {headers}");
        assert!(answer.body.contains("invalid_request"), "{}", answer.body);
    }
    assert_eq!(
        metric(&guard, "token_filter_denied{reason=\"handover\"}"),
        4
    );
    // The gateway replaces a header of this name.
    let replaced = format!("{healthz}\r\nX-User-Id: 1\r\n");
    assert_eq!(ask(&guard, "/forward-auth", &replaced).status, 200);
    assert_eq!(ask(&guard, "/ext-authz/healthz", "").status, 200);
    assert_eq!(
        ask(&guard, "/healthz", "").status,
        404,
        "a path of no decision"
    );
}

/// A 200 would let the request for the metadata pass: the gateway routes its path here instead.
#[test]
fn the_metadata_of_the_resource_is_served_and_never_a_decision() {
    let mut configuration: Value =
        serde_json::from_str(&configuration(&Issuer::new().unwrap())).unwrap();
    configuration["protected_resource"] = json!({"resource": "https://api.example.com"});
    let guard = TokenGuard::start(&configuration.to_string(), &clusters(), &[]).unwrap();
    let path = "/.well-known/oauth-protected-resource";
    let served = ask(&guard, path, "");
    assert_eq!(served.status, 200);
    assert!(
        served.body.contains("https://api.example.com"),
        "{}",
        served.body
    );
    assert_eq!(ask(&guard, &format!("/ext-authz{path}"), "").status, 404);
    let challenge = ask(&guard, "/forward-auth", PROJECTS);
    let [challenge] = challenge.values("www-authenticate")[..] else {
        panic!("one challenge");
    };
    assert!(challenge.contains("resource_metadata="), "{challenge}");
}

/// The program names every problem and ends.
#[test]
fn a_bad_configuration_is_named() {
    let bad = r#"{"issuers": [{"issuer": "a", "audiences": ["b"], "jwks": {"cluster": "keys", "path": "jwks"}}], "rule": []}"#;
    let failure = TokenGuard::start(bad, &[], &[]).unwrap_err().to_string();
    for problem in [
        "jwks.path: must start with a slash",
        "rule: unknown key; did you mean rules?",
    ] {
        assert!(failure.contains(problem), "{failure}");
    }
    let failure = TokenGuard::start(&configuration(&Issuer::new().unwrap()), &[], &[]).unwrap_err();
    let failure = failure.to_string();
    for cluster in ["token-service", "token-service-internal"] {
        assert!(
            failure.contains(&format!("--cluster {cluster}=URL")),
            "{failure}"
        );
    }
}

/// `/api/slides` of the table's configuration falls to the rule for `/api/`.
#[test]
fn a_prefix_with_a_slash_at_its_end_is_warned_about() {
    let configuration = configuration(&Issuer::new().unwrap());
    let warning = "rules[4].path_prefix: /api/slides falls to another rule";
    let guard = TokenGuard::start(&configuration, &clusters(), &[]).unwrap();
    guard.log().until_it_says(warning).unwrap();

    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("token-guard.json");
    std::fs::write(&path, configuration).unwrap();
    let mut check = std::process::Command::new(Artifacts::find().unwrap().token_guard());
    check.arg("--check").arg("--config").arg(&path);
    for (name, port) in clusters() {
        check.args(["--cluster", &format!("{name}=http://127.0.0.1:{port}")]);
    }
    let output = check.output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(warning), "{said}");
}

/// After SIGTERM `/readyz` is 503, and requests still get answers. A second signal ends the process at once.
#[test]
fn token_guard_serves_on_while_it_drains() {
    let mut guard = start(&["--drain-for", "1h"]);
    guard.until_ready().unwrap();
    let readyz = format!("{}/readyz", guard.internal_url());
    let pid = guard.pid().unwrap().to_string();
    let terminate = || {
        let kill = std::process::Command::new("kill")
            .args(["-s", "TERM", &pid])
            .status();
        assert!(kill.unwrap().success());
    };
    terminate();
    until("it is not ready", || get(&readyz, &[]).status == 503);
    assert!(get(&readyz, &[]).body.contains("draining"));
    assert_eq!(ask(&guard, "/forward-auth", PROJECTS).status, 401);
    terminate();
    guard.until_ended().unwrap();
}
