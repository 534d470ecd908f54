//! Keys and algorithms.

use super::*;

#[test]
fn a_signature_of_another_key_or_algorithm_is_refused() {
    let other = Issuer::new(Algorithm::EdDsa);
    assert_eq!(refusal(&other.token(&claims())), Some(Refusal::Signature));
    let es256 = issuer(Algorithm::Es256).token(&claims());
    assert_eq!(refusal(&es256), Some(Refusal::KeyAlgorithm));
}

#[test]
fn rfc8725_s3_1_other_algorithms_are_refused() {
    let unknown = json!({"alg": [null, "none", "HS256", "RS1", "PS512", "eddsa", ""]});
    each_header(&unknown, Some(Refusal::Algorithm));
    let others = Algorithm::ALL.iter().map(|it| it.name());
    let others: Value = others.filter(|name| *name != "EdDSA").collect();
    each_header(&json!({ "alg": others }), Some(Refusal::KeyAlgorithm));
    each_header(&json!({"alg": ["Ed25519"]}), None);
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
    for algorithm in Algorithm::ALL.iter().copied() {
        let issuer = issuer(algorithm);
        let (keys, token) = (issuer.keys(), issuer.token(&claims()));
        let others: Vec<_> = Algorithm::ALL
            .iter()
            .copied()
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
    each_header(&json!({"kid": [null]}), Some(Refusal::KeyMissing));
    each_header(&json!({"kid": ["other"]}), Some(Refusal::KeyUnknown));
    each_header(&json!({"kid": [1]}), Some(Refusal::Malformed));
    for name in ["jku", "x5u", "jwk", "x5c"] {
        let brought = json!("https://attacker.example/keys");
        // A key in the token is never used: only the issuer's keys count.
        assert_ne!(header_refusal(name, brought), Some(Refusal::KeyUnknown));
    }
}
