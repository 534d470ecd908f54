//! Refresh tokens, used `jti` values and used codes survive a restart, and also a crash.

use crate::support::{Assertion, Browser, NON_INTERACTIVE, OwnPair, Pkce, WEB};

fn survives(restart: impl Fn(&mut OwnPair)) {
    let mut pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let used_code = Browser::new(&lobby).code_for(&WEB, None);
    let tokens = WEB.exchange(&lobby, &used_code, None);
    let refresh_token = tokens.text("refresh_token");
    let assertion = Assertion::of("ada@example.com").sign();
    assert_eq!(NON_INTERACTIVE.assert(&lobby, &assertion, &[]).status, 200);
    let pkce = Pkce::of(&"p".repeat(64));
    let fresh_code = Browser::new(&lobby).code_for(&WEB, Some(&pkce));

    restart(&mut pair);

    NON_INTERACTIVE
        .assert(&lobby, &assertion, &[])
        .assert_error(400, "invalid_grant");
    let refreshed = WEB.refresh(&lobby, &refresh_token);
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
    let status = pair.call(&tokens.text("access_token"));
    assert_eq!(status, 200, "the keys are the same");
    assert_eq!(WEB.exchange(&lobby, &fresh_code, Some(&pkce)).status, 200);
    WEB.exchange(&lobby, &used_code, None)
        .assert_error(400, "invalid_grant");
    WEB.refresh(&lobby, &refreshed.text("refresh_token"))
        .assert_error(400, "invalid_grant");
}

#[test]
fn nothing_is_lost_in_a_restart() {
    survives(OwnPair::restart);
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
    pair.done(&format!("client rotate-secret {}", WEB.id));
    pair.done(&format!("client rotate-secret {} --end-old", WEB.id));
    pair.done("user update ada@example.com --disable");
    pair.done(&format!("client remove {}", NON_INTERACTIVE.id));
    pair.restart();
    let lobby = pair.pair.lobby_url();
    WEB.refresh(&lobby, "nothing")
        .assert_error(401, "invalid_client");
    let user = pair.done("user show ada@example.com --json");
    assert!(user.contains("\"enabled\": false"), "{user}");
    pair.failed(&format!("client show {}", NON_INTERACTIVE.id));
    let entries = pair.done("audit --user ada@example.com");
    assert_eq!(entries.matches("by=file:").count(), 1, "{entries}");

    let demo = pair.demo("registrations.toml");
    pair.run(&format!("apply {demo} --dry-run --exit-code"))
        .failed(2);
    let kept = pair.done(&format!("apply {demo}"));
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
    pair.done(&format!("apply {demo} --overwrite"));
    pair.done(&format!("apply {demo} --dry-run --exit-code"));
    WEB.refresh(&lobby, "nothing")
        .assert_error(400, "invalid_grant");
}
