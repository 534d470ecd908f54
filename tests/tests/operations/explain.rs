//! `explain`, for the person who stares at "invalid_grant".

use serde_json::json;

use crate::support::{Assertion, Browser, OwnPair, WEB};

#[test]
fn a_good_token_passes_every_check_and_a_revoked_one_says_so() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let code = Browser::new(&lobby).code_for(&WEB, None);
    let tokens = WEB.exchange(&lobby, &code, None);
    let (access, refresh) = (tokens.text("access_token"), tokens.text("refresh_token"));
    for (token, kind) in [(&access, "access token"), (&refresh, "refresh token")] {
        let explained = pair.operate(&["explain", "-"], token).done();
        assert!(
            explained.contains(&format!("This is: {kind}")),
            "{explained}"
        );
        assert!(!explained.contains("FAIL"), "{explained}");
        assert!(explained.contains("ada@example.com"), "{explained}");
    }
    let header = format!("bearer {access}");
    let explained = pair.operate(&["explain", &header], "").done();
    assert!(explained.contains("This is: access token"), "{explained}");
    assert!(
        !explained.contains("null"),
        "absent members are absent: {explained}"
    );
    WEB.post(&lobby, "/auth/revoke", &[("token", &refresh)]);
    for token in [&access, &refresh] {
        let explained = pair.operate(&["explain", token], "");
        assert_eq!(explained.code, 1);
        assert!(
            explained.output.contains("FAIL  revocation"),
            "{}",
            explained.output
        );
    }
    let (signed, signature) = access.rsplit_once('.').unwrap();
    let (first, rest) = signature.split_at(1);
    let forged = format!("{signed}.{}{rest}", if first == "A" { "B" } else { "A" });
    let forged = pair.operate(&["explain", &forged], "");
    assert!(
        forged.output.contains("FAIL  signature") && forged.output.matches("FAIL").count() == 1,
        "{}",
        forged.output
    );
    let nonsense = pair.operate(&["explain", "abc"], "");
    assert!(
        nonsense.output.contains("FAIL  structure"),
        "{}",
        nonsense.output
    );
}

#[test]
fn an_assertion_is_explained_check_by_check_and_not_used_up() {
    let pair = OwnPair::start(&[]);
    let good = Assertion::of("ada@example.com");
    let explained = pair.operate(&["explain", &good.sign()], "").done();
    assert!(explained.contains("This is: user assertion"), "{explained}");
    let reply = crate::support::NON_INTERACTIVE.token(
        &pair.pair.lobby_url(),
        &[
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", &good.sign()),
        ],
    );
    assert_eq!(reply.status, 200, "{}", reply.body);
    let mut bad = good
        .clone()
        .with("aud", json!("https://elsewhere.example/"))
        .with("exp", json!(1))
        .with("sub", json!("nobody@example.com"));
    bad.header["kid"] = json!("demo-2021");
    let explained = pair.operate(&["explain", &bad.sign()], "");
    assert_eq!(explained.code, 1);
    for line in [
        "FAIL  certificate: kid is not the alias of a certificate of this client; registered: demo-2020 (x5t",
        "FAIL  aud: Audience validation failed",
        "FAIL  exp: The assertion has expired",
        "FAIL  user: there is no enabled user \"nobody@example.com\"",
        "pass  jti",
    ] {
        assert!(
            explained.output.contains(line),
            "{line} in {}",
            explained.output
        );
    }
}
