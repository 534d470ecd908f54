use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::jws::MAX_TOKEN_BYTES;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::Config;
use crate::fixtures::{Issuer, LeastHost, NOW, claims, config, with};
use crate::signature::RSA;

mod vendors;

const SKEW: u64 = 5;

fn issuer(algorithm: Algorithm) -> &'static Issuer {
    static ISSUERS: OnceLock<Vec<(Algorithm, Issuer)>> = OnceLock::new();
    let issuers = ISSUERS.get_or_init(|| {
        Algorithm::ALL
            .map(|algorithm| (algorithm, Issuer::new(algorithm)))
            .into()
    });
    let found = issuers
        .iter()
        .find(|(candidate, _)| *candidate == algorithm);
    &found.unwrap().1
}

fn verify_at(issuer: &Issuer, token: &str, now: u64) -> Result<VerifiedToken, Refusal> {
    verify_with(&issuer.keys(), token, now)
}

fn verify_with(keys: &KeySet, token: &str, now: u64) -> Result<VerifiedToken, Refusal> {
    verify_of(&Algorithm::ALL, keys, token, now)
}

/// Verifies a token of an issuer with these algorithms.
fn verify_of(
    algorithms: &[Algorithm],
    keys: &KeySet,
    token: &str,
    now: u64,
) -> Result<VerifiedToken, Refusal> {
    let mut config = config();
    config["issuers"][0]["algorithms"] = algorithms.iter().map(|it| it.name()).collect();
    let config = Config::parse(config.to_string().as_bytes(), &LeastHost).unwrap();
    let by_name = [("https://lobby.example.com".to_owned(), 0)].into();
    ParsedToken::parse(token, &config.issuers, &by_name)?.verify(
        keys,
        &config.issuers[0],
        &LeastHost,
        now,
        SKEW,
    )
}

/// Returns why a token is refused by an issuer with these additional settings.
fn refusal_under(settings: &Value, typ: Value, claims: &Value) -> Option<Refusal> {
    let mut config = config();
    let members = settings.as_object().unwrap().clone();
    config["issuers"][0]
        .as_object_mut()
        .unwrap()
        .extend(members);
    let config = Config::parse(config.to_string().as_bytes(), &LeastHost).unwrap();
    let by_name = [("https://lobby.example.com".to_owned(), 0)].into();
    let issuer = issuer(Algorithm::EdDsa);
    let header = with(issuer.header(), "typ", typ).to_string();
    let token = issuer.sign(&header, &claims.to_string());
    let issuers = &config.issuers;
    let verified = ParsedToken::parse(&token, issuers, &by_name)
        .and_then(|token| token.verify(&issuer.keys(), &issuers[0], &LeastHost, NOW, SKEW));
    verified.err()
}

fn refusal(token: &str) -> Option<Refusal> {
    verify_at(issuer(Algorithm::EdDsa), token, NOW).err()
}

fn claims_refusal(claims: &Value) -> Option<Refusal> {
    refusal(&issuer(Algorithm::EdDsa).token(claims))
}

fn header_refusal(name: &str, value: Value) -> Option<Refusal> {
    let issuer = issuer(Algorithm::EdDsa);
    let header = with(issuer.header(), name, value).to_string();
    refusal(&issuer.sign(&header, &claims().to_string()))
}

#[test]
fn a_good_token_of_every_algorithm_is_verified() {
    for algorithm in Algorithm::ALL {
        let issuer = issuer(algorithm);
        let verified = verify_at(issuer, &issuer.token(&claims()), NOW).unwrap();
        assert_eq!(verified.reference.jti.as_deref(), Some("token-1"));
        assert_eq!(verified.refused_from, NOW + 3600 + SKEW);
        assert_eq!(scopes(&verified.claims), ["projects", "documents"]);
    }
}

/// Every byte of every part matters.
#[test]
fn rfc8725_s3_3_a_token_with_any_byte_changed_is_refused() {
    for algorithm in [Algorithm::EdDsa, Algorithm::Es256] {
        let issuer = issuer(algorithm);
        let token = issuer.token(&claims());
        for position in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[position] = match changed[position] {
                b'A' => b'B',
                b'.' => b'A',
                _ => b'A',
            };
            let changed = String::from_utf8(changed).unwrap();
            if changed != token {
                assert!(
                    verify_at(issuer, &changed, NOW).is_err(),
                    "byte {position} of {algorithm:?}"
                );
            }
        }
        for length in 0..token.len() {
            assert!(
                verify_at(issuer, &token[..length], NOW).is_err(),
                "cut at {length}"
            );
        }
    }
}

#[test]
fn a_signature_of_another_key_or_algorithm_is_refused() {
    let other = Issuer::new(Algorithm::EdDsa);
    assert_eq!(refusal(&other.token(&claims())), Some(Refusal::Signature));
    let es256 = issuer(Algorithm::Es256).token(&claims());
    assert_eq!(refusal(&es256), Some(Refusal::KeyAlgorithm));
}

/// RFC 8725 §3.11.
#[test]
fn rfc9068_s4_only_access_tokens_are_accepted() {
    for typ in [
        json!(null),
        json!("JWT"),
        json!("rt+jwt"),
        json!("idcs+jwt"),
        json!(""),
        json!("at+jwt;x"),
        json!("xapplication/at+jwt"),
    ] {
        assert_eq!(
            header_refusal("typ", typ.clone()),
            Some(Refusal::Type),
            "{typ}"
        );
    }
    for typ in ["AT+JWT", "application/at+jwt", "Application/At+Jwt"] {
        assert_eq!(header_refusal("typ", json!(typ)), None, "{typ}");
    }
}

/// RFC 7515 §4.1.9, for every configured spelling.
#[test]
fn accepted_types_are_compared_as_media_types() {
    for configured in ["JWT", "jwt", "application/JWT"] {
        let settings = json!({"types": [configured], "access_token_claims": {"scope": true}});
        for typ in ["JWT", "jwt", "application/jwt", "APPLICATION/Jwt"] {
            let refusal = refusal_under(&settings, json!(typ), &claims());
            assert_eq!(refusal, None, "{configured} {typ}");
        }
        for typ in [
            json!(null),
            json!(""),
            json!("at+jwt"),
            json!("application/x/jwt"),
            json!("application/"),
        ] {
            let refusal = refusal_under(&settings, typ.clone(), &claims());
            assert_eq!(refusal, Some(Refusal::Type), "{configured} {typ}");
        }
    }
    let without = json!({"types": [null], "access_token_claims": {"scope": true}});
    assert_eq!(refusal_under(&without, json!(null), &claims()), None);
    for typ in ["", "at+jwt", "JWT"] {
        let refusal = refusal_under(&without, json!(typ), &claims());
        assert_eq!(refusal, Some(Refusal::Type), "{typ}");
    }
}

/// `claims` with these members changed, or removed for `null`.
fn changed(changes: Value) -> Value {
    let changes = changes.as_object().unwrap().clone();
    changes
        .into_iter()
        .fold(claims(), |claims, (name, value)| with(claims, &name, value))
}

/// A token without the `typ` of access tokens is refused if it has claims of ID tokens or logout tokens.
#[test]
fn rfc8725_s3_12_claims_of_other_tokens_are_refused() {
    let azp = changed(json!({"client_id": null, "jti": null, "azp": "web"}));
    for name in ["nonce", "at_hash", "c_hash", "s_hash", "events"] {
        for value in [json!("x"), json!(null), json!({})] {
            let mut claims = azp.clone();
            claims[name] = value;
            let refusal = refusal_under(&json!({"profile": "auth0"}), json!("JWT"), &claims);
            assert_eq!(refusal, Some(Refusal::Kind), "{name}");
        }
    }
}

#[test]
fn what_marks_access_tokens_is_there_with_its_value() {
    let settings = json!({"types": ["JWT"], "access_token_claims": {"use": "access", "ver": true}});
    for (changes, expected) in [
        (json!({"use": "access", "ver": "2"}), None),
        (json!({"use": "access", "ver": false}), None),
        (json!({"use": "access"}), Some(Refusal::Kind)),
        (json!({"use": "id", "ver": "2"}), Some(Refusal::Kind)),
        (json!({"use": ["access"], "ver": "2"}), Some(Refusal::Kind)),
        (json!({"ver": "2"}), Some(Refusal::Kind)),
    ] {
        let refusal = refusal_under(&settings, json!("JWT"), &changed(changes.clone()));
        assert_eq!(refusal, expected, "{changes}");
    }
    let mut null = changed(json!({"use": "access"}));
    null["ver"] = json!(null);
    let refusal = refusal_under(&settings, json!("JWT"), &null);
    assert_eq!(refusal, Some(Refusal::Kind));
}

/// RFC 9449 §7.2: otherwise a thief could use a stolen bound token.
#[test]
fn bound_tokens_are_no_bearer_tokens() {
    for cnf in [
        json!({"jkt": "x"}),
        json!({"x5t#S256": "x"}),
        json!({}),
        json!("x"),
    ] {
        let refusal = claims_refusal(&with(claims(), "cnf", cnf.clone()));
        assert_eq!(refusal, Some(Refusal::Bound), "{cnf}");
    }
}

#[test]
fn claims_may_be_absent_where_that_is_configured_but_never_wrong() {
    for (claim, member) in [
        ("sub", "sub"),
        ("client_id", "cid"),
        ("jti", "jti"),
        ("iat", "iat"),
    ] {
        let settings = json!({"client_id_claim": "cid", "optional_claims": [claim]});
        let refused = |value| {
            let claims = with(with(claims(), "cid", json!("web")), member, value);
            refusal_under(&settings, json!("at+jwt"), &claims)
        };
        assert_eq!(refused(json!(null)), None, "{claim}");
        for wrong in [json!(""), json!(["x"]), json!(true)] {
            assert!(refused(wrong.clone()).is_some(), "{claim} {wrong}");
        }
        for other in ["sub", "cid", "jti", "iat"]
            .into_iter()
            .filter(|other| *other != member)
        {
            let claims = with(with(claims(), "cid", json!("web")), other, json!(null));
            let refusal = refusal_under(&settings, json!("at+jwt"), &claims);
            assert_eq!(refusal, Some(Refusal::Claims), "{claim} {other}");
        }
    }
}

#[test]
fn rfc8725_s3_1_other_algorithms_are_refused() {
    for alg in [
        json!(null),
        json!("none"),
        json!("HS256"),
        json!("RS1"),
        json!("PS512"),
        json!("eddsa"),
        json!(""),
    ] {
        assert_eq!(
            header_refusal("alg", alg.clone()),
            Some(Refusal::Algorithm),
            "{alg}"
        );
    }
    for other in Algorithm::ALL
        .into_iter()
        .filter(|it| *it != Algorithm::EdDsa)
    {
        let alg = json!(other.name());
        assert_eq!(header_refusal("alg", alg), Some(Refusal::KeyAlgorithm));
    }
    assert_eq!(header_refusal("alg", json!("Ed25519")), None);
}

/// RS256, RS384, RS512 and PS256 share RSA keys. The JWK decides which of them applies, not the token.
#[test]
fn rfc8725_s3_1_a_key_verifies_one_algorithm() {
    for of_key in RSA {
        let issuer = issuer(of_key);
        let keys = issuer.keys();
        for of_token in RSA {
            let header = with(issuer.header(), "alg", json!(of_token.name()));
            let token = issuer.sign(&header.to_string(), &claims().to_string());
            let refusal = verify_with(&keys, &token, NOW).err();
            let expected = (of_key != of_token).then_some(Refusal::KeyAlgorithm);
            assert_eq!(refusal, expected, "{of_key:?} {of_token:?}");
        }
    }
}

/// Another issuer's algorithms do not count.
#[test]
fn rfc8725_s3_1_algorithms_are_those_of_the_issuer() {
    for algorithm in Algorithm::ALL {
        let issuer = issuer(algorithm);
        let (keys, token) = (issuer.keys(), issuer.token(&claims()));
        let others: Vec<_> = Algorithm::ALL
            .into_iter()
            .filter(|it| *it != algorithm)
            .collect();
        let refusal = verify_of(&others, &keys, &token, NOW).err();
        assert_eq!(refusal, Some(Refusal::Algorithm), "{algorithm:?}");
        assert!(verify_of(&[algorithm], &keys, &token, NOW).is_ok());
    }
}

#[test]
fn rfc7518_s3_3_signatures_are_as_long_as_the_modulus() {
    for algorithm in RSA {
        let issuer = issuer(algorithm);
        let token = issuer.token(&claims());
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let longer = [&[0], signature.as_slice()].concat();
        for wrong in [&longer, &signature[1..], &signature[..255], &[]] {
            let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(wrong));
            let refusal = verify_with(&issuer.keys(), &token, NOW).err();
            assert_eq!(refusal, Some(Refusal::Signature), "{algorithm:?}");
        }
    }
}

#[test]
fn keys_are_found_by_name_alone() {
    assert_eq!(
        header_refusal("kid", json!(null)),
        Some(Refusal::KeyMissing)
    );
    assert_eq!(
        header_refusal("kid", json!("other")),
        Some(Refusal::KeyUnknown)
    );
    assert_eq!(header_refusal("kid", json!(1)), Some(Refusal::Malformed));
    for name in ["jku", "x5u", "jwk", "x5c"] {
        let brought = json!("https://attacker.example/keys");
        // A key in the token is never used: only the issuer's keys count.
        assert_ne!(header_refusal(name, brought), Some(Refusal::KeyUnknown));
    }
}

#[test]
fn rfc7515_s4_1_11_crit_and_duplicate_members_are_refused() {
    assert_eq!(
        header_refusal("crit", json!(["exp"])),
        Some(Refusal::Critical)
    );
    let issuer = issuer(Algorithm::EdDsa);
    let body = claims().to_string().replacen('{', "{\"sub\":\"eve\",", 1);
    assert_eq!(
        refusal(&issuer.sign(&issuer.header().to_string(), &body)),
        Some(Refusal::Malformed)
    );
    for garbage in [
        "",
        ".",
        "..",
        "a.b.c",
        "a.b.c.d",
        "\u{e9}.b.c",
        &"a".repeat(MAX_TOKEN_BYTES),
    ] {
        assert_eq!(refusal(garbage), Some(Refusal::Malformed));
    }
}

#[test]
fn claims_that_are_nested_too_deep_hear_the_limit() {
    let nested = |levels: usize| {
        let value = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let value: Value = serde_json::from_str(&value).unwrap();
        claims_refusal(&with(claims(), "nested", value))
    };
    // The claims themselves are the first level.
    let limit = claims::json::MAX_DEPTH;
    assert_eq!(nested(limit - 1), None);
    assert_eq!(nested(limit), Some(Refusal::TooDeep));
    let told = format!("{limit} levels");
    assert!(Refusal::TooDeep.description().ends_with(&told));
}

#[test]
fn a_token_that_is_too_long_hears_the_limit() {
    for length in [MAX_TOKEN_BYTES + 1, 100_000] {
        assert_eq!(refusal(&"a".repeat(length)), Some(Refusal::TooLong));
    }
    let limit = format!("longer than {MAX_TOKEN_BYTES} bytes");
    assert!(Refusal::TooLong.description().ends_with(&limit));
}

#[test]
fn rfc8725_s3_8_issuer_and_audience_are_ours() {
    for iss in [
        json!(null),
        json!("https://lobby.example.com/"),
        json!("HTTPS://lobby.example.com"),
        json!(["https://lobby.example.com"]),
    ] {
        assert_eq!(
            claims_refusal(&with(claims(), "iss", iss)),
            Some(Refusal::Issuer)
        );
    }
    for aud in [
        json!(null),
        json!("https://api.example.com/"),
        json!([]),
        json!(["other"]),
        json!(["https://api.example.com", 1]),
        json!(1),
    ] {
        assert_eq!(
            claims_refusal(&with(claims(), "aud", aud)),
            Some(Refusal::Audience)
        );
    }
    let list = json!(["other", "https://api.example.com"]);
    assert_eq!(claims_refusal(&with(claims(), "aud", list)), None);
}

#[test]
fn rfc9068_s2_2_required_claims_are_there() {
    for name in ["sub", "client_id", "jti", "iat"] {
        assert_eq!(
            claims_refusal(&with(claims(), name, json!(null))),
            Some(Refusal::Claims),
            "{name}"
        );
    }
    for name in ["sub", "client_id", "jti", "grant_id"] {
        for value in [json!(1), json!(""), json!(["x"]), json!({})] {
            assert_eq!(
                claims_refusal(&with(claims(), name, value)),
                Some(Refusal::Claims),
                "{name}"
            );
        }
    }
    assert_eq!(
        claims_refusal(&with(claims(), "grant_id", json!(null))),
        None
    );
}

/// One second before the limit, at the limit, and one second after.
#[test]
fn times_are_compared_to_the_second() {
    let issuer = issuer(Algorithm::EdDsa);
    let token = issuer.token(&claims());
    let at = |now| verify_at(issuer, &token, now).err();
    assert_eq!(at(NOW + 3600 + SKEW - 1), None);
    assert_eq!(at(NOW + 3600 + SKEW), Some(Refusal::Expired));
    assert_eq!(at(NOW - SKEW), None);
    assert_eq!(at(NOW - SKEW - 1), Some(Refusal::NotYetValid));
    let nbf = |nbf: u64| claims_refusal(&with(claims(), "nbf", json!(nbf)));
    assert_eq!(nbf(NOW + SKEW), None);
    assert_eq!(nbf(NOW + SKEW + 1), Some(Refusal::NotYetValid));
}

/// A date of the wrong type is not an absent date.
#[test]
fn rfc8725_s3_4_dates_of_the_wrong_type_are_refused() {
    let wrong = [
        json!("1800003600"),
        json!(-1),
        json!(1e99),
        json!(u64::MAX),
        json!(true),
        json!([NOW]),
        json!({}),
    ];
    for value in wrong {
        let refused = |name| claims_refusal(&with(claims(), name, value.clone()));
        assert_eq!(refused("exp"), Some(Refusal::ExpiryMissing), "{value}");
        assert_eq!(refused("nbf"), Some(Refusal::NotYetValid), "{value}");
        assert_eq!(refused("iat"), Some(Refusal::NotYetValid), "{value}");
    }
    assert_eq!(
        claims_refusal(&with(claims(), "exp", json!(null))),
        Some(Refusal::ExpiryMissing)
    );
}

#[test]
fn scopes_have_three_spellings() {
    let scopes_of = |claims: Value| scopes(claims.as_object().unwrap());
    assert_eq!(scopes_of(json!({"scope": "a  b"})), ["a", "b"]);
    assert_eq!(scopes_of(json!({"scp": ["a", "b", 1]})), ["a", "b"]);
    assert_eq!(scopes_of(json!({"scp": "a b"})), ["a", "b"]);
    assert_eq!(scopes_of(json!({"scope": "a", "scp": ["b"]})), ["a"]);
    assert_eq!(scopes_of(json!({"scope": 1})), Vec::<String>::new());
    assert_eq!(scopes_of(json!({})), Vec::<String>::new());
}

#[test]
fn descriptions_keep_to_rfc6750_s3() {
    for refusal in Refusal::ALL {
        let legal = |byte: u8| matches!(byte, 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        assert!(refusal.description().bytes().all(legal), "{refusal:?}");
    }
}

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    proptest::sample::select(Algorithm::ALL.as_slice())
}

/// Any value for a private claim.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,8}", inner, 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Claims of a valid token.
fn any_claims() -> impl Strategy<Value = Value> {
    let own = proptest::collection::btree_map("x_[a-z]{1,8}", any_value(), 0..5);
    let names = (".{1,30}", ".{1,30}", ".{1,30}");
    let grant_id = proptest::option::of(".{1,30}");
    let other_audiences = proptest::option::of(proptest::collection::vec(".{0,30}", 0..3));
    let times = (NOW - 100_000..=NOW + SKEW, NOW - SKEW + 1..NOW + 100_000);
    (own, names, grant_id, other_audiences, times).prop_map(
        |(own, (sub, client_id, jti), grant_id, other_audiences, (iat, exp))| {
            let mut claims: Map<String, Value> = own.into_iter().collect();
            let ours = "https://api.example.com";
            let aud = match other_audiences {
                None => json!(ours),
                Some(others) => others.into_iter().chain([ours.to_owned()]).collect(),
            };
            let required = json!({
                "iss": "https://lobby.example.com", "aud": aud, "sub": sub, "client_id": client_id, "jti": jti,
                "iat": iat, "exp": exp,
            });
            claims.extend(required.as_object().unwrap().clone());
            claims.extend(grant_id.map(|grant_id| ("grant_id".to_owned(), json!(grant_id))));
            Value::Object(claims)
        },
    )
}

/// `bytes` with one bit flipped.
fn flip(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    flipped
}

/// Flips every bit of the encoded token, and every bit of the decoded parts with correct encoding.
#[test]
fn rfc8725_s3_3_a_token_with_any_bit_flipped_is_refused() {
    // RS384 and RS512 differ from RS256 only in the digest, and take as long as all others.
    let is_slow = |algorithm: &Algorithm| matches!(algorithm, Algorithm::Rs384 | Algorithm::Rs512);
    for algorithm in Algorithm::ALL.into_iter().filter(|it| !is_slow(it)) {
        let issuer = issuer(algorithm);
        let keys = issuer.keys();
        let token = issuer.token(&claims());
        assert!(verify_with(&keys, &token, NOW).is_ok());
        let is_refused = |token: &str| verify_with(&keys, token, NOW).is_err();
        for bit in 0..8 * token.len() {
            // A text that is not UTF-8 is refused earlier.
            if let Ok(flipped) = String::from_utf8(flip(token.as_bytes(), bit)) {
                assert!(is_refused(&flipped), "bit {bit} of {token}");
            }
        }
        let parts: Vec<&str> = token.split('.').collect();
        for part in 0..parts.len() {
            let decoded = URL_SAFE_NO_PAD.decode(parts[part]).unwrap();
            for bit in 0..8 * decoded.len() {
                let encoded = URL_SAFE_NO_PAD.encode(flip(&decoded, bit));
                let mut flipped = parts.clone();
                flipped[part] = &encoded;
                assert!(
                    is_refused(&flipped.join(".")),
                    "bit {bit} of part {part} of {token}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_the_issuer_signs_is_verified_as_it_is(algorithm in any_algorithm(), claims in any_claims()) {
        let issuer = issuer(algorithm);
        let verified = verify_at(issuer, &issuer.token(&claims), NOW);
        prop_assert!(verified.is_ok(), "{verified:?}");
        let verified = verified.unwrap();
        prop_assert_eq!(&Value::Object(verified.claims), &claims);
        prop_assert_eq!(claims["sub"].as_str(), verified.reference.sub.as_deref());
        prop_assert_eq!(claims["client_id"].as_str(), verified.reference.client_id.as_deref());
        prop_assert_eq!(claims["jti"].as_str(), verified.reference.jti.as_deref());
        prop_assert_eq!(claims.get("grant_id").and_then(Value::as_str), verified.reference.grant_id.as_deref());
        prop_assert_eq!(claims["iat"].as_u64(), Some(verified.reference.iat));
    }

    #[test]
    fn no_token_survives_a_flipped_bit(
        algorithm in any_algorithm(),
        claims in any_claims(),
        part in 0..3_usize,
        bit in any::<proptest::sample::Index>(),
    ) {
        let issuer = issuer(algorithm);
        let token = issuer.token(&claims);
        let mut parts: Vec<&str> = token.split('.').collect();
        let decoded = URL_SAFE_NO_PAD.decode(parts[part]).unwrap();
        let encoded = URL_SAFE_NO_PAD.encode(flip(&decoded, bit.index(8 * decoded.len())));
        parts[part] = &encoded;
        prop_assert!(verify_at(issuer, &parts.join("."), NOW).is_err());
        let sent = flip(token.as_bytes(), bit.index(8 * token.len()));
        if let Ok(sent) = String::from_utf8(sent) {
            prop_assert!(verify_at(issuer, &sent, NOW).is_err());
        }
    }

    /// No random text is accepted, and none makes the parser panic.
    #[test]
    fn no_text_is_a_token(text in ".*") {
        prop_assert!(refusal(&text).is_some());
    }

    /// The same holds for well-formed parts with any content.
    #[test]
    fn no_unsigned_json_is_a_token(header in "\\PC{0,80}", body in "\\PC{0,80}", signature in proptest::collection::vec(any::<u8>(), 0..100)) {
        let token = format!("{}.{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(body), URL_SAFE_NO_PAD.encode(signature));
        prop_assert!(refusal(&token).is_some());
    }
}
