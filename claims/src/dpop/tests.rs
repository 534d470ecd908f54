use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::jws::Algorithm;
use crate::thumbprint::Thumbprint;

const NOW: u64 = 1_800_000_000;
const TOKEN: &str = "the.access.token";
const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn header() -> Value {
    json!({"typ": "dpop+jwt", "alg": "EdDSA", "jwk": {"kty": "OKP", "crv": "Ed25519", "x": X}})
}

fn claims() -> Value {
    json!({
        "jti": "one",
        "htm": "GET",
        "htu": "https://api.example.com/v1/projects",
        "iat": NOW,
        "ath": Thumbprint::of(TOKEN.as_bytes()),
    })
}

fn compact(header: &Value, claims: &Value) -> String {
    let parts = [
        header.to_string(),
        claims.to_string(),
        "signature".to_owned(),
    ];
    parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
}

fn parse(text: &str) -> Result<Proof<'_>, ProofRefusal> {
    Proof::parse(&[text.as_bytes()], &[Algorithm::EdDsa, Algorithm::Es256])
}

fn with(mut value: Value, name: &str, new: Value) -> Value {
    match new {
        Value::Null => drop(value.as_object_mut().unwrap().remove(name)),
        new => value[name] = new,
    }
    value
}

static ORIGINS: LazyLock<[PublicOrigin; 1]> =
    LazyLock::new(|| [PublicOrigin::parse("https://api.example.com/v1/").unwrap()]);
static NONCES: NonceKey = NonceKey::new([1; 32]);

fn expected() -> Expected<'static> {
    Expected {
        bound_to: None,
        access_token: Some(TOKEN),
        method: b"GET",
        target: b"/projects?page=2",
        origins: &*ORIGINS,
        now: NOW,
        window: Window {
            max_age: 60,
            skew: 10,
        },
        nonces: Nonces::Off,
    }
}

/// All checks but the signature.
fn used(claims: &Value, expected: &Expected<'_>) -> Result<ProofUse, ProofRefusal> {
    let text = compact(&header(), claims);
    let checked = parse(&text)?.check(expected);
    checked
        .map_err(|refused| refused.refusal)?
        .verify(|_, _, _| true)
}

fn check(claims: &Value, change: impl FnOnce(&mut Expected<'_>)) -> Result<u64, ProofRefusal> {
    let mut expected = expected();
    change(&mut expected);
    used(claims, &expected).map(|used| used.until)
}

#[test]
fn rfc9449_s4_3_one_proof_of_the_right_form() {
    for typ in ["DPoP+JWT", "application/dpop+jwt"] {
        let header = with(header(), "typ", json!(typ));
        assert!(parse(&compact(&header, &claims())).is_ok(), "{typ}");
    }
    let good = compact(&header(), &claims());
    assert!(parse(&good).is_ok());
    let both = [good.as_bytes(), good.as_bytes()];
    assert_eq!(Proof::parse(&[], &[]).unwrap_err(), ProofRefusal::Missing);
    assert_eq!(Proof::parse(&both, &[]).unwrap_err(), ProofRefusal::Several);
    for (text, refusal) in [
        (format!("{good}, {good}"), ProofRefusal::Several),
        ("a".repeat(MAX_PROOF_BYTES + 1), ProofRefusal::TooLong),
        (String::new(), ProofRefusal::Malformed),
        (format!("{good}="), ProofRefusal::Malformed),
        (good.replace('.', " "), ProofRefusal::Malformed),
        ("\u{e9}.a.b".to_owned(), ProofRefusal::Malformed),
    ] {
        assert_eq!(parse(&text).unwrap_err(), refusal, "{text}");
    }
    let key = |name: &str, value: Value| {
        let jwk = with(header()["jwk"].clone(), name, value);
        with(header(), "jwk", jwk)
    };
    for (header, refusal) in [
        (with(header(), "typ", json!("JWT")), ProofRefusal::Type),
        (with(header(), "typ", Value::Null), ProofRefusal::Type),
        (
            with(header(), "crit", json!(["exp"])),
            ProofRefusal::Critical,
        ),
        (with(header(), "crit", json!([])), ProofRefusal::Critical),
        (
            with(header(), "alg", json!("none")),
            ProofRefusal::Algorithm,
        ),
        (
            with(header(), "alg", json!("HS256")),
            ProofRefusal::Algorithm,
        ),
        (
            with(header(), "alg", json!("RS256")),
            ProofRefusal::Algorithm,
        ),
        (with(header(), "alg", json!("ES256")), ProofRefusal::Key),
        (with(header(), "jwk", Value::Null), ProofRefusal::Key),
        (with(header(), "jwk", json!("key")), ProofRefusal::Key),
        (key("d", json!(X)), ProofRefusal::Key),
        (key("k", json!(X)), ProofRefusal::Key),
        (key("x5c", json!(["MIIB"])), ProofRefusal::Key),
        (key("x5u", json!("https://evil.example")), ProofRefusal::Key),
        (key("crv", json!("X25519")), ProofRefusal::Key),
        (key("alg", json!("ES256")), ProofRefusal::Key),
        (key("use", json!("enc")), ProofRefusal::Key),
        (key("x", json!(format!("{X}="))), ProofRefusal::Key),
        (key("x", json!(&X[1..])), ProofRefusal::Key),
        (key("x", json!(X.replace("Ro", "Rp"))), ProofRefusal::Key),
    ] {
        let text = compact(&header, &claims());
        assert_eq!(parse(&text).unwrap_err(), refusal, "{header}");
    }
    for (name, value) in [
        ("jti", Value::Null),
        ("jti", json!("")),
        ("jti", json!("x".repeat(257))),
        ("htm", Value::Null),
        ("htm", json!(7)),
        ("htu", Value::Null),
        ("iat", Value::Null),
        ("iat", json!("1800000000")),
        ("iat", json!(-1)),
        ("ath", json!(7)),
        ("nonce", json!(7)),
    ] {
        let text = compact(&header(), &with(claims(), name, value));
        assert_eq!(parse(&text).unwrap_err(), ProofRefusal::Claims, "{name}");
    }
}

#[test]
fn rfc9449_s4_3_a_proof_is_for_one_token_method_and_url() {
    let until = NOW + 61;
    assert_eq!(check(&claims(), |_| {}), Ok(until));
    let key = parse(&compact(&header(), &claims())).unwrap().thumbprint();
    assert_eq!(
        check(&claims(), |expected| expected.bound_to = Some(key)),
        Ok(until)
    );
    for (refused, refusal) in [
        (
            check(&claims(), |expected| {
                expected.bound_to = Some(Thumbprint::of(b"other"))
            }),
            ProofRefusal::Binding,
        ),
        (
            check(&claims(), |expected| expected.access_token = Some("other")),
            ProofRefusal::Token,
        ),
        (
            check(&with(claims(), "ath", Value::Null), |_| {}),
            ProofRefusal::Token,
        ),
        (
            check(&claims(), |expected| expected.method = b"get"),
            ProofRefusal::Method,
        ),
        (
            check(&claims(), |expected| expected.target = b"/other"),
            ProofRefusal::Url,
        ),
    ] {
        assert_eq!(refused, Err(refusal));
    }
    let without = with(claims(), "ath", Value::Null);
    assert_eq!(
        check(&without, |expected| expected.access_token = None),
        Ok(until)
    );
}

/// Queries may hold secrets, and the message is a header and an entry of the audit log.
#[test]
fn another_url_is_told_with_the_expected_one() {
    let told = |htu: &str, target: &'static str| {
        let text = compact(&header(), &with(claims(), "htu", json!(htu)));
        let expected = Expected {
            target: target.as_bytes(),
            ..expected()
        };
        let refused = parse(&text).unwrap().check(&expected).unwrap_err();
        assert_eq!(refused.refusal, ProofRefusal::Url);
        refused.description
    };
    let url = expected().origins[0].url(b"/x");
    assert_eq!(
        told("https://elsewhere.example/y?secret=1#z", "/x?secret=2"),
        format!("The htu of the DPoP proof is https://elsewhere.example/y; expected {url}")
    );
    let odd = told("a\"\\\r\n\u{e9}", "/\"\\\r\n");
    let legal = |byte: u8| matches!(byte, 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    assert!(odd.bytes().all(legal), "{odd}");
    let long = told(&"h".repeat(2000), "/");
    assert!(long.len() < 500, "{long}");
}

#[test]
fn rfc3986_s6_2_urls_are_compared_in_normal_form() {
    for (htu, target, same) in [
        ("HTTPS://API.example.com:443/v1/projects", "/projects", true),
        (
            "https://api.example.com/v1/projects?a#b",
            "/projects?c",
            true,
        ),
        ("https://api.example.com/v1/pro%6aects", "/projects", true),
        ("https://api.example.com/v1/a%2fb", "/a%2Fb", true),
        (
            "https://api.example.com/v1/x/../projects",
            "/projects",
            true,
        ),
        ("https://api.example.com/v1", "", true),
        ("https://api.example.com/v1/a%2Fb", "/a/b", false),
        ("https://api.example.com/v1/projects/", "/projects", false),
        ("https://api.example.com/projects", "/projects", false),
        ("https://api.example.com/V1/projects", "/projects", false),
        (
            "https://api.example.com:8443/v1/projects",
            "/projects",
            false,
        ),
        ("http://api.example.com/v1/projects", "/projects", false),
        ("https://a@api.example.com/v1/projects", "/projects", false),
        (
            "https://api.example.com.evil.example/v1/projects",
            "/projects",
            false,
        ),
        ("https://api.example.com:80/v1/projects", "/projects", false),
        ("https://api.example.com./v1/projects", "/projects", false),
        ("https://api.example.com//v1/projects", "/projects", false),
        (
            "https://api.example.com/v1/projects%3Fx",
            "/projects",
            false,
        ),
        ("https://api.example.com/v1/projects;x", "/projects", false),
        (
            "https://evil.example/https://api.example.com/v1/a",
            "/a",
            false,
        ),
        ("//api.example.com/v1/projects", "/projects", false),
        ("/v1/projects", "/projects", false),
        ("https:/v1/projects", "/projects", false),
        ("", "", false),
        ("https://api.example.com/v1/a[1]|b^", "/a[1]|b^", true),
        (
            "https://api.example.com/v1/a%5B1%5d%7Cb%5E",
            "/a[1]|b^",
            true,
        ),
        ("https://api.example.com/v1/a[1]", "/a%5B1%5D", true),
        ("https://api.example.com/v1/a[1]", "/a[2]", false),
        ("https://api.example.com/v1/\u{e9}", "/\u{e9}", false),
    ] {
        let refused = check(&with(claims(), "htu", json!(htu)), |expected| {
            expected.target = target.as_bytes();
        });
        let expected = if same {
            Ok(NOW + 61)
        } else {
            Err(ProofRefusal::Url)
        };
        assert_eq!(refused, expected, "{htu} {target}");
    }
    // What is not a path cannot lengthen the host.
    let origin = PublicOrigin::parse("https://api.example.com").unwrap();
    for target in [".evil.example/a", "@evil.example/a", ":8443/a"] {
        let url = format!("https://api.example.com{target}");
        assert!(!origin.is_at(&url, target.as_bytes()), "{target}");
    }
    for wrong in [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "https:///v1",
        "https://u@api.example.com",
        "https://api.example.com?x",
        "https://api.example.com/#x",
    ] {
        assert_eq!(PublicOrigin::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn rfc9449_s4_3_a_proof_is_young() {
    for (iat, outcome) in [
        (NOW + 10, Ok(NOW + 71)),
        (NOW + 11, Err(ProofRefusal::NotYetValid)),
        (NOW - 60, Ok(NOW + 1)),
        (NOW - 61, Err(ProofRefusal::Stale)),
    ] {
        let claims = with(claims(), "iat", json!(iat));
        assert_eq!(check(&claims, |_| {}), outcome, "{iat}");
        // Only the time is wrong: the client gets a nonce.
        let until = check(&claims, |expected| {
            expected.nonces = Nonces::Optional(&NONCES)
        });
        assert_eq!(until, outcome.map_err(|_| ProofRefusal::Nonce), "{iat}");
    }
}

#[test]
fn rfc9449_s8_a_nonce_takes_the_place_of_the_time() {
    let old = with(claims(), "iat", json!(7));
    let fresh = with(old.clone(), "nonce", json!(NONCES.nonce(NOW)));
    let stale = with(old.clone(), "nonce", json!(NONCES.nonce(NOW - 240)));
    let foreign = with(claims(), "nonce", json!(NonceKey::new([2; 32]).nonce(NOW)));
    let until = NonceKey::refused_from(NOW);
    for (claims, optional, required) in [
        (&fresh, Ok(until), Ok(until)),
        (&stale, Err(ProofRefusal::Nonce), Err(ProofRefusal::Nonce)),
        (&foreign, Err(ProofRefusal::Nonce), Err(ProofRefusal::Nonce)),
        (&claims(), Ok(NOW + 61), Err(ProofRefusal::Nonce)),
    ] {
        let by = |nonces| check(claims, |expected| expected.nonces = nonces);
        assert_eq!(by(Nonces::Optional(&NONCES)), optional);
        assert_eq!(by(Nonces::Required(&NONCES)), required);
    }
    assert_eq!(
        check(&foreign, |_| {}),
        Ok(NOW + 61),
        "the server has no nonces"
    );
}

#[test]
fn rfc9449_s11_1_a_use_has_one_id_for_each_key_and_jti() {
    let id = |claims: &Value| used(claims, &expected()).unwrap().id;
    assert_eq!(id(&claims()), id(&with(claims(), "iat", json!(NOW - 1))));
    assert_ne!(id(&claims()), id(&with(claims(), "jti", json!("two"))));
    // The second public key of RFC 8032 §7.1.
    let x = json!("PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw");
    let other = with(header(), "jwk", with(header()["jwk"].clone(), "x", x));
    let text = compact(&other, &claims());
    let checked = parse(&text).unwrap().check(&expected()).unwrap();
    let other = checked.verify(|_, _, _| true).unwrap();
    assert_ne!(id(&claims()), other.id, "of another key");
}

#[test]
fn rfc9449_s4_3_the_signature_is_that_of_the_key() {
    let text = compact(&header(), &claims());
    let checked = parse(&text).unwrap().check(&expected()).unwrap();
    let refused = checked.verify(|key, message, signature| {
        assert_eq!(key.algorithm(), Algorithm::EdDsa);
        assert!(text.as_bytes().starts_with(message));
        assert_eq!(signature, b"signature");
        false
    });
    assert_eq!(refused, Err(ProofRefusal::Signature));
}

/// What clients of the newer name send.
#[test]
fn rfc9864_s2_2_ed25519_is_another_name_of_eddsa() {
    let jwk = with(header()["jwk"].clone(), "alg", json!("Ed25519"));
    for name in ["EdDSA", "Ed25519"] {
        let header = with(with(header(), "alg", json!(name)), "jwk", jwk.clone());
        assert!(parse(&compact(&header, &claims())).is_ok(), "{name}");
    }
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC{0,300}", htu in "\\PC{0,60}", target in "\\PC{0,60}") {
        let _ = parse(&text);
        let _ = check(&with(claims(), "htu", json!(htu)), |_| {});
        let origin = PublicOrigin::parse("https://api.example.com").unwrap();
        let _ = origin.is_at("https://api.example.com/a", target.as_bytes());
    }
}
