//! No log contains a secret, at any level.

use crate::api::until;
use crate::support::{
    Assertion, Browser, NON_INTERACTIVE, OwnPair, Pkce, USER_BOUND, WEB, basic, form_body, post,
};

/// Requests of a client whose configuration has the Client ID and the secret in each other's place.
fn swap_credentials(lobby: &str, client_id: &str, secret: &str) {
    let header = [("authorization", basic(secret, client_id))];
    let form = form_body(&[("grant_type", "client_credentials"), ("token", "x")]);
    for path in [
        "/auth/token",
        "/auth/introspect",
        "/auth/revoke",
        "/auth/par",
    ] {
        let reply = post(&format!("{lobby}{path}"), &header, &form);
        reply.assert_error(401, "invalid_client");
    }
    let form = form_body(&[("client_id", secret), ("client_secret", client_id)]);
    let reply = post(&format!("{lobby}/auth/token"), &[], &form);
    reply.assert_error(401, "invalid_client");
}

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
    for secret in [WEB.secret.unwrap(), &generated] {
        swap_credentials(&lobby, WEB.id, secret);
    }
    pair.run(&format!("explain {}", first.text("access_token")));
    let add = ["user", "add", "x@example.com", "--password-file", "-"];
    pair.operate(&add, "the-password-of-x").done();
    let admin_token = pair.admin_token();
    assert_eq!((by_assertion.status, bound.status), (200, 400));
    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    let refused = || pair.done("audit --action token_request_refused --limit 500");
    until("the audit log has the swapped credentials", || {
        refused().matches("tscs").count() == 5
    });
    let audit_log = refused();
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
        assert!(!audit_log.contains(&secret), "{what} is in the audit log");
    }
    let found = audit_log.matches("claimed client: tscs... (length 48)");
    assert_eq!(
        found.count(),
        5,
        "an operator finds the client: {audit_log}"
    );
}
