//! Using a token (protocol.md §4.3) through the filter in real Envoy.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tests::wire;

use crate::support::{
    self, Assertion, Browser, CREDENTIALS, Reply, USER_BOUND, WEB, api, get, lobby, now, pair,
};

/// Calls the projects listing with a token.
pub(crate) fn call(token: &str) -> Reply {
    support::call(&api(), token)
}

/// Waits until `condition` holds, because the gateway learns of changes only with its next poll.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    /// Far longer than needed, even on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(120);
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        tests::pace();
    }
}

/// Waits for more than `seconds`. The service counts whole seconds.
pub(crate) fn pass(seconds: u64) {
    let start = now();
    until("the time passes", || now() > start + seconds);
}

/// A token of the user-bound client.
pub(crate) fn token() -> String {
    let reply = USER_BOUND.token(&lobby(), &CREDENTIALS);
    reply.text("access_token")
}

#[forms::each]
fn protocol_s4_3_a_good_token_is_let_in_and_its_claims_are_passed_on() {
    let reply = call(&token());
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.json(),
        json!({
            "path": "/api/projects",
            "x-auth-subject": "1879048402",
            "x-client-id": "user-bound-demo",
            "x-scope": "projects",
            "x-user-hat": "ghopper",
            "x-user-id": "1879048402",
            "x-user-site": "https://us1.example.com",
            "authorization": null,
        })
    );
}

/// The gateways' table has every refusal, with another configuration of Envoy.
#[forms::each]
fn rfc6750_s3_refusals_say_why() {
    let refused = |path: &str, token: Option<&str>, status, error| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers = bearer.iter().map(|value| ("authorization", value.as_str()));
        let reply = get(&format!("{}{path}", api()), &headers.collect::<Vec<_>>());
        reply.assert_error(status, error);
        let challenge = reply.header("www-authenticate");
        challenge.unwrap_or_default().to_owned()
    };
    let challenge = refused("/api/projects", None, 401, "invalid_request");
    assert!(challenge.contains("Bearer realm=\"api\""), "{challenge}");
    let challenge = refused("/api/projects", Some("a.b.c"), 401, "invalid_token");
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    refused("/api/projects", Some("a b"), 400, "invalid_request");
    // A document, and the collection of the documents.
    for path in ["/api/documents/1", "/api/documents"] {
        let challenge = refused(path, Some(&token()), 403, "insufficient_scope");
        let scope = "scope=\"documents\"";
        assert!(challenge.contains(scope), "{path}: {challenge}");
    }
    refused("/nowhere", None, 403, "access_denied");
}

#[forms::each]
fn rfc8725_s3_11_other_tokens_of_ours_are_no_access_tokens() {
    let code = Browser::new(&lobby()).code_for(&WEB, None);
    let reply = WEB.exchange(&lobby(), &code, None);
    let access = reply.text("access_token");
    assert_eq!(call(&access).status, 200);
    call(&reply.text("refresh_token")).assert_error(401, "invalid_token");
    let identity = crate::token::claims(&access)["idcs_access_token"]
        .as_str()
        .unwrap()
        .to_owned();
    call(&identity).assert_error(401, "invalid_token");
    let assertion = Assertion::of("ada@example.com").sign();
    call(&assertion).assert_error(401, "invalid_token");
    for part in 0..3 {
        call(&with_changed_part(&access, part)).assert_error(401, "invalid_token");
    }
}

/// The token with one bit changed in its header, claims or signature. The result is still base64url: other text is
/// refused for another reason.
fn with_changed_part(token: &str, part: usize) -> String {
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    let mut bytes = URL_SAFE_NO_PAD.decode(&parts[part]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    parts[part] = URL_SAFE_NO_PAD.encode(bytes);
    parts.join(".")
}

/// Also without a token. The gateways' table has every spelling of the names.
#[forms::each]
fn rfc9700_s4_13_identity_headers_of_clients_never_arrive() {
    let bearer = format!("Bearer {}", token());
    for name in ["x-user-id", "X_USER_ID"] {
        let url = format!("{}/api/projects", api());
        let reply = get(&url, &[("authorization", &bearer), (name, "eve")]);
        assert_eq!(reply.json()["x-user-id"], "1879048402", "{name}");
        let anonymous = get(&format!("{}/healthz", api()), &[(name, "eve")]);
        assert_eq!(anonymous.status, 200);
        assert_eq!(anonymous.json()["x-user-id"], Value::Null, "{name}");
    }
}

/// Raw requests, because clients normalise paths themselves. The gateways' table has more paths.
#[forms::each]
fn rfc9700_s4_13_paths_are_decided_as_the_resource_server_sees_them() {
    let raw = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = wire::send(pair().ports().api, &request).unwrap();
        answer.unwrap().status
    };
    assert_eq!(raw("/healthz"), 200);
    for path in [
        "/healthz/../api/projects",
        "/healthz/%2e%2e/api/projects",
        "//api/projects",
        "/healthz/..;/api/projects",
        "/healthz%2f..%2fapi/projects",
        "/healthz#/api",
    ] {
        let status = raw(path);
        let is_refused = matches!(status, 307 | 400 | 401 | 403 | 404);
        assert!(is_refused, "{path}: {status}");
    }
}

/// The filter verifies the token of a waiting request once, as Envoy's metrics show.
#[forms::each]
fn the_filter_counts_in_envoys_metrics() {
    let token = token();
    for _ in 0..5 {
        assert_eq!(call(&token).status, 200);
    }
    let metrics = || {
        get(
            &format!(
                "http://127.0.0.1:{}/stats/prometheus",
                pair().ports().envoy_admin
            ),
            &[],
        )
        .body
    };
    let value = |name: &str| -> u64 {
        metrics()
            .lines()
            .find_map(|line| {
                line.strip_prefix(&format!("{name}{{}} "))
                    .or_else(|| line.strip_prefix(&format!("{name} ")))
            })
            .unwrap_or_else(|| panic!("no {name} in {}", metrics()))
            .parse()
            .unwrap()
    };
    until("the counts arrive", || {
        value("token_filter_cache_hits") >= 4 && value("token_filter_allowed") >= 5
    });
    // The gateway's stats tags turn reason and version into labels.
    let denied = r#"token_filter_denied{reason="no_token"}"#;
    let before = value(denied);
    assert_eq!(get(&format!("{}/api/projects", api()), &[]).status, 401);
    until("the denial arrives", || value(denied) > before);
    let version = env!("CARGO_PKG_VERSION");
    let build = format!(r#"token_filter_build_info{{version="{version}"}}"#);
    assert!(value(&build) >= 1, "one for each worker's VM");
    // Envoy starts before the services, so its first fetches may fail.
    until("the keys of every issuer arrive", || {
        value("token_filter_keys_missing") == 0
    });
}
