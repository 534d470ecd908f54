//! Any token, and any change of a token.

use proptest::prelude::*;

use super::*;

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    proptest::sample::select(Algorithm::ALL)
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

/// Flips every bit of the encoded token, and every bit of the decoded parts with correct encoding. Cuts the token after each
/// byte.
#[test]
fn rfc8725_s3_3_a_token_with_any_bit_flipped_is_refused() {
    // RS384 and RS512 differ from RS256 only in the digest, and take as long as all others.
    let is_slow = |algorithm: &Algorithm| matches!(algorithm, Algorithm::Rs384 | Algorithm::Rs512);
    for algorithm in Algorithm::ALL.iter().copied().filter(|it| !is_slow(it)) {
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
        for length in 0..token.len() {
            assert!(is_refused(&token[..length]), "cut at {length}");
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
