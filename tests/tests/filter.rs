//! The filter's life: keys that are late, services that are down, configurations that are wrong.

use std::process::Command;

use crate::api::until;
use crate::support::{OwnPair, USER_BOUND, get};

fn api_status(pair: &OwnPair, token: &str) -> u16 {
    get(
        &format!("{}/api/projects", pair.pair.api_url()),
        &[("authorization", &format!("Bearer {token}"))],
    )
    .status
}

fn token(pair: &OwnPair) -> String {
    USER_BOUND
        .token(
            &pair.pair.lobby_url(),
            &[
                ("grant_type", "client_credentials"),
                ("user_id", "1879048402"),
                ("user_site", "https://us1.example.com"),
            ],
        )
        .text("access_token")
}

/// Issue: "stopping the token service leaves already issued tokens working at the API".
#[test]
fn issued_tokens_work_while_the_token_service_is_down() {
    let mut pair = OwnPair::start(&[]);
    let (seen, unseen) = (token(&pair), token(&pair));
    assert_eq!(api_status(&pair, &seen), 200);
    pair.pair.stop_token_service();
    assert_eq!(api_status(&pair, &seen), 200);
    assert_eq!(api_status(&pair, &unseen), 200, "the keys are known");
    let lobby = get(&format!("{}/auth/jwks", pair.pair.lobby_url()), &[]);
    lobby.assert_error(503, "temporarily_unavailable");
}

/// Checklist row 51: without keys, nobody is let in, and nobody hears that the token is bad.
#[test]
fn rfc8725_s3_3_a_new_gateway_without_keys_fails_closed_and_recovers() {
    let mut pair = OwnPair::start(&[]);
    let good = token(&pair);
    pair.pair.stop_token_service();
    pair.pair.restart_envoy().unwrap();
    let reply = get(
        &format!("{}/api/projects", pair.pair.api_url()),
        &[("authorization", &format!("Bearer {good}"))],
    );
    reply.assert_error(503, "temporarily_unavailable");
    assert!(reply.header("retry-after").is_some());
    let log = pair.pair.logs();
    assert!(
        log.contains("from cluster token-service at /auth/jwks"),
        "{log}"
    );
    pair.pair.start_token_service().unwrap();
    until("keys arrive", || api_status(&pair, &good) == 200);
}

/// A configuration that is wrong is named with every problem, and Envoy does not start without the filter.
#[test]
fn a_bad_configuration_keeps_envoy_from_serving() {
    let artifacts = tests::Artifacts::find().unwrap();
    let yaml = std::fs::read_to_string(artifacts.repository.join("envoy/envoy.yaml")).unwrap();
    let broken = yaml
        .replace("\"path_prefix\": \"/api/\"", "\"path_prefix\": \"api\"")
        .replace("\"realm\": \"api\"", "\"realms\": \"api\"")
        .replace(
            "target/wasm32-wasip1/wasm/filter.wasm",
            &artifacts.filter.display().to_string(),
        );
    assert_ne!(broken, yaml);
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
        "rules[2].path_prefix: must start with a slash",
        "realms: is not known",
    ] {
        assert!(log.contains(problem), "{problem} is not in {log}");
    }
}
