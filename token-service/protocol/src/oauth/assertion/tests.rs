use std::sync::LazyLock;
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::{Algorithm, JwsError, Thumbprint};
use serde_json::{Value, json};

use super::*;
use crate::token::SigningKey;

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// A key pair and its uploaded certificate.
fn registered(alias: &str) -> (&'static SigningKey, Certificate) {
    static KEYS: LazyLock<[(SigningKey, Vec<u8>); 2]> = LazyLock::new(|| {
        [(); 2].map(|()| {
            let pkcs8 = SigningKey::generate_pkcs8(Algorithm::Rs256).unwrap();
            let pair = aws_lc_rs::rsa::KeyPair::from_pkcs8(&pkcs8).unwrap();
            let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
            let key = SigningKey::from_pkcs8(Algorithm::Rs256, &pkcs8).unwrap();
            (key, public.as_ref().to_vec())
        })
    });
    let index = u8::from(alias != "cert-1");
    let (key, public) = &KEYS[usize::from(index)];
    let certificate = Certificate {
        alias: alias.to_owned(),
        sha1_thumbprint: [index; 20],
        sha256_thumbprint: Some(Thumbprint::from_bytes([index; 32])),
        public_key_der: public.clone(),
        not_before: Timestamp::from_seconds(NOW.seconds() - 1000),
        not_after: Timestamp::from_seconds(NOW.seconds() + 1000),
        parsed: Default::default(),
    };
    (key, certificate)
}

fn header() -> Value {
    json!({"typ": "JWT", "alg": "RS256", "kid": "cert-1"})
}

fn body() -> Value {
    json!({
        "iss": "machine", "sub": "ada@example.com", "aud": "https://identity.example.com/",
        "iat": NOW.seconds(), "exp": NOW.seconds() + 300, "jti": "j-1",
    })
}

/// `value` with one member replaced, or removed if the new value is null.
pub(super) fn with(mut value: Value, name: &str, member: Value) -> Value {
    let object = value.as_object_mut().unwrap();
    if member.is_null() {
        object.remove(name);
    } else {
        object.insert(name.to_owned(), member);
    }
    value
}

/// A JWT with this header and body, as they are.
pub(super) fn sign_text(key: &SigningKey, header: &str, body: &str) -> String {
    let [header, body] = [header, body].map(|part| URL_SAFE_NO_PAD.encode(part));
    let input = format!("{header}.{body}");
    let signature = key.sign(input.as_bytes()).unwrap();
    format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn sign_as_is(header: &str, body: &str) -> String {
    sign_text(registered("cert-1").0, header, body)
}

fn sign(header: &Value, body: &Value) -> String {
    sign_as_is(&header.to_string(), &body.to_string())
}

fn verify_at(assertion: &str, now: Timestamp) -> Result<Assertion, AssertionError> {
    let certificates = [registered("cert-1").1, registered("cert-2").1];
    let client_id = ClientId::parse("machine").unwrap();
    let settings = Settings::default();
    let assertion = Unverified::parse(assertion)?;
    let case = assertion.of_user(&client_id, &certificates, &settings, now);
    let verified = case.verify();
    let explained = case
        .explain()
        .into_iter()
        .find_map(|(_, found)| found.err());
    assert_eq!(verified.as_ref().err(), explained.as_ref());
    verified
}

fn outcome(header: &Value, body: &Value) -> Result<Assertion, AssertionError> {
    verify_at(&sign(header, body), NOW)
}

fn at(offset: i64) -> Timestamp {
    Timestamp::from_seconds(NOW.seconds().checked_add_signed(offset).unwrap())
}

#[test]
fn a_good_assertion_is_read_whole() {
    let body = with(
        with(body(), "user_id", json!("7")),
        "user_site",
        json!("https://us1"),
    );
    let assertion = outcome(&header(), &body).unwrap();
    assert_eq!(
        assertion.subject,
        Subject::Username("ada@example.com".to_owned())
    );
    assert_eq!(assertion.jti, "j-1");
    let skew = Settings::default().lifetimes.clock_skew;
    assert_eq!(assertion.remembered_until, at(300) + skew);
    let named = NamedAccount {
        user_id: Some("7"),
        user_site: Some("https://us1"),
    };
    assert_eq!(assertion.named_account(), named);
}

/// protocol.md §2.3.
#[test]
fn rfc8725_s3_1_headers() {
    let x5t = |byte: u8| json!(URL_SAFE_NO_PAD.encode([byte; 20]));
    let x5t_s256 = |byte: u8| json!(URL_SAFE_NO_PAD.encode([byte; 32]));
    let no_kid = with(header(), "kid", Value::Null);
    for good in [
        with(no_kid.clone(), "x5t", x5t(0)),
        with(header(), "x5t", x5t(0)),
        with(with(header(), "x5t", x5t(0)), "x5t#S256", x5t_s256(0)),
        with(header(), "jku", json!("http://127.0.0.1:1/keys")),
        with(header(), "x5c", json!(["AA"])),
        with(header(), "typ", json!("application/jwt")),
    ] {
        assert!(outcome(&good, &body()).is_ok(), "{good}");
    }
    use AssertionError as E;
    let untyped = with(header(), "typ", Value::Null);
    let hex = |digits: &str| json!(digits.repeat(20));
    let in_hex = || E::ThumbprintInHex(URL_SAFE_NO_PAD.encode([0xab; 20]));
    let as_alias = || E::ThumbprintAsAlias("00".repeat(20));
    let header_with = |name, value| with(header(), name, value);
    let critical = E::Malformed(JwsError::Critical);
    for (bad, reason) in [
        (no_kid.clone(), E::NoKeyNamed),
        (with(no_kid.clone(), "x5t", x5t(9)), E::UnknownThumbprint),
        (
            with(no_kid.clone(), "x5t", json!("!")),
            E::UnknownThumbprint,
        ),
        (header_with("kid", json!("cert-9")), E::UnknownAlias),
        (header_with("x5t", x5t(1)), E::KeysDiffer),
        (with(no_kid.clone(), "x5t#S256", x5t_s256(0)), E::NoKeyNamed),
        (
            with(header_with("x5t", x5t(0)), "x5t#S256", x5t_s256(1)),
            E::KeysDiffer,
        ),
        (header_with("x5t#S256", x5t(0)), E::KeysDiffer),
        (header_with("kid", json!("cert-2")), E::Signature),
        (untyped.clone(), E::TypMissing),
        (with(untyped, "type", json!("JWT")), E::TypMissing),
        (header_with("typ", json!("at+jwt")), E::TypWrong),
        (header_with("alg", Value::Null), E::Algorithm),
        (header_with("alg", json!("none")), E::Algorithm),
        (header_with("alg", json!("HS256")), E::Algorithm),
        (header_with("alg", json!("PS256")), E::Algorithm),
        (header_with("alg", json!("ES256")), E::Algorithm),
        (header_with("crit", json!(["exp"])), critical),
        // Thumbprints as openssl prints them.
        (header_with("x5t", hex("ab")), in_hex()),
        (header_with("x5t", json!(["AB"; 20].join(":"))), in_hex()),
        // As .NET names the key, with the right x5t and without it.
        (
            with(header_with("x5t", x5t(0)), "kid", hex("00")),
            as_alias(),
        ),
        (header_with("kid", hex("00")), as_alias()),
        (header_with("kid", hex("AB")), E::UnknownAlias),
    ] {
        assert_eq!(outcome(&bad, &body()), Err(reason), "{bad}");
    }
}

#[test]
fn rfc7523_s3_claims() {
    use AssertionError as E;
    let list = with(body(), "aud", json!(["https://identity.example.com/"]));
    assert!(outcome(&header(), &list).is_ok());
    for claim in [
        Claim::Issuer,
        Claim::Subject,
        Claim::Audience,
        Claim::Expiry,
        Claim::IssuedAt,
        Claim::Id,
    ] {
        let mut null = body();
        // Some libraries write unset claims as null.
        null[claim.name()] = Value::Null;
        for bad in [with(body(), claim.name(), Value::Null), null] {
            assert_eq!(outcome(&header(), &bad), Err(E::Missing(claim)));
        }
    }
    for claim in [Claim::Expiry, Claim::IssuedAt, Claim::NotBefore] {
        for wrong in [
            json!("1800000300"),
            json!(-1),
            json!(1e99),
            json!([1]),
            json!(true),
        ] {
            let bad = with(body(), claim.name(), wrong);
            assert_eq!(outcome(&header(), &bad), Err(E::WrongType(claim)), "{bad}");
        }
    }
    for claim in [
        Claim::Issuer,
        Claim::Subject,
        Claim::Id,
        Claim::UserId,
        Claim::UserSite,
    ] {
        let bad = with(body(), claim.name(), json!(5));
        assert_eq!(outcome(&header(), &bad), Err(E::WrongType(claim)));
    }
    let audience = |received: Option<&str>| E::Audience {
        received: received.map(str::to_owned),
        expected: "https://identity.example.com/".to_owned(),
    };
    let ours = "https://identity.example.com/";
    let slashless = ours.trim_end_matches('/');
    for (name, value, reason) in [
        (
            "iss",
            json!("other"),
            E::Issuer {
                received: "other".to_owned(),
                accepted: CLIENT_ID.to_owned(),
            },
        ),
        ("aud", json!(slashless), audience(Some(slashless))),
        ("aud", json!([]), audience(None)),
        ("aud", json!([ours, "https://other"]), audience(None)),
        ("aud", json!(7), audience(None)),
        ("jti", json!(""), E::WrongType(Claim::Id)),
        ("jti", json!("j".repeat(256)), E::WrongType(Claim::Id)),
    ] {
        let found = outcome(&header(), &with(body(), name, value));
        assert_eq!(found, Err(reason), "{name}");
    }
    assert!(outcome(&header(), &with(body(), "jti", json!("ü".repeat(255)))).is_ok());
}

/// The edges.
#[test]
fn rfc7523_s3_times() {
    use AssertionError as E;
    let day = 24 * 3600;
    let too_long = E::TooLong {
        at: at(day + 1),
        now: NOW,
        most: Duration::from_secs(24 * 3600),
    };
    for (name, offset, expected) in [
        ("exp", 0, Err(E::Expired { at: NOW, now: NOW })),
        ("exp", 1, Ok(())),
        ("exp", day, Ok(())),
        ("exp", day + 1, Err(too_long)),
        ("iat", 30, Ok(())),
        ("iat", 31, Err(E::InFuture(Claim::IssuedAt, at(31), NOW))),
        ("nbf", 30, Ok(())),
        ("nbf", 31, Err(E::InFuture(Claim::NotBefore, at(31), NOW))),
    ] {
        let body = with(body(), name, json!(at(offset).seconds()));
        assert_eq!(
            outcome(&header(), &body).map(|_| ()),
            expected,
            "{name} {offset}"
        );
    }
    let long = with(body(), "exp", json!(at(2000).seconds()));
    let long = sign(&header(), &with(long, "iat", json!(at(-2000).seconds())));
    for (offset, expected) in [
        (-1001, Err(E::CertificateNotValid)),
        (-1000, Ok(())),
        (1000, Ok(())),
        (1001, Err(E::CertificateNotValid)),
    ] {
        assert_eq!(
            verify_at(&long, at(offset)).map(|_| ()),
            expected,
            "{offset}"
        );
    }
}

#[test]
fn only_the_signed_bytes_are_accepted() {
    let assertion = sign(&header(), &body());
    assert!(verify_at(&assertion, NOW).is_ok());
    for length in 0..assertion.len() {
        assert!(
            verify_at(&assertion[..length], NOW).is_err(),
            "cut at {length}"
        );
    }
    let (input, signature) = assertion.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    for position in 0..signature.len() {
        let mut changed = signature.clone();
        changed[position] ^= 1 << (position % 8);
        let forged = format!("{input}.{}", URL_SAFE_NO_PAD.encode(changed));
        assert_eq!(verify_at(&forged, NOW), Err(AssertionError::Signature));
    }
    let other = sign(&header(), &with(body(), "sub", json!("eve@example.com")));
    let swapped = format!("{}.{}", input, other.rsplit_once('.').unwrap().1);
    assert_eq!(verify_at(&swapped, NOW), Err(AssertionError::Signature));
}

#[test]
fn rfc7515_strict_forms() {
    let repeated = body()
        .to_string()
        .replacen('{', "{\"sub\":\"eve@example.com\",", 1);
    let repeated = sign_as_is(&header().to_string(), &repeated);
    let refused = |assertion: &str| verify_at(assertion, NOW).unwrap_err().to_string();
    assert_eq!(
        refused(&repeated),
        "sub occurs twice in the body of the assertion"
    );
    for text in ["", "a", "a.b", "a.b.c", "..", "💥.💥.💥"] {
        let error = verify_at(text, NOW).unwrap_err();
        assert!(matches!(error, AssertionError::Malformed(_)), "{text}");
    }
}

/// Each refusal names the received and the expected value.
#[test]
fn descriptions_name_what_was_received_and_expected() {
    let described = |header: &Value, body: &Value| {
        let error = outcome(header, body).unwrap_err();
        error.to_string()
    };
    let changed = |name: &str, value: Value| described(&header(), &with(body(), name, value));
    let now = NOW.seconds();
    assert_eq!(
        changed("aud", json!("https://elsewhere/\"\\é")),
        "Audience validation failed: aud is https://elsewhere/???; expected https://identity.example.com/"
    );
    assert_eq!(
        changed("exp", json!(now - 90)),
        format!(
            "The assertion has expired 90 s ago: exp is {}, the time of the server {}",
            at(-90).rfc3339(),
            NOW.rfc3339()
        )
    );
    assert_eq!(
        changed("iat", json!(now + 90)),
        format!(
            "iat of the assertion is 90 s ahead of the time of the server, {}",
            NOW.rfc3339()
        )
    );
    let mut numeric_kid = header();
    numeric_kid["kid"] = json!(1);
    assert_eq!(
        described(&numeric_kid, &body()),
        "kid in the assertion header must be a string"
    );
    let deep = format!("{{\"deep\":{}0{}}}", "[".repeat(100), "]".repeat(100));
    let deep = verify_at(&sign_as_is(&header().to_string(), &deep), NOW).unwrap_err();
    assert_eq!(
        deep.to_string(),
        "The body of the assertion is nested deeper than 64 levels"
    );
    assert_eq!(
        changed("large", json!("x".repeat(16 * 1024))),
        "The assertion is longer than 16384 bytes"
    );
}

/// Some libraries write unset claims as null.
#[test]
fn explicit_nulls_of_optional_claims_count_as_absent() {
    let mut nulls = body();
    for name in ["user_id", "user_site", "nbf"] {
        nulls[name] = Value::Null;
    }
    let assertion = outcome(&header(), &nulls).unwrap();
    assert_eq!(assertion.named_account(), NamedAccount::default());
}
