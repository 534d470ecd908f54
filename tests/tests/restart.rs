//! Refresh tokens, used `jti` values and used codes survive a restart, and also a crash.

use crate::support::{Assertion, Browser, NON_INTERACTIVE, OwnPair, Pkce, Reply, WEB};

fn jwt_bearer(lobby: &str, assertion: &str) -> Reply {
    NON_INTERACTIVE.token(
        lobby,
        &[
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", assertion),
        ],
    )
}

fn survives(restart: impl Fn(&mut OwnPair)) {
    let mut pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let used_code = Browser::new(&lobby).code_for(&WEB, None);
    let tokens = WEB.exchange(&lobby, &used_code, None);
    let refresh_token = tokens.text("refresh_token");
    let assertion = Assertion::of("ada@example.com").sign();
    assert_eq!(jwt_bearer(&lobby, &assertion).status, 200);
    let pkce = Pkce::of(&"p".repeat(64));
    let fresh_code = Browser::new(&lobby).code_for(&WEB, Some(&pkce));

    restart(&mut pair);

    jwt_bearer(&lobby, &assertion).assert_error(400, "invalid_grant");
    let refreshed = WEB.refresh(&lobby, &refresh_token);
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
    let bearer = format!("Bearer {}", tokens.text("access_token"));
    let api = crate::support::get(
        &format!("{}/api/projects", pair.pair.api_url()),
        &[("authorization", &bearer)],
    );
    assert_eq!(api.status, 200, "the keys are the same");
    assert_eq!(WEB.exchange(&lobby, &fresh_code, Some(&pkce)).status, 200);
    WEB.exchange(&lobby, &used_code, None)
        .assert_error(400, "invalid_grant");
    WEB.refresh(&lobby, &refreshed.text("refresh_token"))
        .assert_error(400, "invalid_grant");
}

#[test]
fn nothing_is_lost_in_a_restart() {
    survives(|pair| {
        pair.pair.stop_token_service();
        pair.pair.start_token_service().unwrap();
    });
}

#[test]
fn nothing_is_lost_in_a_crash() {
    survives(|pair| {
        pair.pair.kill_token_service().unwrap();
        pair.pair.start_token_service().unwrap();
    });
}

/// A restart with the same registrations file keeps operators' changes, and the audit log names the file only for
/// changes by the file.
#[test]
fn a_restart_does_not_undo_what_commands_did() {
    let mut pair = OwnPair::start(&[]);
    let secret = pair
        .operate(&["client", "rotate-secret", WEB.id], "")
        .done();
    pair.operate(&["client", "rotate-secret", WEB.id, "--end-old"], "")
        .done();
    pair.operate(&["user", "update", "ada@example.com", "--disable"], "")
        .done();
    pair.operate(&["client", "remove", NON_INTERACTIVE.id], "")
        .done();
    pair.pair.stop_token_service();
    pair.pair.start_token_service().unwrap();
    let client = pair.operate(&["client", "show", WEB.id], "").done();
    assert!(client.contains(WEB.id), "{client}");
    assert!(secret.contains("tscs_"), "{secret}");
    let lobby = pair.pair.lobby_url();
    WEB.refresh(&lobby, "nothing")
        .assert_error(401, "invalid_client");
    let user = pair
        .operate(&["user", "show", "ada@example.com", "--json"], "")
        .done();
    assert!(user.contains("\"enabled\": false"), "{user}");
    pair.operate(&["client", "show", NON_INTERACTIVE.id], "")
        .failed(1);
    let entries = pair
        .operate(&["audit", "--user", "ada@example.com"], "")
        .done();
    assert_eq!(entries.matches("by=file:").count(), 1, "{entries}");

    let demo = pair
        .pair
        .artifacts()
        .repository
        .join("demo/registrations.toml");
    let demo = demo.to_str().unwrap();
    let drift = pair
        .operate(&["apply", demo, "--dry-run", "--exit-code"], "")
        .failed(2);
    assert!(drift.is_empty(), "{drift}");
    let kept = pair.operate(&["apply", demo], "").done();
    for line in [
        "! user ada@example.com: enabled stays \"false\"; the file says \"true\"".to_owned(),
        format!("! client {}: stays removed", NON_INTERACTIVE.id),
        format!(
            "! client {}: client_secret stays; the file has another",
            WEB.id
        ),
    ] {
        assert!(kept.contains(&line), "{kept}");
    }
    pair.operate(&["apply", demo, "--overwrite"], "").done();
    pair.operate(&["apply", demo, "--dry-run", "--exit-code"], "")
        .done();
    WEB.refresh(&lobby, "nothing")
        .assert_error(400, "invalid_grant");
}
