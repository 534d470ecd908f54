//! Hosts of the legacy flow, registered while the service runs.

use serde_json::json;
use ureq::http::Request;

use crate::legacy::OPEN;
use crate::support::{Browser, OwnPair, agent, answer, form_body, get, send};

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
    assert!(misfit.contains("legacy_hostname_max is 24"), "{misfit}");
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

/// protocol.md §7.2: the code and the refresh token of a disabled instance are not invalid, its host is disabled.
#[test]
fn a_disabled_host_beside_an_enabled_one_says_that_it_is_disabled() {
    let server = "sso-us1.legacy.example";
    let host = "us3.legacy.example";
    let pair = OwnPair::start(&[]);
    let put = ["legacy-instance", "put", host, "--auth-server", server];
    pair.operate(&put, "").done();
    let address = pair.pair.legacy_url();
    let token = |fields: &[(&str, &str)]| {
        let request = Request::post(format!("{address}/as/token.oauth2"))
            .header("host", server)
            .header("content-type", "application/x-www-form-urlencoded");
        send(&agent(), request.body(form_body(fields)).unwrap())
    };
    let exchange = |code: &str| {
        token(&[
            ("grant_type", "authorization_code"),
            ("client_id", OPEN.id),
            ("code", code),
            ("redirect_uri", OPEN.redirect_uri),
        ])
    };
    let code = || {
        let browser = Browser::on_host(&address, host);
        let query = [
            ("Action", "StartOAuth"),
            ("client_id", OPEN.id),
            ("redirect_uri", OPEN.redirect_uri),
        ];
        let page = browser.open(&format!("/Logon?{}", form_body(&query)));
        let done = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
        answer(&done, OPEN.redirect_uri)[0].1.clone()
    };
    let tokens: serde_json::Value = serde_json::from_str(&exchange(&code()).body).unwrap();
    let refresh_token = tokens["refresh_token"].as_str().unwrap();
    let (first, second) = (code(), code());
    let refresh = || {
        token(&[
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token),
        ])
    };
    pair.operate(&[&put[..], &["--disable"]].concat(), "")
        .done();
    for reply in [exchange(&first), exchange(&first), refresh()] {
        let description = reply.assert_error(400, "invalid_request");
        assert_eq!(
            description,
            "OAuth2 authentication is disabled on this host"
        );
    }
    exchange("x").assert_error(400, "invalid_grant");
    // The code was not redeemed.
    pair.operate(&put, "").done();
    assert_eq!(exchange(&first).status, 200);
    assert_eq!(exchange(&second).status, 200);
    assert_eq!(refresh().status, 200);
}
