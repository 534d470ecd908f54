//! Hosts of the legacy flow, registered while the service runs.

use serde_json::json;

use crate::support::{OwnPair, get};

fn status(pair: &OwnPair, host: &str) -> (u16, String) {
    let url = format!("{}/OAuthStatus", pair.pair.legacy_url());
    let reply = get(&url, &[("host", host)]);
    (reply.status, reply.body)
}

#[test]
fn a_host_is_registered_disabled_and_removed() {
    let pair = OwnPair::start(&[]);
    assert_eq!(status(&pair, "us3.legacy.example").0, 404);
    let put = [
        "legacy-instance",
        "put",
        "us3.legacy.example",
        "--auth-server",
        "sso-us3.legacy.example",
    ];
    pair.operate(&put, "").done();
    let (code, body) = status(&pair, "us3.legacy.example");
    assert_eq!(code, 200);
    let shown: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        shown,
        json!({"uri": "sso-us3.legacy.example", "enabled": true})
    );
    pair.operate(&[&put[..], &["--disable"]].concat(), "")
        .done();
    assert!(
        status(&pair, "us3.legacy.example")
            .1
            .contains("\"enabled\":false")
    );
    let listed = pair.operate(&["legacy-instance", "list"], "").done();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    pair.operate(&["legacy-instance", "remove", "us3.legacy.example"], "")
        .done();
    assert_eq!(status(&pair, "us3.legacy.example").0, 404);
    pair.operate(&["legacy-instance", "remove", "us3.legacy.example"], "")
        .failed(1);
    let long = format!("{}.legacy.example", "x".repeat(60));
    let misfit = [
        "legacy-instance",
        "put",
        &long,
        "--auth-server",
        "a.example",
    ];
    let misfit = pair.operate(&misfit, "").failed(1);
    assert!(misfit.contains("481 characters"), "{misfit}");
    let wrong = pair.operate(
        &[
            "legacy-instance",
            "put",
            "Upper.Example",
            "--auth-server",
            "a",
        ],
        "",
    );
    assert!(wrong.failed(1).contains("hostname: expected a host name"));
}
