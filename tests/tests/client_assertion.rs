//! Clients that authenticate with signatures in place of secrets (protocol.md §5.12, D-46). The unit tests of `protocol`
//! have each rule about headers and claims, and `operations::explain` has one assertion for each at the token endpoint.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::SigningKey;

use crate::api::until;
use crate::support::{
    Assertion, Browser, CREDENTIALS, Client, JWT_BEARER, NON_INTERACTIVE, OwnPair, Pkce, Reply,
    basic, form_body, get, post, shared,
};

const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const GRANT: (&str, &str) = ("grant_type", "client_credentials");

/// A client with a key.
pub(crate) struct Keyed {
    pub(crate) pair: &'static OwnPair,
    pub(crate) key: SigningKey,
    client: Client,
}

impl Keyed {
    /// A user-bound client.
    pub(crate) fn start() -> Self {
        Self::register("user_bound", json!({"bound_user": "ada@example.com"}))
    }

    /// A web server application.
    fn site() -> Self {
        let redirect_uris = ["https://app.example.com/callback"];
        Self::register("web_server", json!({"redirect_uris": redirect_uris}))
    }

    fn register(kind: &str, mut members: Value) -> Self {
        let key = SigningKey::new("EdDSA").unwrap();
        members["keys"] = json!([{"kid": "one", "public_key": public(&key)}]);
        let client = shared().register(kind, members);
        assert_eq!(client.secret, None, "keys are enough");
        Self {
            pair: shared(),
            key,
            client,
        }
    }

    /// A valid client assertion.
    pub(crate) fn assertion(&self) -> Assertion {
        self.assertion_of(self.client.id)
    }

    fn assertion_of(&self, id: &str) -> Assertion {
        Assertion {
            header: json!({"alg": "EdDSA", "kid": "one"}),
            ..Assertion::of(id)
        }
        .with("iss", json!(id))
        .with("aud", json!(self.pair.lobby()))
    }

    fn sign(&self, assertion: &Assertion) -> String {
        self.key.sign(&assertion.header, &assertion.body).unwrap()
    }

    fn fresh(&self) -> String {
        self.sign(&self.assertion())
    }

    fn post(&self, path: &str, assertion: &str, fields: &[(&str, &str)]) -> Reply {
        let own = [
            ("client_assertion_type", TYPE),
            ("client_assertion", assertion),
        ];
        let body = form_body(&[&own, fields].concat());
        post(&format!("{}{path}", self.pair.lobby()), &[], &body)
    }

    pub(crate) fn token(&self, assertion: &str) -> Reply {
        self.post("/auth/token", assertion, &[GRANT])
    }
}

/// The public JWK as text. `kid` of the registration is another member.
fn public(key: &SigningKey) -> String {
    let mut jwk = key.jwk();
    jwk.as_object_mut().unwrap().remove("kid");
    jwk.to_string()
}

#[test]
fn rfc7523_s2_2_an_assertion_authenticates_at_every_endpoint() {
    let keyed = Keyed::start();
    let issued = keyed.token(&keyed.fresh());
    let access = issued.text("access_token");
    assert_eq!(keyed.pair.call(&access), 200);
    let token = [("token", access.as_str())];
    let introspected = keyed.post("/auth/introspect", &keyed.fresh(), &token);
    assert_eq!(introspected.json()["active"], true);
    let named = [token[0], ("client_id", keyed.client.id)];
    let revoked = keyed.post("/auth/revoke", &keyed.fresh(), &named);
    assert_eq!(revoked.status, 200, "{}", revoked.body);
    keyed.pair.until_refused(&access);
    let metadata = get(
        &format!(
            "{}/.well-known/oauth-authorization-server",
            keyed.pair.lobby()
        ),
        &[],
    );
    for endpoint in ["token", "revocation", "introspection"] {
        let methods = &metadata.json()[format!("{endpoint}_endpoint_auth_methods_supported")];
        assert!(
            methods
                .as_array()
                .unwrap()
                .contains(&json!("private_key_jwt"))
        );
        let algorithms =
            &metadata.json()[format!("{endpoint}_endpoint_auth_signing_alg_values_supported")];
        assert_eq!(*algorithms, json!(["EdDSA", "Ed25519", "ES256", "RS256"]));
    }
}

/// RFC 6749 §2.3, RFC 7521 §4.2: what does not authenticate, with a good assertion or without one.
#[test]
fn rfc7521_s4_2_1_an_assertion_is_the_only_authentication() {
    let (keyed, site) = (Keyed::start(), Keyed::site());
    let url = format!("{}/auth/token", keyed.pair.lobby());
    for (assertion, why) in [
        ("a.b.c".to_owned(), "base64url"),
        (
            keyed.sign(&keyed.assertion_of("nobody")),
            "registered with keys",
        ),
        (
            keyed.sign(&keyed.assertion_of("user-bound-demo")),
            "registered with keys",
        ),
    ] {
        let description = keyed.token(&assertion).assert_error(401, "invalid_client");
        assert!(description.contains(why), "{why}: {description}");
    }
    let id = ("client_id", keyed.client.id);
    // Another client's assertion, for the client that the body names.
    keyed
        .post("/auth/token", &site.fresh(), &[GRANT, id])
        .assert_error(401, "invalid_client");
    let assertion = keyed.fresh();
    let own = ("client_assertion", assertion.as_str());
    let typed = ("client_assertion_type", TYPE);
    let saml = (
        "client_assertion_type",
        "urn:ietf:params:oauth:client-assertion-type:saml2-bearer",
    );
    let in_url = format!("?client_assertion={assertion}");
    let basic = [("authorization", basic(keyed.client.id, "anything"))];
    for (query, headers, fields, status) in [
        ("", &[][..], &[own][..], 400),
        ("", &[], &[own, saml], 401),
        ("", &basic, &[own, typed], 400),
        ("", &[], &[own, typed, ("client_secret", "x")], 400),
        // The parameters may not be in the URL.
        (&in_url, &[], &[], 400),
        // The client has no secret.
        ("", &basic, &[], 401),
    ] {
        let form = form_body(&[&[GRANT], fields].concat());
        let error = if status == 401 {
            "invalid_client"
        } else {
            "invalid_request"
        };
        post(&format!("{url}{query}"), headers, &form).assert_error(status, error);
    }
    // Nothing of this used up the assertion.
    assert_eq!(keyed.token(&assertion).status, 200);
    let named = post(&url, &[], &form_body(&[GRANT, id]));
    let description = named.assert_error(401, "invalid_client");
    assert!(description.contains("client_assertion"), "{description}");
}

/// RFC 7523 §3 rule 7.
#[test]
fn rfc7523_s3_of_many_uses_of_one_assertion_one_counts() {
    let keyed = Keyed::start();
    let assertion = keyed.fresh();
    let statuses = std::thread::scope(|scope| {
        [(); 20]
            .map(|()| scope.spawn(|| keyed.token(&assertion).status))
            .map(|worker| worker.join().unwrap())
    });
    let issued = statuses.iter().filter(|status| **status == 200);
    assert_eq!(issued.count(), 1);
    let again = keyed.token(&assertion).assert_error(401, "invalid_client");
    assert!(
        again.contains("jti of the assertion was used before"),
        "{again}"
    );
    // At another endpoint too.
    keyed
        .post("/auth/introspect", &assertion, &[("token", "x")])
        .assert_error(401, "invalid_client");
    let metrics = get(&format!("{}/metrics", keyed.pair.pair.internal_url()), &[]).body;
    assert!(
        metrics.contains("{reason=\"client_assertion_replayed\"}"),
        "{metrics}"
    );
}

/// D-46: neither kind of assertion is the other one, and each has its own ids.
#[test]
fn rfc7523_s3_a_user_assertion_is_no_client_assertion() {
    let pair = OwnPair::start(&[]);
    let id = NON_INTERACTIVE.id;
    let key = json!({"keys": [{"kid": "demo-2020", "public_key": demo_key()}]});
    pair.release(&[&NON_INTERACTIVE]);
    pair.change("PATCH", &format!("/clients/{id}"), &key.to_string());
    let url = format!("{}/auth/token", pair.lobby());
    let authenticated = |assertion: &str, fields: &[(&str, &str)]| {
        let own = [
            ("client_assertion_type", TYPE),
            ("client_assertion", assertion),
        ];
        post(&url, &[], &form_body(&[&own, fields].concat()))
    };
    let user_assertion = Assertion::of("ada@example.com");
    let signed = user_assertion.sign();
    authenticated(&signed, &[GRANT]).assert_error(401, "invalid_client");
    // As user assertion, with the same jti as the client assertion of the request.
    let client_assertion = Assertion::of(id)
        .with("aud", json!(pair.lobby()))
        .with("jti", user_assertion.body["jti"].clone())
        .sign();
    NON_INTERACTIVE
        .assert(&pair.lobby(), &client_assertion, &[])
        .assert_error(400, "invalid_grant");
    let fields = [("grant_type", JWT_BEARER), ("assertion", &*signed)];
    let issued = authenticated(&client_assertion, &fields);
    assert_eq!(issued.status, 200, "{}", issued.body);
}

/// The public key of the demo's certificate, as PEM.
fn demo_key() -> String {
    let repository = tests::Artifacts::find().unwrap().repository;
    let certificate = repository.join("demo/non-interactive-demo.cert.pem");
    let mut openssl = std::process::Command::new("openssl");
    let openssl = openssl
        .args(["x509", "-noout", "-pubkey", "-in"])
        .arg(certificate);
    String::from_utf8(openssl.output().unwrap().stdout).unwrap()
}

/// D-25 is for clients without keys: a code verifier does not replace a signature.
#[test]
fn a_code_of_a_client_with_keys_needs_the_signature() {
    let (keyed, pkce) = (Keyed::site(), Pkce::of(&"v".repeat(43)));
    let (lobby, site) = (keyed.pair.lobby(), keyed.client);
    let code = Browser::new(&lobby).code_for(&site, Some(&pkce));
    site.exchange(&lobby, &code, Some(&pkce))
        .assert_error(401, "invalid_client");
    let fields = site.exchange_fields(&code, Some(&pkce));
    let tokens = keyed.post("/auth/token", &keyed.fresh(), &fields);
    let refresh = tokens.text("refresh_token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*refresh),
    ];
    let refreshed = keyed.post("/auth/token", &keyed.fresh(), &fields);
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
}

/// D-46: from a secret to a key, and from a key to its successor, without a failed request.
#[test]
fn a_client_changes_from_a_secret_to_keys_and_to_other_keys() {
    let pair = shared();
    let client = pair.register("user_bound", json!({"bound_user": "grace@example.com"}));
    let [one, two] = ["EdDSA", "ES256"].map(|algorithm| SigningKey::new(algorithm).unwrap());
    let keyed = Keyed {
        pair,
        key: SigningKey::new("EdDSA").unwrap(),
        client,
    };
    let with_key = |key: &SigningKey, kid: &str| {
        let Assertion { mut header, body } = keyed.assertion();
        header["alg"] = key.jwk()["alg"].clone();
        header["kid"] = json!(kid);
        let assertion = key.sign(&header, &body).unwrap();
        keyed.post("/auth/token", &assertion, &CREDENTIALS).status
    };
    let by_secret = || client.token(&pair.lobby(), &CREDENTIALS).status;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, key: &SigningKey| {
        let path = folder.path().join(name);
        std::fs::write(&path, public(key)).unwrap();
        format!("--key {name}={}", path.display())
    };
    let id = client.id;
    let (first, second) = (file("one", &one), file("two", &two));
    pair.done(&format!("client update {id} {first}"));
    assert_eq!((with_key(&one, "one"), by_secret()), (200, 200));
    pair.done(&format!("client rotate-secret {id} --end-all"));
    assert_eq!((with_key(&one, "one"), by_secret()), (200, 401));
    pair.done(&format!("client update {id} {first} {second}"));
    assert_eq!((with_key(&one, "one"), with_key(&two, "two")), (200, 200));
    let shown = pair.done(&format!("client show {id}"));
    assert!(shown.contains("two  {\"kty\":\"EC\""), "{shown}");
    pair.done(&format!("client update {id} {second}"));
    assert_eq!((with_key(&one, "one"), with_key(&two, "two")), (401, 200));
    let last = pair.failed(&format!("client rotate-secret {id} --end-all"));
    assert!(last.contains("has no secret"), "{last}");
}

/// RFC 6749 §10.10: signatures are as hopeless to guess as secrets, and slowed down and named in the same way.
#[test]
fn rfc6749_s10_10_wrong_signatures_are_named_counted_and_slowed_down() {
    let keyed = Keyed::start();
    let stranger = SigningKey::new("EdDSA").unwrap();
    let guess = || {
        let assertion = keyed.assertion();
        keyed.token(&stranger.sign(&assertion.header, &assertion.body).unwrap())
    };
    for _ in 0..21 {
        guess();
    }
    until("guesses have to wait", || guess().status == 429);
    assert_eq!(keyed.token(&keyed.fresh()).status, 200);
    let entries = keyed.pair.json(&format!(
        "audit --client {} --action token_request_refused",
        keyed.client.id
    ));
    let details: BTreeSet<&str> = entries["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["detail"].as_str())
        .collect();
    assert!(
        details.contains("Signature validation failed"),
        "{details:?}"
    );
    let metrics = get(&format!("{}/metrics", keyed.pair.pair.internal_url()), &[]).body;
    assert!(
        metrics.contains("{reason=\"wrong_client_assertion\"}"),
        "{metrics}"
    );
    let claimed = format!("claimed_client=\"{}\"", keyed.client.id);
    for word in [&claimed, "reason=\"wrong_client_assertion\""] {
        keyed.pair.pair.log().until_it_says(word).unwrap();
    }
}
