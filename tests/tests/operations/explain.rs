//! `explain`: the reasons behind errors such as "invalid_grant".

use serde_json::json;
use tests::SigningKey;
use tests::proofs::ProofKey;

use crate::client_assertion::Keyed;
use crate::support::{
    Assertion, Instance, LEGACY, NON_INTERACTIVE, Outcome, OwnPair, USER_BOUND, WEB, now,
};

fn explain(pair: &OwnPair, token: &str) -> Outcome {
    pair.operate(&["explain", "-"], token)
}

#[test]
fn what_was_pasted_is_recognised() {
    let pair = OwnPair::start(&[]);
    let header = format!("bearer {}", pair.token());
    let explained = pair.operate(&["explain", &header], "").done();
    assert!(explained.contains("This is: access token"), "{explained}");
    assert!(explained.contains("grace@example.com"), "{explained}");
    assert!(
        !explained.contains("null"),
        "absent members are absent: {explained}"
    );
    let nonsense = pair.run("explain abc").output;
    assert!(nonsense.contains("FAIL  structure"), "{nonsense}");
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
    let text = explain(&pair, &assertion).output;
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
    for kind in ["client", "user"] {
        let refused = pair.failed(&format!("{kind} show {nobody}"));
        assert_eq!(hidden(&refused), None, "{refused:?}");
    }
    let name = "Site\u{1b}[2J\u{202e}Office";
    pair.run(&format!(
        "client add steering --type installed --name {name}"
    ));
    let listed = pair.done("client list");
    assert_eq!(hidden(&listed), None, "{listed:?}");
}

#[test]
fn an_assertion_is_explained_check_by_check_and_not_used_up() {
    let pair = OwnPair::start(&[]);
    let good = Assertion::of("ada@example.com");
    let explained = explain(&pair, &good.sign()).done();
    assert!(explained.contains("This is: user assertion"), "{explained}");
    NON_INTERACTIVE
        .assert(&pair.lobby(), &good.sign(), &[])
        .done();
    let mut bad = good
        .clone()
        .with("aud", json!("https://elsewhere.example/"))
        .with("exp", json!(1))
        .with("sub", json!("nobody@example.com"));
    bad.header["kid"] = json!("demo-2021");
    let explained = explain(&pair, &bad.sign());
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

/// Explains a token: these checks fail. A failed check is an exit code.
#[track_caller]
fn fails(pair: &OwnPair, token: &str, checks: &[&str]) -> String {
    let Outcome { code, output, .. } = explain(pair, token);
    let reasons = output
        .lines()
        .filter_map(|line| line.strip_prefix("FAIL  "));
    let failed: Vec<&str> = reasons
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    assert_eq!(failed, checks, "{output}");
    assert_eq!(code, i32::from(!checks.is_empty()), "{output}");
    output
}

/// The verdict about a refresh token equals that of the token endpoint. After an operator's change, only the cause is
/// marked as failed.
#[test]
fn refresh_tokens_of_both_flows_are_refused_for_one_cause() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.lobby();
    let current = WEB.grant(&lobby);
    let current = current.text("refresh_token");
    let us1 = Instance::of(&pair.pair);
    let tokens = us1.exchange(&LEGACY, &us1.code(&LEGACY));
    let (access, legacy) = (tokens.text("access_token"), tokens.text("refresh_token"));
    let legacy_refresh = |token: &str| us1.refresh(&LEGACY, token);
    let explained = explain(&pair, &legacy).done();
    assert!(
        explained.contains("This is: legacy refresh token"),
        "{explained}"
    );
    assert!(!explained.contains("null"), "{explained}");
    let reply = legacy_refresh(&legacy).done();
    // Within the grace.
    explain(&pair, &legacy).done();
    let legacy = reply.text("refresh_token");
    let made_up = format!("{}AAAA", &legacy[..38]);
    fails(&pair, &made_up, &["structure"]);
    assert_eq!(legacy_refresh(&made_up).status, 400);

    for (change, cause) in [("--disable", "user"), ("--enable", "revocation")] {
        pair.done(&format!("user update ada@example.com {change}"));
        for token in [&current, &legacy] {
            let explained = fails(&pair, token, &[cause]);
            let because = "because the user ada@example.com was disabled by administrator";
            assert!(explained.contains(because), "{explained}");
        }
    }
    assert_eq!(legacy_refresh(&legacy).status, 400);
    WEB.refresh(&lobby, &current)
        .assert_error(400, "invalid_grant");
    fails(&pair, &access, &["revocation"]);
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
        let explained = explain(&pair, &assertion.sign()).output;
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
    let lobby = pair.lobby();
    let is_let_in = |token: &str| pair.call(token) == 200;
    let tokens = WEB.grant(&lobby);
    let access = tokens.text("access_token");
    let us1 = Instance::of(&pair.pair);
    let legacy = us1
        .exchange(&LEGACY, &us1.code(&LEGACY))
        .text("access_token");
    for token in [&access, &legacy] {
        assert!(is_let_in(token));
        let explained = fails(&pair, token, &[]);
        assert!(explained.contains("This is: access token"));
        // Only the cause is marked as failed, not its consequences.
        let forged = forged(token);
        assert!(!is_let_in(&forged));
        let explained = fails(&pair, &forged, &["signature"]);
        assert!(explained.contains("This is: access token"));
    }

    // A refresh token: live, used within the grace, and of a revoked grant.
    let refresh = tokens.text("refresh_token");
    let mut next = String::new();
    for _ in ["live", "used"] {
        fails(&pair, &refresh, &[]);
        next = WEB.refresh(&lobby, &refresh).done().text("refresh_token");
    }
    let narrower = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*next),
        ("scope", "projects"),
    ];
    let last = WEB
        .post(&lobby, "/auth/token", &narrower)
        .text("refresh_token");
    let explained = fails(&pair, &next, &[]);
    assert!(explained.contains("rotation: was used before, with another scope"));
    WEB.post(&lobby, "/auth/revoke", &[("token", &last)]);
    let explained = fails(&pair, &next, &["revocation"]);
    assert!(
        explained.contains(", because of token_revoked"),
        "{explained}"
    );
    assert_eq!(WEB.refresh(&lobby, &next).status, 400);

    let ada = || Assertion::of("ada@example.com");
    let mut with_type = ada();
    with_type.header = json!({"type": "JWT", "alg": "RS256", "kid": "demo-2020"});
    let good = ada();
    // The unit tests of `protocol` compare explanation and verification of each claim.
    for (name, assertion, cause) in [
        ("good", good.clone(), None),
        ("the same again", good, Some("single use")),
        ("type for typ", with_type, Some("typ")),
        (
            "half an account",
            ada().with("user_id", json!("1")),
            Some("linked account"),
        ),
        ("nobody", ada().with("sub", json!("nobody")), Some("user")),
    ] {
        let signed = assertion.sign();
        let causes: Vec<&str> = cause.into_iter().collect();
        let explained = fails(&pair, &signed, &causes);
        let reply = NON_INTERACTIVE.assert(&lobby, &signed, &[]);
        assert_eq!(reply.status == 200, cause.is_none(), "{name}: {explained}");
        if name == "type for typ" {
            assert!(
                explained.contains("\"type\""),
                "as it was sent: {explained}"
            );
        }
    }
}

/// The same checks as at a gateway, with the default times.
#[test]
fn rfc9449_s4_3_a_proof_is_explained_with_its_token() {
    const URL: &str = "https://api.example.com/projects";
    let pair = OwnPair::start(&[]);
    let [key, other] = [(); 2].map(|()| ProofKey::new("ES256").unwrap());
    let endpoint = format!("{}/auth/token", pair.lobby());
    let fields = [
        ("grant_type", "client_credentials"),
        ("user_id", "1879048403"),
        ("user_site", "https://us1.example.com"),
    ];
    let bound = || {
        let proof = key.prove("POST", &endpoint, None).unwrap();
        USER_BOUND.proven(&pair.lobby(), &fields, &[proof]).done()
    };
    let token = bound().text("access_token");
    let explained = explain(&pair, &format!("DPoP {token}")).done();
    let needed = format!(
        "pass  key: needs the scheme DPoP and a proof of the key {}",
        key.thumbprint()
    );
    assert!(explained.contains(&needed), "{explained}");
    let with = |token: &str, proof: &str, url: &str| {
        let arguments = [
            "explain",
            "-",
            "--proof",
            proof,
            "--method",
            "GET",
            "--request-url",
            url,
        ];
        pair.operate(&arguments, token)
    };
    let good = key.prove("GET", URL, Some(&token)).unwrap();
    let explained = with(&token, &good, "https://API.example.com:443/projects?x=1").done();
    assert!(
        explained.contains("pass  proof: is of the key"),
        "{explained}"
    );
    let of_other = other.prove("GET", URL, Some(&token)).unwrap();
    let plain = pair.token();
    let again = bound().text("access_token");
    for (token, proof, url, why) in [
        (&token, &of_other, URL, "another key"),
        (&token, &good, "projects", "htu"),
        (&plain, &good, URL, "is not bound to a key"),
        (&again, &good, URL, "ath"),
    ] {
        let explained = with(token, proof, url);
        assert_eq!(explained.code, 1);
        let lines = explained.output.lines();
        let failures: Vec<&str> = lines.filter(|line| line.starts_with("FAIL")).collect();
        let [failure] = failures[..] else {
            panic!("{why}: {}", explained.output);
        };
        assert!(failure.contains(why), "{why}: {failure}");
    }
    let assertion = Assertion::of("ada@example.com").sign();
    let explained = with(&assertion, &good, URL);
    assert_eq!(explained.code, 1);
    for line in ["pass  signature", "FAIL  proof: only an access token"] {
        assert!(explained.output.contains(line), "{}", explained.output);
    }
}

/// The verdict of `explain` is that of the token endpoint, with the one cause, and uses up nothing. The unit tests of `protocol` compare
/// explanation and verification of each claim.
#[test]
fn rfc7523_s3_a_client_assertion_is_explained_check_by_check() {
    let keyed = Keyed::start();
    let stranger = SigningKey::new("EdDSA").unwrap();
    let good = || keyed.assertion();
    let issuer = |id: &str| good().with("iss", json!(id));
    let used = good();
    for (assertion, key, cause) in [
        (used.clone(), &keyed.key, None),
        (used, &keyed.key, Some("single use")),
        (good(), &stranger, Some("signature")),
        (issuer("nobody"), &keyed.key, Some("client")),
        (issuer(USER_BOUND.id), &keyed.key, Some("client")),
        (good().with("aud", json!("x")), &keyed.key, Some("aud")),
    ] {
        let signed = key.sign(&assertion.header, &assertion.body).unwrap();
        let causes: Vec<&str> = cause.into_iter().collect();
        let output = fails(keyed.pair, &signed, &causes);
        assert!(output.contains("This is: client assertion"), "{output}");
        let signature = signed.rsplit('.').next().unwrap();
        assert!(!output.contains(signature), "{output}");
        let status = keyed.token(&signed).status;
        assert_eq!(status == 200, cause.is_none(), "{output}");
    }
}
