//! The filter with late keys, stopped services and wrong configurations.

use std::process::Command;

use serde_json::{Value, json};
use tests::{Artifacts, Form, envoy};

use crate::api::until;
use crate::support::{OwnPair, call, get, send};

/// Issue: "stopping the token service leaves already issued tokens working at the API".
#[forms::each]
fn issued_tokens_work_while_the_token_service_is_down() {
    let mut pair = OwnPair::start(&[]);
    let (seen, unseen) = (pair.token(), pair.token());
    assert_eq!(pair.call(&seen), 200);
    pair.pair.stop_token_service();
    assert_eq!(pair.call(&seen), 200);
    assert_eq!(pair.call(&unseen), 200, "the keys are known");
    let lobby = get(&format!("{}/auth/jwks", pair.pair.lobby_url()), &[]);
    lobby.assert_error(503, "temporarily_unavailable");
}

/// Without keys the filter accepts no request, and calls no token invalid.
#[forms::each]
fn rfc8725_s3_3_a_new_gateway_without_keys_fails_closed_and_recovers() {
    let mut pair = OwnPair::start(&[]);
    let good = pair.token();
    pair.pair.stop_token_service();
    pair.pair.restart_envoy().unwrap();
    let reply = call(&pair.pair.api_url(), &good);
    reply.assert_error(503, "temporarily_unavailable");
    assert!(reply.header("retry-after").is_some());
    let failed = "from cluster token-service-keys at /auth/jwks";
    pair.pair.log().until_it_says(failed).unwrap();
    pair.pair.start_token_service().unwrap();
    until("keys arrive", || pair.call(&good) == 200);
}

/// The filter reports every problem of a wrong configuration, and Envoy does not start without the filter.
#[forms::each]
fn a_bad_configuration_keeps_envoy_from_serving() {
    let artifacts = Artifacts::find().unwrap();
    let yaml = std::fs::read_to_string(artifacts.repository.join("envoy/envoy.yaml")).unwrap();
    let broken = yaml
        .replace("\"path_prefix\": \"/api/\"", "\"path_prefix\": \"api\"")
        .replace("\"realm\": \"api\"", "\"realms\": \"api\"");
    assert_ne!(broken, yaml);
    let broken = envoy::mounted(&broken, &artifacts).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("envoy.yaml");
    std::fs::write(&path, broken).unwrap();
    let output = Command::new(&artifacts.envoy)
        .args(["--mode", "validate", "--config-path"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let log = String::from_utf8_lossy(&output.stderr);
    for problem in [
        ".path_prefix: must start with a slash",
        "realms: unknown key; did you mean realm?",
    ] {
        assert!(log.contains(problem), "{problem} is not in {log}");
    }
}

/// The entry of the access log for a request to this path.
fn entry_for(log: &str, path: &str) -> Option<Value> {
    let entries = log.lines().filter_map(|line| line.parse::<Value>().ok());
    let mut of_path = entries.filter(|entry| entry["path"] == path);
    // Requests that the gateway refuses before the filter have no token.
    of_path.find_map(|mut entry| {
        entry["token"] = entry["token"].as_str()?.parse().ok()?;
        Some(entry)
    })
}

#[forms::each]
fn the_access_log_says_who_was_let_in_and_why_others_were_not() {
    let pair = OwnPair::start(&[]);
    let good = pair.token();
    let (signed, _) = good.rsplit_once('.').unwrap();
    let claims = crate::token::claims(&good);
    let forged = format!("{signed}.{}", "A".repeat(86));
    let facts = |outcome: &str| {
        json!({
            "outcome": outcome,
            "client_id": "user-bound-demo",
            "sub": "grace@example.com",
            "jti": claims["jti"],
            "grant_id": claims["grant_id"],
        })
    };
    let reason = |outcome: &str| json!({"outcome": outcome});
    // A path that no other request has.
    let own = claims["jti"].as_str().unwrap();
    let at = |end: &str| format!("/api/{own}/{end}");
    let document = format!("/api/documents/{own}");
    for (path, token, status, expected) in [
        (at("new"), Some(&good), 404, facts("allowed")),
        (at("known"), Some(&good), 404, facts("allowed")),
        (document, Some(&good), 403, facts("scope")),
        (at("forged"), Some(&forged), 401, reason("signature")),
        (at("none"), None, 401, reason("no_token")),
        ("/healthz".to_owned(), None, 200, reason("anonymous")),
    ] {
        let authorization = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<(&str, &str)> = authorization
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        let url = format!("{}{path}?secret=of-the-query", pair.pair.api_url());
        let reply = get(&url, &headers);
        assert_eq!(reply.status, status, "{path}");
        let entry = pair.pair.log().until(&path, |log| entry_for(log, &path));
        let entry = entry.unwrap();
        assert_eq!(entry["token"], expected, "{path}");
        assert_eq!(entry["status"], status, "{path}");
    }
    assert!(!pair.pair.end().contains("of-the-query"));
}

/// RFC 9728: clients that know only the API find the authorization servers. The list does not contain the legacy host,
/// because it has no metadata (RFC 8414).
#[forms::each]
fn rfc9728_s3_the_metadata_of_the_api_is_there_for_get_and_head() {
    let resource =
        r#""realm": "api", "protected_resource": {"resource": "https://api.example.com/v1"}"#;
    let pair = OwnPair::with_gateway(&[(r#""realm": "api""#, resource)]);
    let url = |end| {
        let api = pair.pair.api_url();
        format!("{api}/.well-known/oauth-protected-resource/v1{end}")
    };
    for end in ["", "/"] {
        let reply = get(&url(end), &[]);
        assert_eq!(reply.status, 200);
        let servers = json!([pair.pair.lobby_url(), pair.pair.lobby_ea_url()]);
        assert_eq!(reply.json()["authorization_servers"], servers);
        let head = send("HEAD", &url(end), &[], ());
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        for name in ["content-type", "content-length", "cache-control"] {
            assert_eq!(head.header(name), reply.header(name), "{name}");
        }
    }
    let refusal = get(&format!("{}/api/projects", pair.pair.api_url()), &[]);
    let challenge = refusal.header("www-authenticate").unwrap();
    let pointer =
        r#"resource_metadata="https://api.example.com/.well-known/oauth-protected-resource/v1""#;
    assert!(challenge.contains(pointer), "{challenge}");
}

/// In WebAssembly, Envoy verifies the signatures that it supports, in a fraction of the time.
#[forms::each]
fn envoy_checks_the_signatures_that_it_can() {
    for algorithm in ["ES256", "RS256"] {
        let pair = OwnPair::start(&[("TOKEN_SERVICE__SIGNING__ALGORITHM", algorithm)]);
        if pair.pair.artifacts().form == Form::Wasm {
            let admin = format!("http://127.0.0.1:{}", pair.pair.ports().envoy_admin);
            let stats = get(&format!("{admin}/stats?filter=host_verifies"), &[]).body;
            for offered in ["rs256", "rs384", "rs512", "es256", "es384"] {
                let line = format!("token_filter.host_verifies_{offered}: 1");
                assert!(stats.contains(&line), "{line} is not in {stats:?}");
            }
        }

        let (good, other) = (pair.token(), pair.token());
        assert_eq!(pair.call(&good), 200, "{algorithm}");
        let (signed, own) = other.rsplit_once('.').unwrap();
        let (_, of_another) = good.rsplit_once('.').unwrap();
        let zeros = "A".repeat(own.len());
        for signature in [of_another, &zeros, ""] {
            let forged = format!("{signed}.{signature}");
            assert_eq!(pair.call(&forged), 401, "{algorithm} {signature}");
        }
        assert_eq!(pair.call(&other), 200, "{algorithm}");
    }
}
