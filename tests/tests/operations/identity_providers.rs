//! Identity providers that answer and that do not: the start, `check`, and the metrics. The one that answers is the token service
//! of the other tests.

use tests::{Artifacts, free_port};

use crate::api::until;
use crate::support::{OwnPair, get, lobby};

fn entry(id: &str, issuer: &str) -> String {
    format!(
        "\n[[identity_providers]]\nid = \"{id}\"\nissuer = \"{issuer}\"\nalgorithms = [\"EdDSA\"]\n"
    )
}

#[test]
fn a_provider_that_is_down_stops_no_start_and_is_told() {
    let repository = Artifacts::find().unwrap().repository;
    let key = repository.join("demo/key-demo.key.pem");
    let client = format!("client_id = \"gatepass\"\nclient_key_file = {key:?}\n");
    let up = entry("up", &lobby()) + &client;
    let nobody = free_port().unwrap();
    let down = entry("down", &format!("http://127.0.0.1:{nobody}"));

    let pair = OwnPair::with_configuration(&format!("{up}{down}"), &[]);
    let metrics = || get(&format!("{}/metrics", pair.pair.internal_url()), &[]).body;
    let count = |provider: &str, request: &str, outcome: &str| -> u64 {
        let series = format!(
            "token_service_identity_provider_requests_total{{provider=\"{provider}\",request=\"{request}\",outcome=\"{outcome}\"}} "
        );
        let metrics = metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
        value
            .unwrap_or_else(|| panic!("{series} in {metrics}"))
            .parse()
            .unwrap()
    };
    until("keys are fetched", || count("up", "keys", "ok") >= 1);
    until("failures are counted", || {
        count("down", "metadata", "no_answer") > 1
    });
    assert!(count("up", "metadata", "ok") >= 1);
    assert_eq!(count("up", "token", "ok") + count("down", "keys", "ok"), 0);
    let age = "\ntoken_service_identity_provider_keys_age_seconds{provider=";
    let metrics = metrics();
    assert!(metrics.contains(&format!("{age}\"up\"}}")), "{metrics}");
    assert!(!metrics.contains(&format!("{age}\"down\"}}")), "{metrics}");

    let check = |name: &str, text: &str, flag: &str| {
        let config = pair.write(name, text);
        pair.run(&format!("check {flag}--config {config}"))
    };
    let issuer = "http://127.0.0.1:8081";
    let found = check("up.toml", &up, "").done();
    for line in [
        "identity provider up: usable keys: ",
        &format!(
            "identity provider up: people sign in at {}/auth/authorize",
            lobby()
        ),
        &format!(
            "identity provider up: codes are redeemed at {}/auth/token",
            lobby()
        ),
        &format!(
            "identity provider up: redirect URI to register at the provider: {issuer}/auth/provider/up\n"
        ),
        &format!(
            "identity provider up: back-channel logout URI to register at the provider: {issuer}/auth/provider/up/logout\n"
        ),
        "identity provider up: public key to register at the provider: {\"kid\":\"",
    ] {
        assert!(found.contains(line), "{line} in {found}");
    }
    let both = format!("{up}{down}");
    let failed = check("both.toml", &both, "");
    for expected in [
        "identity provider down: does not answer usably: metadata: GET http://127.0.0.1:",
        "\nIdentity providers that failed: 1. Otherwise no problem",
    ] {
        assert!(failed.output.contains(expected), "{}", failed.output);
    }
    assert_eq!(failed.code, 1);
    let offline = check("both.toml", &both, "--offline ").done();
    assert!(
        !offline.contains("usable") && offline.contains("redirect URI"),
        "{offline}"
    );

    let log = pair.pair.end();
    let told = log
        .lines()
        .filter(|line| line.contains("identity provider unavailable") && line.contains("down"));
    assert!((1..=2).contains(&told.count()), "each reason once: {log}");
}

/// The library would write each byte of a request, with client secrets and codes.
#[test]
fn the_log_has_no_bytes_of_requests_at_any_level() {
    let pair = OwnPair::start(&[
        ("TOKEN_SERVICE_LOG", "trace"),
        ("TOKEN_SERVICE__IDENTITY_PROVIDERS__0__ID", "up"),
        ("TOKEN_SERVICE__IDENTITY_PROVIDERS__0__ISSUER", &lobby()),
        ("TOKEN_SERVICE__IDENTITY_PROVIDERS__0__ALGORITHMS", "EdDSA"),
    ]);
    let url = format!("{}/metrics", pair.pair.internal_url());
    let age = "token_service_identity_provider_keys_age_seconds{";
    until("keys are fetched", || get(&url, &[]).body.contains(age));
    let log = pair.pair.end();
    assert!(log.contains("TRACE ureq"), "the library writes its steps");
    assert!(!log.contains("ureq_proto::util"));
}
