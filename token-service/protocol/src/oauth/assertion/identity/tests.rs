use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use aws_lc_rs::hmac;
use keys::algorithm::Algorithm;
use keys::{Key, KeySet};
use serde_json::{Map, Value, json};

use super::super::Unverified;
use super::super::tests::{sign_text, with};
use super::*;
use crate::identity_provider::{IdentityProvider, ProviderKeys, Unavailable};
use crate::token::SigningKey;
use AssertionError as E;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::testing::client_id;
use domain::{Client, IntegrationKind};

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// The tokens of a provider, as its documentation shows them.
static KEYCLOAK: LazyLock<Value> = LazyLock::new(|| read(include_str!("keycloak.json")));
static ENTRA: LazyLock<Value> = LazyLock::new(|| read(include_str!("entra.json")));

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The keys of both providers. They have the same name, and each provider has a second one.
static KEYS: LazyLock<BTreeMap<&str, SigningKey>> = LazyLock::new(|| {
    let key = |name| {
        let algorithm = claims::Algorithm::Rs256;
        let pkcs8 = SigningKey::generate_pkcs8(algorithm).unwrap();
        (name, SigningKey::from_pkcs8(algorithm, &pkcs8).unwrap())
    };
    ["keycloak", "entra"].map(key).into()
});

fn kid_of(tokens: &Value) -> &str {
    tokens["id_token"]["header"]["kid"].as_str().unwrap()
}

/// Each provider has its key under the names in the fixtures of both, so a token can name a key of the other.
#[derive(Debug)]
struct Keys(BTreeMap<&'static str, KeySet>);

impl Keys {
    fn new() -> Self {
        let of = |id: &'static str| {
            let jwk = serde_json::to_value(KEYS[id].jwk()).unwrap();
            let own = with(jwk.clone(), "kid", json!(format!("of-{id}")));
            let shared = [&KEYCLOAK, &ENTRA].map(|tokens| kid_of(tokens));
            let shared = shared.map(|kid| with(jwk.clone(), "kid", json!(kid)));
            let list = json!([own, shared[0], shared[1]]);
            let (keys, skipped) =
                KeySet::of_values(&list, &[Algorithm::Rs256].into(), &KeySet::default());
            assert_eq!(skipped.count, 0);
            (id, keys)
        };
        Self(["keycloak", "entra"].map(of).into())
    }
}

#[async_trait]
impl ProviderKeys for Keys {
    async fn key(
        &self,
        provider: &IdentityProvider,
        kid: &str,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<Key>>, Unavailable> {
        let keys = self.0.get(provider.id.as_str());
        let keys = keys.ok_or_else(|| Unavailable {
            provider: provider.id.clone(),
            why: "no answer".to_owned(),
        })?;
        Ok(keys.get(kid, algorithm).cloned())
    }
}

fn issuer_of(tokens: &Value) -> String {
    tokens["issuer"].as_str().unwrap().to_owned()
}

fn settings() -> Settings {
    let provider = |id: &str, tokens: &Value| IdentityProvider {
        id: id.to_owned(),
        issuer: issuer_of(tokens),
        name: id.to_owned(),
        algorithms: [Algorithm::Rs256].into(),
        email_domains: Vec::new(),
        link_by_email: false,
        client_id: None,
    };
    let providers = [provider("keycloak", &KEYCLOAK), provider("entra", &ENTRA)];
    Settings {
        identity_providers: providers.into(),
        ..Settings::default()
    }
}

fn client() -> Client {
    Client {
        identity_providers: vec![issuer_of(&KEYCLOAK)],
        ..Client::new(client_id("machine"), IntegrationKind::NonInteractive)
    }
}

fn header() -> Value {
    json!({"typ": "JWT", "alg": "RS256", "kid": "of-keycloak"})
}

fn body() -> Value {
    json!({
        "iss": issuer_of(&KEYCLOAK), "sub": "f7b1f8a2", "aud": Settings::default().issuer, "client_id": "machine",
        "iat": NOW.seconds(), "exp": NOW.seconds() + 300, "jti": "j-1",
    })
}

/// As in the draft, with its claims that do not limit anything.
fn id_jag() -> (Value, Value) {
    let settings = Settings::default();
    let claims = json!({
        "resource": settings.api_audience, "scope": "chat.read chat.history", "auth_time": NOW.seconds(),
        "amr": ["mfa", "phrh", "hwk", "user"], "email": "ada@example.com", "azp": "wiki", "nonce": "n",
    });
    let claims = claims.as_object().unwrap().clone();
    let mut body = body();
    body.as_object_mut().unwrap().extend(claims);
    (with(header(), "typ", json!(ID_JAG_TYPE)), body)
}

fn signed(header: &Value, body: &Value) -> String {
    sign_text(&KEYS["keycloak"], &header.to_string(), &body.to_string())
}

async fn verify(assertion: &str, client: &Client) -> Result<Assertion, AssertionError> {
    let settings = settings();
    let unverified = Unverified::parse(assertion)?;
    let Some(provider) = unverified.provider(client, &settings)? else {
        return unverified
            .of_user(&client.client_id, client.certificates(), &settings, NOW)
            .verify();
    };
    let token = ProviderToken::find(&unverified, provider, &Keys::new()).await;
    let assertion = IdentityAssertion {
        token: token.unwrap(),
        client,
    };
    let case = assertion.case(&settings, NOW);
    let verified = case.verify();
    let explained = case.explain().into_iter();
    let explained = explained.filter_map(|(_, found)| found.err()).next();
    assert_eq!(verified.as_ref().err(), explained.as_ref());
    verified
}

async fn outcome(header: &Value, body: &Value) -> Result<Assertion, AssertionError> {
    verify(&signed(header, body), &client()).await
}

#[tokio::test]
async fn a_good_assertion_is_read_whole() {
    let settings = Settings::default();
    for audience in [
        json!(settings.issuer),
        json!([settings.issuer]),
        json!(settings.identity_audience),
    ] {
        let mut body = with(body(), "aud", audience);
        body["user_id"] = json!("7");
        body["email"] = json!("eve@example.com");
        let assertion = outcome(&header(), &body).await.unwrap();
        let identity = Identity {
            issuer: issuer_of(&KEYCLOAK),
            subject: "f7b1f8a2".to_owned(),
        };
        assert_eq!(assertion.subject, Subject::Identity(identity));
        assert_eq!(
            (assertion.jti.as_str(), assertion.scope.as_ref()),
            ("j-1", None)
        );
        assert_eq!(assertion.user_id.as_deref(), Some("7"));
        let skew = settings.lifetimes.clock_skew;
        let expiry = Timestamp::from_seconds(NOW.seconds() + 300);
        assert_eq!(assertion.remembered_until, expiry + skew);
    }
}

#[tokio::test]
async fn an_id_jag_limits_the_scope_and_is_for_this_issuer_and_its_api() {
    let (header, body) = id_jag();
    let assertion = outcome(&header, &body).await.unwrap();
    assert_eq!(assertion.scope, Scope::parse("chat.read chat.history"));
    let settings = Settings::default();
    let several = json!(["https://elsewhere.example.com", settings.api_audience]);
    let no_scope = with(body.clone(), "scope", Value::Null);
    let no_scope = outcome(&header, &no_scope).await.unwrap();
    assert_eq!(no_scope.scope, None);
    for good in [
        with(body.clone(), "resource", several),
        with(body.clone(), "resource", Value::Null),
    ] {
        outcome(&header, &good).await.unwrap();
    }
    let elsewhere = || json!("https://elsewhere.example.com");
    let resource = |received: &str| E::Resource {
        received: received.to_owned(),
        expected: settings.api_audience.clone(),
    };
    for (name, value, reason) in [
        (
            "aud",
            json!(settings.identity_audience),
            E::Audience {
                received: Some(settings.identity_audience.clone()),
                expected: settings.issuer.clone(),
            },
        ),
        (
            "resource",
            elsewhere(),
            resource("https://elsewhere.example.com"),
        ),
        (
            "resource",
            json!([elsewhere()]),
            resource("https://elsewhere.example.com"),
        ),
        ("resource", json!([]), resource("")),
        ("resource", json!({}), E::WrongType(Claim::Resource)),
        ("resource", json!([7]), E::WrongType(Claim::Resource)),
        ("scope", json!(["chat.read"]), E::WrongType(Claim::Scope)),
        ("scope", json!("a  b"), E::WrongType(Claim::Scope)),
        ("scope", json!("\""), E::WrongType(Claim::Scope)),
        ("cnf", json!({"jkt": "0ZcOCORZNYy"}), E::Unsupported("cnf")),
        ("tenant", json!("acme"), E::Unsupported("tenant")),
        (
            "authorization_details",
            json!([]),
            E::Unsupported("authorization_details"),
        ),
    ] {
        let body = with(body.clone(), name, value);
        assert_eq!(outcome(&header, &body).await, Err(reason), "{body}");
    }
}

fn not_rs256(received: Option<&str>) -> E {
    E::ProviderAlgorithm {
        received: received.map(str::to_owned),
        allowed: vec!["RS256"],
    }
}

fn unknown_key(kid: &str) -> E {
    E::UnknownProviderKey {
        kid: kid.to_owned(),
        algorithm: "RS256",
    }
}

/// RFC 8725 §3.1, §3.10, §3.11.
#[tokio::test]
async fn rfc8725_headers() {
    let typ = |typ: &str| E::ProviderTypWrong(typ.to_owned());
    for (name, value, reason) in [
        ("typ", Value::Null, E::TypMissing),
        ("typ", json!("at+jwt"), typ("at+jwt")),
        ("typ", json!("logout+jwt"), typ("logout+jwt")),
        ("alg", json!("none"), not_rs256(Some("none"))),
        ("alg", json!("HS256"), not_rs256(Some("HS256"))),
        ("alg", json!("RS512"), not_rs256(Some("RS512"))),
        ("alg", Value::Null, not_rs256(None)),
        ("kid", Value::Null, E::NoProviderKeyNamed),
        ("kid", json!("of-entra"), unknown_key("of-entra")),
        ("kid", json!(""), unknown_key("")),
    ] {
        let header = with(header(), name, value);
        assert_eq!(outcome(&header, &body()).await, Err(reason), "{header}");
    }
    let jwk = serde_json::to_value(KEYS["entra"].jwk()).unwrap();
    let own_key = with(with(header(), "jwk", jwk), "kid", json!("mine"));
    let own_key = sign_text(&KEYS["entra"], &own_key.to_string(), &body().to_string());
    assert_eq!(verify(&own_key, &client()).await, Err(unknown_key("mine")));
}

/// The public key is known to everybody, so a signature with it as a secret would be anybody's.
#[tokio::test]
async fn rfc8725_s3_1_the_public_key_is_no_secret_for_hmac() {
    let public = serde_json::to_value(KEYS["keycloak"].jwk()).unwrap();
    let modulus = URL_SAFE_NO_PAD
        .decode(public["n"].as_str().unwrap())
        .unwrap();
    for secret in [modulus, public.to_string().into_bytes()] {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        for alg in ["HS256", "RS256"] {
            let header = with(header(), "alg", json!(alg)).to_string();
            let input = [header, body().to_string()].map(|part| URL_SAFE_NO_PAD.encode(part));
            let input = input.join(".");
            let tag = hmac::sign(&secret, input.as_bytes());
            let forged = format!("{input}.{}", URL_SAFE_NO_PAD.encode(tag));
            let expected = match alg {
                "HS256" => not_rs256(Some("HS256")),
                _ => E::Signature,
            };
            assert_eq!(verify(&forged, &client()).await, Err(expected));
        }
    }
}

/// The tests of user assertions have the bounds.
#[tokio::test]
async fn every_claim_is_checked() {
    let settings = Settings::default();
    let now = NOW.seconds();
    let day = settings.lifetimes.assertion_max.as_secs();
    let at = Timestamp::from_seconds;
    for (name, value, reason) in [
        ("sub", Value::Null, E::Missing(Claim::Subject)),
        (
            "aud",
            json!("gatepass"),
            E::Audience {
                received: Some("gatepass".to_owned()),
                expected: format!("{} or {}", settings.issuer, settings.identity_audience),
            },
        ),
        ("client_id", Value::Null, E::Missing(Claim::ClientId)),
        (
            "client_id",
            json!("other"),
            E::OtherClient {
                received: "other".to_owned(),
                expected: "machine".to_owned(),
            },
        ),
        (
            "exp",
            json!(now + day + 1),
            E::TooLong {
                at: at(now + day + 1),
                now: NOW,
                most: settings.lifetimes.assertion_max,
            },
        ),
        ("iat", Value::Null, E::Missing(Claim::IssuedAt)),
        (
            "nbf",
            json!(now + 31),
            E::InFuture(Claim::NotBefore, at(now + 31), NOW),
        ),
        ("jti", Value::Null, E::Missing(Claim::Id)),
        ("user_id", json!(7), E::WrongType(Claim::UserId)),
        ("cnf", json!({"jkt": "0ZcOCORZNYy"}), E::Unsupported("cnf")),
    ] {
        let body = with(body(), name, value);
        assert_eq!(outcome(&header(), &body).await, Err(reason), "{body}");
    }
    let good = signed(&header(), &body());
    let other = signed(&header(), &with(body(), "sub", json!("eve")));
    let (input, _) = good.rsplit_once('.').unwrap();
    let (_, signature) = other.rsplit_once('.').unwrap();
    let swapped = verify(&format!("{input}.{signature}"), &client()).await;
    assert_eq!(swapped, Err(E::Signature));
}

/// The issuer selects the provider, and the provider the key. Both have a key of the same name.
#[tokio::test]
async fn a_provider_does_not_sign_for_another() {
    let both = Client {
        identity_providers: vec![issuer_of(&KEYCLOAK), issuer_of(&ENTRA)],
        ..client()
    };
    let shared = with(header(), "kid", json!(kid_of(&KEYCLOAK))).to_string();
    for (issuer, signer, reason) in [
        (&KEYCLOAK, "keycloak", None),
        (&ENTRA, "entra", None),
        (&KEYCLOAK, "entra", Some(E::Signature)),
        (&ENTRA, "keycloak", Some(E::Signature)),
    ] {
        let body = with(body(), "iss", json!(issuer_of(issuer))).to_string();
        let assertion = sign_text(&KEYS[signer], &shared, &body);
        assert_eq!(verify(&assertion, &both).await.err(), reason);
    }
}

#[tokio::test]
async fn the_issuer_is_the_client_or_a_provider_that_it_names() {
    let by = |issuer: &str| signed(&header(), &with(body(), "iss", json!(issuer)));
    let of_entra = verify(&by(&issuer_of(&ENTRA)), &client())
        .await
        .unwrap_err();
    assert_eq!(
        of_entra.to_string(),
        format!(
            "Issuer validation failed: iss must be the Client ID or {}, but is {}",
            issuer_of(&KEYCLOAK),
            issuer_of(&ENTRA)
        )
    );
    let slash = verify(&by(&format!("{}/", issuer_of(&KEYCLOAK))), &client()).await;
    assert!(matches!(slash, Err(E::Issuer { .. })));
    // The client's own form, in which kid names a certificate.
    let own = verify(&by("machine"), &client()).await;
    assert_eq!(own, Err(E::UnknownAlias));
    let lacking = format!(
        "Issuer validation failed: iss must be the Client ID or an issuer in identity_providers of the client, but is {}",
        issuer_of(&KEYCLOAK)
    );
    let unknown = || vec!["https://unknown.example.com".to_owned()];
    for identity_providers in [Vec::new(), unknown()] {
        let client = Client {
            identity_providers,
            ..client()
        };
        let refused = verify(&by(&issuer_of(&KEYCLOAK)), &client).await;
        assert_eq!(refused.unwrap_err().to_string(), lacking);
        let refused = verify(&by("https://unknown.example.com"), &client).await;
        assert_eq!(refused, Err(E::UnknownAlias), "as without providers");
    }
}

/// As documented, and with the audience, client and `jti` of an assertion, which an operator at the provider can add to tokens.
#[tokio::test]
async fn no_other_token_of_a_provider_is_an_assertion() {
    let both = Client {
        identity_providers: vec![issuer_of(&KEYCLOAK), issuer_of(&ENTRA)],
        ..client()
    };
    let mut tokens = Vec::new();
    for (id, of_provider) in [("keycloak", &KEYCLOAK), ("entra", &ENTRA)] {
        let named = of_provider.as_object().unwrap().iter();
        let named = named.filter(|(name, _)| *name != "issuer");
        tokens.extend(named.map(|(name, token)| (id, issuer_of(of_provider), name, token)));
    }
    let kinds: BTreeSet<&str> = tokens.iter().map(|(_, _, name, _)| name.as_str()).collect();
    assert_eq!((tokens.len(), kinds.len()), (7, 5));
    for (id, issuer, name, token) in tokens {
        let sign = |header: &Value, claims: &Value| {
            sign_text(&KEYS[id], &header.to_string(), &claims.to_string())
        };
        let refused = verify(&sign(&token["header"], &token["claims"]), &both).await;
        refused.unwrap_err();
        let mut claims = token["claims"].clone();
        let fitting: Map<String, Value> = body().as_object().unwrap().clone();
        claims.as_object_mut().unwrap().extend(fitting);
        claims["iss"] = json!(issuer);
        let header = with(token["header"].clone(), "typ", json!("JWT"));
        let refused = verify(&sign(&header, &claims), &both).await;
        assert!(
            matches!(refused, Err(E::OtherToken(_))),
            "{name}: {refused:?}"
        );
        let all = claims.as_object_mut().unwrap();
        all.retain(|name, _| !OF_OTHER_TOKENS.contains(&name.as_str()));
        verify(&sign(&header, &claims), &both).await.unwrap();
    }
    for claim in OF_OTHER_TOKENS {
        let refused = outcome(&header(), &with(body(), claim, json!("x"))).await;
        assert_eq!(refused, Err(E::OtherToken(claim)));
    }
}

#[tokio::test]
async fn keys_that_cannot_be_had_are_no_refusal() {
    let (settings, client) = (settings(), client());
    let text = signed(&header(), &body());
    let unverified = Unverified::parse(&text).unwrap();
    let provider = unverified.provider(&client, &settings).unwrap().unwrap();
    let none = Keys(BTreeMap::new());
    let unavailable = ProviderToken::find(&unverified, provider, &none).await;
    assert_eq!(unavailable.unwrap_err().provider, "keycloak");
    // Nobody is asked for a key that cannot be one.
    let symmetric = signed(&with(header(), "alg", json!("HS256")), &body());
    let symmetric = Unverified::parse(&symmetric).unwrap();
    ProviderToken::find(&symmetric, provider, &none)
        .await
        .unwrap();
}
