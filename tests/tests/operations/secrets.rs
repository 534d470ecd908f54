//! No log contains a secret, at any level.

use crate::support::{Assertion, Browser, NON_INTERACTIVE, OwnPair, Pkce, USER_BOUND, WEB};

#[test]
fn rfc9700_s4_3_no_log_has_a_secret() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE_LOG", "trace")]);
    let lobby = pair.pair.lobby_url();
    let browser = Browser::new(&lobby);
    let pkce = Pkce::of(&"v".repeat(50));
    let code = browser.code_for(&WEB, Some(&pkce));
    let first = WEB.exchange(&lobby, &code, Some(&pkce));
    let refreshed = WEB.refresh(&lobby, &first.text("refresh_token"));
    let assertion = Assertion::of("ada@example.com").sign();
    let by_assertion = NON_INTERACTIVE.assert(&lobby, &assertion, &[]);
    let bound = USER_BOUND.token(&lobby, &[("grant_type", "client_credentials")]);
    pair.call(&first.text("access_token"));
    WEB.exchange(&lobby, "a-wrong-code-of-somebody", None);
    WEB.refresh(&lobby, &first.text("refresh_token"));
    WEB.post(
        &lobby,
        "/auth/revoke",
        &[("token", &refreshed.text("refresh_token"))],
    );
    let rotated = pair.done("client rotate-secret web-demo");
    let generated = rotated.lines().last().unwrap().to_owned();
    pair.run(&format!("explain {}", first.text("access_token")));
    let add = ["user", "add", "x@example.com", "--password-file", "-"];
    pair.operate(&add, "the-password-of-x").done();
    let admin_token = pair.admin_token();
    assert_eq!((by_assertion.status, bound.status), (200, 400));
    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    let logs = pair.pair.end();
    assert!(
        logs.contains("TRACE") || logs.contains("DEBUG"),
        "the log is at trace level"
    );
    for (what, secret) in [
        ("a password", "demo-password-of-ada".to_owned()),
        ("a new password", "the-password-of-x".to_owned()),
        ("a client secret", WEB.secret.unwrap().to_owned()),
        (
            "an encoded client secret",
            WEB.basic().replace("Basic ", ""),
        ),
        ("a generated secret", generated),
        ("a code", code),
        ("a wrong code", "a-wrong-code-of-somebody".to_owned()),
        ("a verifier", pkce.verifier.clone()),
        ("an access token", signature(&first.text("access_token"))),
        ("a refresh token", signature(&first.text("refresh_token"))),
        ("an assertion", signature(&assertion)),
        ("the admin token", admin_token),
    ] {
        assert!(!logs.contains(&secret), "{what} is in the log");
    }
}
