use claims::Algorithm;
use serde_json::{Value, json};

use super::super::tests::sign_text;
use super::*;
use crate::token::SigningKey;
use domain::client_key::{KeyAuthentication, VerifyingKey};
use domain::testing::web_server;

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// A private key of a client, and its registration.
struct Pair {
    private: SigningKey,
    registered: ClientKey,
}

fn pair(kid: &str, algorithm: Algorithm) -> Pair {
    let pkcs8 = SigningKey::generate_pkcs8(algorithm).unwrap();
    let private = SigningKey::from_pkcs8(algorithm, &pkcs8).unwrap();
    let jwk = serde_json::to_string(private.jwk()).unwrap();
    let registered = ClientKey {
        kid: kid.to_owned(),
        public_key: VerifyingKey::read(&jwk).unwrap(),
    };
    Pair {
        private,
        registered,
    }
}

fn client_with(keys: &[&Pair]) -> Client {
    Client {
        key_authentication: KeyAuthentication {
            keys: keys.iter().map(|pair| pair.registered.clone()).collect(),
            ..KeyAuthentication::default()
        },
        ..web_server("web", &[], &["https://app.example.com/callback"])
    }
}

fn issuer() -> String {
    Settings::default().issuer
}

fn body() -> Value {
    json!({
        "iss": "web", "sub": "web", "aud": issuer(), "jti": "j-1",
        "iat": NOW.seconds(), "exp": NOW.seconds() + 60,
    })
}

fn with(mut value: Value, name: &str, member: Value) -> Value {
    value[name] = member;
    value
}

fn signed(key: &SigningKey, header: &Value, body: &Value) -> String {
    sign_text(key, &header.to_string(), &body.to_string())
}

fn verify(client: &Client, assertion: &str) -> Result<ClientAssertion, AssertionError> {
    let assertion = Unverified::parse(assertion)?;
    assertion.client_id()?;
    let settings = Settings::default();
    let case = assertion.of_client(client, &settings, NOW);
    let verified = case.verify();
    let mut explained = case.explain().into_iter();
    let explained = explained.find_map(|(_, found)| found.err());
    assert_eq!(verified.as_ref().err(), explained.as_ref());
    verified
}

/// Every kind of key, with and without `kid` and `typ`.
#[test]
fn rfc7523_s2_2_an_assertion_of_a_registered_key_is_accepted() {
    for algorithm in Algorithm::ALL {
        let pair = pair("k", algorithm);
        let client = client_with(&[&pair]);
        let alg = algorithm.name();
        for header in [
            json!({"alg": alg}),
            json!({"alg": alg, "kid": "k", "typ": "JWT"}),
            json!({"alg": alg, "kid": "k", "typ": "client-authentication+jwt", "x5t": null}),
            json!({"alg": alg, "kid": null, "typ": "Application/Client-Authentication+JWT"}),
        ] {
            let verified = verify(&client, &signed(&pair.private, &header, &body()));
            let verified = verified.unwrap();
            assert_eq!(verified.jti, "j-1");
            let skew = Settings::default().lifetimes.clock_skew;
            let expiry = Timestamp::from_seconds(NOW.seconds() + 60);
            assert_eq!(verified.remembered_until, expiry + skew);
        }
    }
}

/// RFC 9864 §2.2: another name of the same algorithm, only for Ed25519 keys.
#[test]
fn rfc9864_s2_2_ed25519_names_the_algorithm_too() {
    let (ed25519, p256) = (pair("k", Algorithm::EdDsa), pair("k", Algorithm::Es256));
    let header = json!({"alg": "Ed25519"});
    let assertion = signed(&ed25519.private, &header, &body());
    assert!(verify(&client_with(&[&ed25519]), &assertion).is_ok());
    let assertion = signed(&p256.private, &header, &body());
    assert_eq!(
        verify(&client_with(&[&p256]), &assertion),
        Err(AssertionError::KeyAlgorithm(Algorithm::Es256))
    );
}

/// RFC 8725 §3.1, §3.10: the registered key determines the algorithm, and the header never brings a key.
#[test]
fn rfc8725_s3_1_the_key_is_registered_and_has_one_algorithm() {
    let (one, two) = (pair("one", Algorithm::EdDsa), pair("two", Algorithm::Es256));
    let stranger = pair("one", Algorithm::EdDsa);
    let client = client_with(&[&one, &two]);
    let refused = |key: &Pair, header: &Value| {
        verify(&client, &signed(&key.private, header, &body())).unwrap_err()
    };
    use AssertionError as E;
    let own = E::KeyAlgorithm(Algorithm::EdDsa);
    for alg in ["none", "HS256", "ES256", "RS256", "eddsa"] {
        let header = json!({"alg": alg, "kid": "one"});
        assert_eq!(refused(&one, &header), own, "{alg}");
    }
    assert_eq!(refused(&one, &json!({"kid": "one"})), own);
    assert_eq!(refused(&one, &json!({"alg": "EdDSA"})), E::NoKid);
    let header = json!({"alg": "EdDSA", "kid": "three"});
    assert_eq!(refused(&one, &header), E::UnknownKid);
    let jwk = serde_json::to_value(stranger.private.jwk()).unwrap();
    for header in [
        json!({"alg": "EdDSA", "kid": "one"}),
        json!({"alg": "EdDSA", "kid": "one", "jwk": jwk}),
        json!({"alg": "EdDSA", "kid": "one", "jku": "https://evil.example/keys"}),
    ] {
        assert_eq!(refused(&stranger, &header), E::Signature, "{header}");
    }
    let header = json!({"alg": "EdDSA", "kid": "one", "typ": "at+jwt"});
    assert_eq!(refused(&one, &header), E::ClientTypWrong);
    let nobody = verify(&client_with(&[]), &signed(&one.private, &header, &body()));
    assert_eq!(nobody, Err(E::ClientTypWrong));
    let header = json!({"alg": "EdDSA", "kid": "one"});
    let nobody = verify(&client_with(&[]), &signed(&one.private, &header, &body()));
    assert_eq!(nobody, Err(E::UnknownClient));
}

#[test]
fn rfc7523_s3_the_claims() {
    let pair = pair("k", Algorithm::EdDsa);
    let client = client_with(&[&pair]);
    let header = json!({"alg": "EdDSA", "kid": "k"});
    let outcome = |body: &Value| verify(&client, &signed(&pair.private, &header, body));
    let at = |ahead: i64| json!(NOW.seconds().checked_add_signed(ahead).unwrap());
    for good in [
        with(body(), "exp", at(600)),
        with(body(), "exp", at(1)),
        with(body(), "iat", Value::Null),
        with(body(), "iat", at(30)),
        with(body(), "nbf", at(30)),
        with(body(), "aud", json!([issuer()])),
    ] {
        assert!(outcome(&good).is_ok(), "{good}");
    }
    let audience = |received: Option<&str>| AssertionError::Audience {
        received: received.map(str::to_owned),
        expected: issuer(),
    };
    let endpoint = format!("{}/auth/token", issuer());
    use AssertionError as E;
    let differs = |subject: &str| E::SubjectDiffers(subject.to_owned());
    let app = with(with(body(), "iss", json!("app")), "sub", json!("app"));
    let identity = "https://identity.example.com/";
    let body_with = |name, value| with(body(), name, value);
    let two = json!([issuer(), endpoint]);
    for (bad, reason) in [
        (body_with("iss", json!("app")), differs("web")),
        (body_with("sub", json!("ada")), differs("ada")),
        (
            app,
            E::Issuer {
                received: "app".into(),
                accepted: CLIENT_ID.into(),
            },
        ),
        (body_with("aud", json!(endpoint)), audience(Some(&endpoint))),
        (body_with("aud", two), audience(None)),
        (body_with("aud", json!(identity)), audience(Some(identity))),
        (body_with("jti", Value::Null), E::Missing(Claim::Id)),
        (body_with("jti", json!("")), E::WrongType(Claim::Id)),
        (body_with("exp", Value::Null), E::Missing(Claim::Expiry)),
    ] {
        assert_eq!(outcome(&bad), Err(reason), "{bad}");
    }
    for (name, ahead) in [
        ("exp", 0),
        ("exp", -1),
        ("exp", 601),
        ("iat", 31),
        ("nbf", 31),
    ] {
        assert!(
            outcome(&with(body(), name, at(ahead))).is_err(),
            "{name} {ahead}"
        );
    }
}

/// D-46: one audience per client, never a list.
#[test]
fn the_audience_of_a_client_is_one_of_two() {
    let pair = pair("k", Algorithm::EdDsa);
    let mut client = client_with(&[&pair]);
    client.key_authentication.client_assertion_audience = Some(AssertionAudience::TokenEndpoint);
    let header = json!({"alg": "EdDSA"});
    let outcome = |audience: &str| {
        let body = with(body(), "aud", json!(audience));
        verify(&client, &signed(&pair.private, &header, &body))
    };
    assert!(outcome(&format!("{}/auth/token", issuer())).is_ok());
    assert!(outcome(&issuer()).is_err());
}
