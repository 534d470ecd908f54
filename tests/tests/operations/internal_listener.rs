//! The internal listener: allowed host names, and the roles of admin tokens.

use serde_json::Value;

use crate::api::until;
use crate::support::{OwnPair, PRIVATE_HOSTS, REBOUND_HOSTS, Reply, get, send};

/// A page whose host name resolves to the listener after the page was loaded (DNS rebinding). The browser treats both
/// as the same origin.
#[test]
fn a_name_that_leads_to_the_internal_listener_reads_nothing() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__INTERNAL_HOSTS", "ops.example.com")]);
    let ask = |path: &str, host: &str| {
        let url = format!("{}{path}", pair.pair.internal_url());
        get(&url, &[("host", host)])
    };
    for path in [
        "/metrics",
        "/revocations",
        "/admin/clients",
        "/admin/openapi.json",
        "/nothing",
    ] {
        for host in REBOUND_HOSTS {
            ask(path, host).assert_error(421, "invalid_request");
        }
    }
    // The endpoints for gateways, monitoring and operators.
    let own = ["token-service-internal", "ops.example.com"];
    for host in own.iter().chain(PRIVATE_HOSTS) {
        assert_eq!(ask("/metrics", host).status, 200, "{host}");
        assert_eq!(ask("/revocations", host).status, 200, "{host}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(ask(path, "health-check.example").status, 200, "{path}");
    }
}

/// RFC 6797 §7.2: only where people reach the service by https.
#[test]
fn rfc6797_s6_1_https_issuers_are_asked_for_by_https_alone() {
    let header = |pair: &OwnPair, path: &str| {
        let reply = get(
            &format!("http://127.0.0.1:{}{path}", pair.pair.ports().public),
            &[],
        );
        reply.header("strict-transport-security").map(str::to_owned)
    };
    let issuer = "https://lobby.example.com";
    let secure = OwnPair::start(&[("TOKEN_SERVICE__ISSUER", issuer)]);
    for path in [
        "/auth/jwks",
        "/auth/",
        "/auth/authorize",
        "/auth/token",
        "/nothing",
    ] {
        assert_eq!(
            header(&secure, path).as_deref(),
            Some("max-age=31536000"),
            "{path}"
        );
    }
    let plain = OwnPair::start(&[]);
    assert_eq!(header(&plain, "/auth/jwks"), None);
}

#[test]
fn admin_tokens_have_names_and_roles_and_change_while_the_service_runs() {
    let pair = OwnPair::start(&[]);
    let file = pair.state().join("admin-token");
    let first = std::fs::read_to_string(&file).unwrap();
    let (ada, eve) = ("A".repeat(43), "B".repeat(42) + "A");
    let write = |text: String| std::fs::write(&file, text).unwrap();
    let ask = |token: &str, method: &str, path: &str| -> Reply {
        let url = format!("{}/admin{path}", pair.pair.internal_url());
        let bearer = format!("Bearer {token}");
        send(method, &url, &[("authorization", &bearer)], "")
    };
    write(format!("{first}{ada} ada full\n{eve} eve read-only\n"));
    for path in [
        "/clients",
        "/users/ada@example.com",
        "/keys",
        "/grants",
        "/audit",
        "/legacy-instances",
    ] {
        assert_eq!(ask(&eve, "GET", path).status, 200, "{path}");
    }
    for (method, path) in [
        ("POST", "/keys/rotate"),
        ("DELETE", "/clients/web-demo"),
        ("PUT", "/registrations?dry_run=true"),
        // A backup contains every hash.
        ("GET", "/backup"),
    ] {
        ask(&eve, method, path).assert_error(403, "insufficient_scope");
    }
    // A command sends the newest token of the role `full`.
    pair.done("key rotate");
    write(format!("{eve} eve read-only\n"));
    ask(&ada, "GET", "/keys").assert_error(401, "invalid_token");
    ask(first.trim(), "GET", "/keys").assert_error(401, "invalid_token");
    pair.done("client list");
    let refused = pair.failed("key rotate");
    assert!(refused.contains("read-only"), "{refused}");
    let entries = |action: &str| {
        let listed = pair.json(&format!("audit --action {action}"));
        listed["items"].as_array().unwrap().clone()
    };
    let by = |entries: &[Value], actor: &str| {
        entries
            .iter()
            .filter(|entry| entry["actor"] == actor)
            .count()
    };
    until("the entries are in the log", || {
        by(&entries("keys_rotated"), "administrator:ada") == 1
            && by(&entries("administration_refused"), "administrator:eve") == 5
    });
}

/// Every request has at most one short line in the log, whatever its names and paths are.
#[test]
fn long_names_and_paths_fill_neither_log_nor_answer() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE_LOG", "debug")]);
    let service = format!("http://127.0.0.1:{}", pair.pair.ports().public);
    let name = "n".repeat(30_000);
    let form = format!("{name}=1&{name}=2");
    let long_path = format!("/{}", "p".repeat(30_000));
    for path in [
        "/auth/token",
        "/auth/revoke",
        "/auth/introspect",
        "/auth/login",
        "/auth/sign-in",
        "/as/token.oauth2",
    ] {
        let reply = crate::support::post(&format!("{service}{path}"), &[], &form);
        assert!(reply.body.len() < 8_000, "{path}: {}", reply.body.len());
    }
    for path in [
        format!("/auth/authorize?client_id=web-demo&{form}"),
        format!("/auth/authorize?{form}"),
        format!("/Logon?{form}"),
        format!("/{name}/auth/token"),
        long_path.clone(),
    ] {
        let reply = get(&format!("{service}{path}"), &[]);
        assert!(
            reply.body.len() < 8_000,
            "{}: {}",
            path.len(),
            reply.body.len()
        );
    }
    let internal = pair.pair.internal_url();
    get(&format!("{internal}/admin{long_path}"), &[]);
    get(&format!("{internal}/admin/clients{long_path}"), &[]);
    let refused = || pair.done("audit --action token_request_refused");
    until("the refusals are in the audit log", || {
        refused().lines().count() >= 1
    });
    let refused = refused();
    let log = pair.pair.end();
    assert!(log.contains("answered"), "{log}");
    for line in log.lines().chain(refused.lines()) {
        assert!(line.len() < 2_000, "{}...", &line[..200]);
    }
}
