//! `explain`: the reasons behind errors such as "invalid_grant".

use serde_json::json;

use ureq::http::Request;

use crate::support::{
    Assertion, Browser, NON_INTERACTIVE, OwnPair, Reply, WEB, agent, form_body, get, now, send,
};

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

/// A token by an attacker, which an operator shows on a terminal.
#[test]
fn claims_steer_no_terminal() {
    let pair = OwnPair::start(&[]);
    let steering = "\u{1b}[2J\u{9b}31m\u{7}\u{7f}\u{202e}\u{2066}\n pass  signature: forged";
    let mut assertion = Assertion::of("ada@example.com");
    for claim in ["aud", "sub", "iss", "jti", "user_site", "note"] {
        assertion = assertion.with(claim, json!(steering));
    }
    assertion.header["kid"] = json!(steering);
    assertion.header["typ"] = json!(steering);
    let assertion = assertion.sign();
    let hidden = |text: &str| {
        let steers = |character: char| {
            (character.is_control() && character != '\n') || "\u{202e}\u{2066}".contains(character)
        };
        text.find(steers)
    };
    let text = pair.operate(&["explain", "-"], &assertion).output;
    assert_eq!(hidden(&text), None, "{text:?}");
    assert!(!text.contains("\n pass  signature"), "{text}");
    assert!(
        text.contains("\\u001b[2J"),
        "claims are shown as JSON: {text}"
    );
    let json = pair.operate(&["explain", "-", "--json"], &assertion).output;
    assert_eq!(hidden(&json), None, "{json:?}");
    let explained: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(explained["claims"]["note"], steering);
    let nobody = "nobody\u{1b}[2J\u{202e}";
    for arguments in [["client", "show", nobody], ["user", "show", nobody]] {
        let refused = pair.operate(&arguments, "");
        assert_ne!(refused.code, 0);
        assert_eq!(hidden(&refused.errors), None, "{:?}", refused.errors);
    }
    let name = "Site\u{1b}[2J\u{202e}Office";
    let created = pair.operate(
        &[
            "client",
            "add",
            "steering",
            "--type",
            "installed",
            "--name",
            name,
        ],
        "",
    );
    for arguments in [["client", "list"], ["client", "show"]] {
        let listed = pair.operate(&arguments, "");
        assert_eq!(
            hidden(&listed.output),
            None,
            "{:?} {:?}",
            listed.output,
            created
        );
    }
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

/// A legacy access token and refresh token of this pair.
pub(super) fn legacy_tokens(pair: &OwnPair) -> (String, String) {
    let address = pair.pair.legacy_url();
    let browser = Browser::on_host(&address, "us1.legacy.example");
    let callback = "http://localhost:8765/callback";
    let query = [
        ("Action", "StartOAuth"),
        ("client_id", "legacy-demo"),
        ("redirect_uri", callback),
    ];
    let page = browser.open(&format!("/Logon?{}", form_body(&query)));
    let done = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
    let answer = crate::support::answer(&done, callback);
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", "legacy-demo"),
        ("code", answer[0].1.as_str()),
        ("redirect_uri", callback),
    ];
    let request = Request::post(format!("{address}/as/token.oauth2"))
        .header("host", "sso-us1.legacy.example")
        .header("content-type", "application/x-www-form-urlencoded");
    let reply = send(&agent(), request.body(form_body(&fields)).unwrap());
    (reply.text("access_token"), reply.text("refresh_token"))
}

/// The legacy token endpoint's answer to a refresh.
pub(super) fn legacy_refresh(pair: &OwnPair, token: &str) -> Reply {
    let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
    let request = Request::post(format!("{}/as/token.oauth2", pair.pair.legacy_url()))
        .header("host", "sso-us1.legacy.example")
        .header("content-type", "application/x-www-form-urlencoded");
    send(&agent(), request.body(form_body(&fields)).unwrap())
}

/// The names of the checks that failed.
fn failures(explained: &str) -> Vec<&str> {
    let lines = explained.lines();
    let reasons = lines.filter_map(|line| line.strip_prefix("FAIL  "));
    reasons
        .filter_map(|reason| Some(reason.split_once(':')?.0))
        .collect()
}

/// The verdict about a refresh token equals that of the token endpoint. After an operator's change, only the cause is
/// marked as failed.
#[test]
fn refresh_tokens_of_both_flows_are_refused_for_one_cause() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let current = WEB.exchange(&lobby, &Browser::new(&lobby).code_for(&WEB, None), None);
    let current = current.text("refresh_token");
    let (access, legacy) = legacy_tokens(&pair);
    let explained = pair.operate(&["explain", "-"], &legacy).done();
    assert!(
        explained.contains("This is: legacy refresh token"),
        "{explained}"
    );
    assert!(!explained.contains("null"), "{explained}");
    let reply = legacy_refresh(&pair, &legacy);
    assert_eq!(reply.status, 200, "{}", reply.body);
    // Within the grace.
    pair.operate(&["explain", "-"], &legacy).done();
    let legacy = reply.text("refresh_token");
    let made_up = format!("{}AAAA", &legacy[..38]);
    let explained = pair.operate(&["explain", "-"], &made_up);
    assert_eq!(
        (explained.code, legacy_refresh(&pair, &made_up).status),
        (1, 400)
    );
    assert_eq!(failures(&explained.output), ["structure"]);

    pair.operate(&["user", "update", "ada@example.com", "--disable"], "")
        .done();
    for token in [&current, &legacy] {
        let explained = pair.operate(&["explain", "-"], token);
        assert_eq!(explained.code, 1);
        assert_eq!(
            failures(&explained.output),
            ["user"],
            "{}",
            explained.output
        );
    }
    pair.operate(&["user", "update", "ada@example.com", "--enable"], "")
        .done();
    for token in [&current, &legacy] {
        let explained = pair.operate(&["explain", "-"], token);
        assert_eq!(
            failures(&explained.output),
            ["revocation"],
            "{}",
            explained.output
        );
    }
    assert_eq!(legacy_refresh(&pair, &legacy).status, 400);
    WEB.refresh(&lobby, &current)
        .assert_error(400, "invalid_grant");
    let explained = pair.operate(&["explain", "-"], &access);
    assert_eq!(
        failures(&explained.output),
        ["revocation"],
        "{}",
        explained.output
    );
}

/// All times are in the format of RFC 3339, except in the claims, which stay unchanged.
#[test]
fn explain_writes_times_in_one_format() {
    let pair = OwnPair::start(&[]);
    let good = Assertion::of("ada@example.com");
    for assertion in [
        good.clone(),
        good.clone().with("exp", json!(now() - 60)),
        good.clone().with("exp", json!(now() + 864_000)),
        good.with("iat", json!(now() + 600)),
    ] {
        let explained = pair.operate(&["explain", "-"], &assertion.sign()).output;
        let (_, checks) = explained.split_once("\n\n").unwrap();
        let checks = checks
            .lines()
            .filter(|line| line.contains("  exp: ") || line.contains("  iat: "));
        for line in checks {
            let times = line.matches("T").count();
            assert!(times > 0 && line.contains("Z"), "{line}");
            let digits = line.split(|character: char| !character.is_ascii_digit());
            assert!(digits.clone().all(|digits| digits.len() < 10), "{line}");
        }
    }
}

/// The token with another signature of the same length.
fn forged(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { "B" } else { "A" };
    format!("{signed}.{first}{}", &signature[1..])
}

/// The verdict equals the decision of the API or the token endpoint about the same token.
#[test]
fn the_verdict_is_that_of_the_api_and_of_the_token_endpoint() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let explain = |token: &str| pair.operate(&["explain", "-"], token);
    let is_let_in = |token: &str| {
        let url = format!("{}/api/projects", pair.pair.api_url());
        get(&url, &[("authorization", &format!("Bearer {token}"))]).status == 200
    };
    let tokens = WEB.exchange(&lobby, &Browser::new(&lobby).code_for(&WEB, None), None);
    let access = tokens.text("access_token");
    let (legacy, _) = legacy_tokens(&pair);
    for (token, kind, cause) in [
        (access.clone(), "access token", None),
        (forged(&access), "access token", Some("signature")),
        (legacy.clone(), "access token", None),
        (forged(&legacy), "access token", Some("signature")),
    ] {
        let explained = explain(&token);
        assert_eq!(
            explained.code == 0,
            is_let_in(&token),
            "{}",
            explained.output
        );
        assert_eq!(explained.code == 0, cause.is_none(), "{}", explained.output);
        assert!(explained.output.contains(&format!("This is: {kind}")));
        // Only the cause is marked as failed, not its consequences.
        let failures: Vec<&str> = explained
            .output
            .lines()
            .filter(|line| line.contains("FAIL"))
            .collect();
        assert_eq!(failures.len(), usize::from(cause.is_some()), "{failures:?}");
        assert!(
            failures
                .iter()
                .all(|line| line.contains(cause.unwrap_or_default()))
        );
    }

    // A refresh token: live, used within the grace, and of a revoked grant.
    let refresh = tokens.text("refresh_token");
    let mut next = String::new();
    for _ in ["live", "used"] {
        let explained = explain(&refresh);
        let reply = WEB.refresh(&lobby, &refresh);
        assert_eq!(
            (explained.code, reply.status),
            (0, 200),
            "{}",
            explained.output
        );
        next = reply.text("refresh_token");
    }
    WEB.post(&lobby, "/auth/revoke", &[("token", &next)]);
    let explained = explain(&next);
    assert_eq!(
        (explained.code, WEB.refresh(&lobby, &next).status),
        (1, 400)
    );
    assert!(
        explained.output.contains("FAIL  revocation"),
        "{}",
        explained.output
    );

    let ada = || Assertion::of("ada@example.com");
    let mut with_type = ada();
    with_type.header = json!({"type": "JWT", "alg": "RS256", "kid": "demo-2020"});
    let mut null_kid = ada();
    null_kid.header["kid"] = json!(null);
    let good = ada();
    for (name, assertion, cause) in [
        ("good", good.clone(), None),
        ("the same again", good, Some("single use")),
        (
            "nulls",
            ada()
                .with("user_id", json!(null))
                .with("user_site", json!(null)),
            None,
        ),
        ("type for typ", with_type, Some("typ")),
        ("null kid", null_kid, Some("structure")),
        ("expired", ada().with("exp", json!(now() - 60)), Some("exp")),
        ("wrong audience", ada().with("aud", json!("x")), Some("aud")),
        (
            "wrong type",
            ada().with("user_id", json!(7)),
            Some("user_id"),
        ),
        (
            "half an account",
            ada().with("user_id", json!("1")),
            Some("linked account"),
        ),
        ("nobody", ada().with("sub", json!("nobody")), Some("user")),
    ] {
        let signed = assertion.sign();
        let explained = explain(&signed);
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", signed.as_str()),
        ];
        let reply = NON_INTERACTIVE.token(&lobby, &fields);
        assert_eq!(
            explained.code == 0,
            reply.status == 200,
            "{name}: {}",
            explained.output
        );
        assert_eq!(
            explained.code == 0,
            cause.is_none(),
            "{name}: {}",
            explained.output
        );
        if let Some(cause) = cause {
            assert!(
                explained.output.contains(&format!("FAIL  {cause}")),
                "{name}: {}",
                explained.output
            );
        }
        if name == "type for typ" {
            assert!(
                explained.output.contains("\"type\""),
                "as it was sent: {}",
                explained.output
            );
        }
    }
}
