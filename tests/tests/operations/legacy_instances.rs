//! Hosts of the legacy flow, registered while the service runs.

use serde_json::json;

use crate::support::{Instance, LEGACY, OwnPair, Reply, get};

fn status(pair: &OwnPair, host: &str) -> Reply {
    get(
        &format!("{}/OAuthStatus", pair.pair.legacy_url()),
        &[("host", host)],
    )
}

#[test]
fn a_host_is_registered_disabled_and_removed() {
    let pair = OwnPair::start(&[]);
    let host = "us3.legacy.example";
    assert_eq!(status(&pair, host).status, 404);
    let put = format!("legacy-instance put {host} --auth-server sso-us3.legacy.example");
    for (command, enabled) in [(put.clone(), true), (format!("{put} --disable"), false)] {
        pair.done(&command);
        let expected = json!({"uri": "sso-us3.legacy.example", "enabled": enabled});
        assert_eq!(status(&pair, host).json(), expected);
    }
    let listed = pair.done("legacy-instance list");
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let remove = format!("legacy-instance remove {host}");
    pair.done(&remove);
    assert_eq!(status(&pair, host).status, 404);
    pair.failed(&remove);
    let long = format!("{}.legacy.example", "x".repeat(60));
    for (host, problem) in [
        (long.as_str(), "legacy_hostname_max is 24"),
        ("Upper.Example", "hostname: expected a host name"),
    ] {
        let refused = pair.failed(&format!(
            "legacy-instance put {host} --auth-server a.example"
        ));
        assert!(refused.contains(problem), "{refused}");
    }
}

/// protocol.md §7.2: the code and the refresh token of a disabled instance are not invalid, its host is disabled.
#[test]
fn a_disabled_host_beside_an_enabled_one_says_that_it_is_disabled() {
    let server = "sso-us1.legacy.example";
    let host = "us3.legacy.example";
    let pair = OwnPair::start(&[]);
    let put = format!("legacy-instance put {host} --auth-server {server}");
    pair.done(&put);
    let instance = Instance::at(&pair.pair, host, server);
    let tokens = instance.exchange(&LEGACY, &instance.code(&LEGACY));
    let refresh_token = tokens.text("refresh_token");
    let (first, second) = (instance.code(&LEGACY), instance.code(&LEGACY));
    let exchange = |code: &str| instance.exchange(&LEGACY, code);
    let refresh = || instance.refresh(&LEGACY, &refresh_token);
    pair.done(&format!("{put} --disable"));
    for reply in [exchange(&first), exchange(&first), refresh()] {
        let description = reply.assert_error(400, "invalid_request");
        assert_eq!(
            description,
            "OAuth2 authentication is disabled on this host"
        );
    }
    exchange("x").assert_error(400, "invalid_grant");
    // The code was not redeemed.
    pair.done(&put);
    for reply in [exchange(&first), exchange(&second), refresh()] {
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}
