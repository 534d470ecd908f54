use std::sync::OnceLock;

use ::keys::signature::RSA;
use ::keys::testing::{Issuer, LeastHost};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::jws::MAX_TOKEN_BYTES;
use serde_json::json;

use super::*;
use crate::config::Config;
use crate::fixtures::{NOW, claims, config, with};

mod keys;
mod properties;
mod vendors;

const SKEW: u64 = 5;

fn issuer(algorithm: Algorithm) -> &'static Issuer {
    static ISSUERS: OnceLock<Vec<(Algorithm, Issuer)>> = OnceLock::new();
    let issuers = ISSUERS.get_or_init(|| {
        let all = Algorithm::ALL.iter();
        all.map(|algorithm| (*algorithm, Issuer::new(*algorithm)))
            .collect()
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
    verify_of(Algorithm::ALL, keys, token, now)
}

/// Verifies a token of an issuer with these algorithms.
fn verify_of(
    algorithms: &[Algorithm],
    keys: &KeySet,
    token: &str,
    now: u64,
) -> Result<VerifiedToken, Refusal> {
    let algorithms: Value = algorithms.iter().map(|it| it.name()).collect();
    verify_under(&json!({ "algorithms": algorithms }), keys, token, now)
}

/// Verifies a token of an issuer with these additional settings.
fn verify_under(
    settings: &Value,
    keys: &KeySet,
    token: &str,
    now: u64,
) -> Result<VerifiedToken, Refusal> {
    let mut config = config();
    let issuer = config["issuers"][0].as_object_mut().unwrap();
    issuer.extend(settings.as_object().unwrap().clone());
    let config = Config::parse(config.to_string().as_bytes(), &LeastHost).unwrap();
    let by_name = [(config.issuers[0].issuer.clone(), 0)].into();
    let parsed = ParsedToken::parse(token, &config.issuers, &by_name)?;
    parsed.verify(keys, &config.issuers[0], &LeastHost, now, SKEW)
}

/// Returns why a token is refused by an issuer with these additional settings.
fn refusal_under(settings: &Value, typ: Value, claims: &Value) -> Option<Refusal> {
    let issuer = issuer(Algorithm::EdDsa);
    let header = with(issuer.header(), "typ", typ).to_string();
    let token = issuer.sign(&header, &claims.to_string());
    verify_under(settings, &issuer.keys(), &token, NOW).err()
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

/// For each member of `values`, each value leads to this refusal; `null` stands for absence.
#[track_caller]
fn each(values: &Value, refused: impl Fn(&str, Value) -> Option<Refusal>, why: Option<Refusal>) {
    for (name, values) in values.as_object().unwrap() {
        for value in values.as_array().unwrap() {
            assert_eq!(refused(name, value.clone()), why, "{name}: {value}");
        }
    }
}

#[track_caller]
fn each_claim(values: &Value, why: Option<Refusal>) {
    let refused = |name: &str, value| claims_refusal(&with(claims(), name, value));
    each(values, refused, why);
}

#[track_caller]
fn each_header(values: &Value, why: Option<Refusal>) {
    each(values, header_refusal, why);
}

#[test]
fn a_good_token_of_every_algorithm_is_verified() {
    for algorithm in Algorithm::ALL.iter().copied() {
        let issuer = issuer(algorithm);
        let verified = verify_at(issuer, &issuer.token(&claims()), NOW).unwrap();
        assert_eq!(verified.reference.jti.as_deref(), Some("token-1"));
        assert_eq!(verified.refused_from, NOW + 3600 + SKEW);
        assert_eq!(scopes(&verified.claims), ["projects", "documents"]);
    }
}

/// RFC 8725 §3.11.
#[test]
fn rfc9068_s4_only_access_tokens_are_accepted() {
    let others =
        json!({"typ": [null, "JWT", "rt+jwt", "idcs+jwt", "", "at+jwt;x", "xapplication/at+jwt"]});
    each_header(&others, Some(Refusal::Type));
    let same = json!({"typ": ["AT+JWT", "application/at+jwt", "Application/At+Jwt"]});
    each_header(&same, None);
}

/// RFC 7515 §4.1.9, for every configured spelling.
#[test]
fn accepted_types_are_compared_as_media_types() {
    let marked = json!({"scope": true});
    let others = json!({"typ": [null, "", "at+jwt", "application/x/jwt", "application/"]});
    let same = json!({"typ": ["JWT", "jwt", "application/jwt", "APPLICATION/Jwt"]});
    let with_typ = json!({"typ": ["", "at+jwt", "JWT"]});
    for (configured, same, others) in [
        (json!("JWT"), &same, &others),
        (json!("jwt"), &same, &others),
        (json!("application/JWT"), &same, &others),
        (json!(null), &json!({"typ": [null]}), &with_typ),
    ] {
        let settings = json!({"types": [configured], "access_token_claims": marked});
        let refused = |_: &str, typ| refusal_under(&settings, typ, &claims());
        each(same, refused, None);
        each(others, refused, Some(Refusal::Type));
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

/// A token that is bound in a way that nobody can check is refused: a thief could use it.
#[test]
fn rfc7800_s3_1_what_a_token_is_bound_to_is_known() {
    let key = claims::Thumbprint::of(b"key").to_string();
    let known = json!({"cnf": [{"jkt": key}, {"x5t#S256": key}, {"jkt": key, "x5t#S256": key}]});
    each_claim(&known, None);
    let unknown = json!({"cnf": [
        {"jkt": key, "kid": "x"}, {"jwk": {"kty": "OKP"}}, {"jkt": "x"}, {}, "x", [],
    ]});
    each_claim(&unknown, Some(Refusal::Confirmation));
    let null = claims_refusal(&json!({"cnf": null, "iss": claims()["iss"]}));
    assert_eq!(null, Some(Refusal::Confirmation));
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
fn rfc7515_s4_1_11_crit_and_duplicate_members_are_refused() {
    each_header(&json!({"crit": [["exp"]]}), Some(Refusal::Critical));
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
    let name = "https://lobby.example.com";
    let others = json!({"iss": [null, format!("{name}/"), "HTTPS://lobby.example.com", [name]]});
    each_claim(&others, Some(Refusal::Issuer));
    let ours = "https://api.example.com";
    let others = json!({"aud": [null, format!("{ours}/"), [], ["other"], [ours, 1], 1]});
    each_claim(&others, Some(Refusal::Audience));
    each_claim(&json!({"aud": [["other", ours]]}), None);
}

#[test]
fn rfc9068_s2_2_required_claims_are_there() {
    let wrong = json!([1, "", ["x"], {}]);
    each_claim(
        &json!({"sub": wrong, "client_id": wrong, "jti": wrong, "grant_id": wrong}),
        Some(Refusal::Claims),
    );
    let absent = json!({"sub": [null], "client_id": [null], "jti": [null], "iat": [null]});
    each_claim(&absent, Some(Refusal::Claims));
    each_claim(&json!({"grant_id": [null]}), None);
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
    let wrong = json!(["1800003600", -1, 1e99, true, [NOW], {}]);
    // Milliseconds are too large, too.
    let large = json!([NOW * 1000, u64::MAX]);
    for (values, why) in [(&wrong, Refusal::Claims), (&large, Refusal::NotYetValid)] {
        each_claim(&json!({ "exp": values }), Some(Refusal::ExpiryMissing));
        each_claim(&json!({"nbf": values, "iat": values}), Some(why));
    }
}

#[test]
fn a_date_that_is_null_is_absent() {
    for (name, refusal) in [
        ("exp", Some(Refusal::ExpiryMissing)),
        ("iat", Some(Refusal::Claims)),
        ("nbf", None),
    ] {
        let mut claims = claims();
        claims[name] = json!(null);
        assert_eq!(claims_refusal(&claims), refusal, "{name}");
    }
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
    for refusal in Refusal::VARIANTS {
        let legal = |byte: u8| matches!(byte, 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        assert!(refusal.description().bytes().all(legal), "{refusal:?}");
    }
}
