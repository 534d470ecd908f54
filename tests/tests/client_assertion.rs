//! Clients that authenticate with signatures in place of secrets (protocol.md §5.12, D-46). The unit tests of `protocol`
//! have each rule about headers and claims.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::SigningKey;

use crate::api::until;
use crate::support::{
    Assertion, Browser, Client, JWT_BEARER, NON_INTERACTIVE, OwnPair, Pkce, Reply, basic,
    form_body, get, now, post,
};

const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const CREDENTIALS: (&str, &str) = ("grant_type", "client_credentials");
/// From RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// A client with a key, registered at its own pair.
pub(crate) struct Keyed {
    pub(crate) pair: OwnPair,
    pub(crate) key: SigningKey,
}

impl Keyed {
    /// A user-bound client `meter`.
    pub(crate) fn start() -> Self {
        let keyed = Self {
            pair: OwnPair::start(&[]),
            key: SigningKey::new("EdDSA").unwrap(),
        };
        let bound = json!({"type": "user_bound", "bound_user": "ada@example.com"});
        keyed.register("meter", bound);
        keyed
    }

    fn register(&self, id: &str, mut body: Value) {
        body["client_id"] = json!(id);
        body["scopes"] = json!(["projects"]);
        body["keys"] = json!([{"kid": "one", "public_key": public(&self.key)}]);
        let made = self
            .pair
            .administrate("POST", "/clients", &body.to_string());
        assert_eq!(made.status, 201, "{}", made.body);
        assert_eq!(made.json().get("client_secret"), None, "keys are enough");
    }

    /// A valid client assertion of `id`.
    pub(crate) fn assertion(&self, id: &str) -> Assertion {
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

    fn fresh(&self, id: &str) -> String {
        self.sign(&self.assertion(id))
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
        self.post("/auth/token", assertion, &[CREDENTIALS])
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
    let issued = keyed.token(&keyed.fresh("meter"));
    let access = issued.text("access_token");
    assert_eq!(keyed.pair.call(&access), 200);
    let token = [("token", access.as_str())];
    let introspected = keyed.post("/auth/introspect", &keyed.fresh("meter"), &token);
    assert_eq!(introspected.json()["active"], true);
    let named = [token[0], ("client_id", "meter")];
    let revoked = keyed.post("/auth/revoke", &keyed.fresh("meter"), &named);
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

/// RFC 6749 §2.3, RFC 7521 §4.2, RFC 8725: what does not authenticate, and why.
#[test]
fn rfc7521_s4_2_1_every_other_assertion_is_refused() {
    let keyed = Keyed::start();
    let lobby = keyed.pair.lobby();
    let web = json!({"type": "web_server", "redirect_uris": ["https://app.example.com/callback"]});
    keyed.register("site", web);
    let good = || keyed.assertion("meter");
    let token = |assertion: &Assertion| keyed.token(&keyed.sign(assertion));
    let header = |header: Value| Assertion { header, ..good() };
    let stranger = SigningKey::new("EdDSA").unwrap();
    let by_stranger = |header: Value| {
        let assertion = Assertion { header, ..good() };
        keyed.token(&stranger.sign(&assertion.header, &assertion.body).unwrap())
    };
    let endpoint = format!("{lobby}/auth/token");
    let refused = [
        (token(&header(json!({"alg": "none", "kid": "one"}))), "alg"),
        (token(&header(json!({"alg": "HS256", "kid": "one"}))), "alg"),
        (token(&header(json!({"alg": "EdDSA", "kid": "two"}))), "kid"),
        (
            by_stranger(json!({"alg": "EdDSA", "kid": "one"})),
            "Signature",
        ),
        (
            by_stranger(json!({"alg": "EdDSA", "kid": "one", "jwk": stranger.jwk()})),
            "Signature",
        ),
        (token(&good().with("exp", json!(now() - 1))), "expired"),
        (
            token(&good().with("exp", json!(now() + 660))),
            "at most 600 s",
        ),
        (token(&good().with("iat", json!(now() + 90))), "iat"),
        (token(&good().with("aud", json!(endpoint))), "Audience"),
        (
            token(&good().with("aud", json!([lobby, endpoint]))),
            "Audience",
        ),
        (token(&good().with("sub", json!("site"))), "sub"),
        (token(&good().with("iss", json!("site"))), "sub"),
        (keyed.token("a.b.c"), "base64url"),
        (keyed.token(&keyed.fresh("nobody")), "registered with keys"),
        (
            keyed.token(&keyed.fresh("user-bound-demo")),
            "registered with keys",
        ),
    ];
    for (reply, why) in refused {
        let description = reply.assert_error(401, "invalid_client");
        assert!(description.contains(why), "{why}: {description}");
    }
    // Another client's assertion, for the client that the body names.
    let other = [CREDENTIALS, ("client_id", "meter")];
    keyed
        .post("/auth/token", &keyed.fresh("site"), &other)
        .assert_error(401, "invalid_client");
    // Without its type, of another type, and with a second authentication.
    let (url, assertion) = (format!("{lobby}/auth/token"), keyed.fresh("meter"));
    let form = |fields: &[(&str, &str)]| form_body(&[&[CREDENTIALS], fields].concat());
    let own = ("client_assertion", assertion.as_str());
    post(&url, &[], &form(&[own])).assert_error(400, "invalid_request");
    let saml = (
        "client_assertion_type",
        "urn:ietf:params:oauth:client-assertion-type:saml2-bearer",
    );
    post(&url, &[], &form(&[own, saml])).assert_error(401, "invalid_client");
    let both = form(&[own, ("client_assertion_type", TYPE)]);
    let header = [("authorization", basic("meter", "anything"))];
    post(&url, &header, &both).assert_error(400, "invalid_request");
    let secret = form(&[own, ("client_assertion_type", TYPE), ("client_secret", "x")]);
    post(&url, &[], &secret).assert_error(400, "invalid_request");
    // The parameters may not be in the URL.
    let in_url = format!("{url}?client_assertion={assertion}");
    post(&in_url, &[], &form(&[])).assert_error(400, "invalid_request");
    // Nothing of this used up the assertion.
    assert_eq!(keyed.token(&assertion).status, 200);
    // The client has no secret, and its id alone proves nothing.
    post(&url, &header, &form(&[])).assert_error(401, "invalid_client");
    let named = post(&url, &[], &form(&[("client_id", "meter")]));
    let description = named.assert_error(401, "invalid_client");
    assert!(description.contains("client_assertion"), "{description}");
}

/// RFC 7523 §3 rule 7.
#[test]
fn rfc7523_s3_of_a_hundred_uses_of_one_assertion_one_counts() {
    let keyed = Keyed::start();
    let assertion = keyed.fresh("meter");
    let (keyed, assertion) = (&keyed, assertion.as_str());
    let issued: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..10)
            .map(|_| {
                scope.spawn(move || {
                    let replies = (0..10).map(|_| keyed.token(assertion).status);
                    replies.filter(|status| *status == 200).count()
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum()
    });
    assert_eq!(issued, 1);
    let again = keyed.token(assertion).assert_error(401, "invalid_client");
    assert!(
        again.contains("jti of the assertion was used before"),
        "{again}"
    );
    // At another endpoint too.
    keyed
        .post("/auth/introspect", assertion, &[("token", "x")])
        .assert_error(401, "invalid_client");
    let metrics = get(&format!("{}/metrics", keyed.pair.pair.internal_url()), &[]).body;
    assert!(
        metrics.contains("{reason=\"client_assertion_replayed\"}"),
        "{metrics}"
    );
}

/// D-46: neither kind of assertion is the other one, and each has ids of its own.
#[test]
fn rfc7523_s3_a_user_assertion_is_no_client_assertion() {
    let keyed = Keyed::start();
    let id = NON_INTERACTIVE.id;
    let key = json!({"keys": [{"kid": "demo-2020", "public_key": demo_key()}]});
    let path = format!("/clients/{id}");
    keyed.pair.release(&[&NON_INTERACTIVE]);
    keyed.pair.change("PATCH", &path, &key.to_string());
    let user_assertion = Assertion::of("ada@example.com");
    keyed
        .token(&user_assertion.sign())
        .assert_error(401, "invalid_client");
    // As user assertion, with the same jti as the client assertion beside it.
    let jti = user_assertion.body["jti"].clone();
    let client_assertion = Assertion::of(id)
        .with("aud", json!(keyed.pair.lobby()))
        .with("jti", jti)
        .sign();
    let fields = |assertion: &str| {
        [("grant_type", JWT_BEARER), ("assertion", assertion)]
            .map(|(name, value)| (name, value.to_owned()))
    };
    let as_user = fields(&client_assertion);
    let as_user: Vec<_> = as_user
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    NON_INTERACTIVE
        .token(&keyed.pair.lobby(), &as_user)
        .assert_error(400, "invalid_grant");
    let user_assertion = fields(&user_assertion.sign());
    let user_assertion: Vec<_> = user_assertion
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    let issued = keyed.post("/auth/token", &client_assertion, &user_assertion);
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
    let keyed = Keyed::start();
    let site = Client {
        id: "site",
        secret: None,
        redirect_uri: "https://app.example.com/callback",
    };
    let web = json!({"type": "web_server", "redirect_uris": [site.redirect_uri]});
    keyed.register(site.id, web);
    let (lobby, pkce) = (keyed.pair.lobby(), Pkce::of(VERIFIER));
    let code = Browser::new(&lobby).code_for(&site, Some(&pkce));
    site.exchange(&lobby, &code, Some(&pkce))
        .assert_error(401, "invalid_client");
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", site.redirect_uri),
        ("code_verifier", VERIFIER),
    ];
    let tokens = keyed.post("/auth/token", &keyed.fresh("site"), &fields);
    let refresh = tokens.text("refresh_token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*refresh),
    ];
    let refreshed = keyed.post("/auth/token", &keyed.fresh("site"), &fields);
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
}

/// D-46: from a secret to a key, and from a key to its successor, without a failed request.
#[test]
fn a_client_changes_from_a_secret_to_keys_and_to_other_keys() {
    let keyed = Keyed::start();
    let lobby = keyed.pair.lobby();
    let dashboard = Client {
        secret: Some("demo-secret-of-user-bound-demo-not-for-real-use"),
        ..crate::support::USER_BOUND
    };
    keyed.pair.release(&[&dashboard]);
    let account = crate::support::CREDENTIALS;
    let with_key = |key: &SigningKey, kid: &str| {
        let mut assertion = keyed.assertion(dashboard.id);
        assertion.header["kid"] = json!(kid);
        let assertion = key.sign(&assertion.header, &assertion.body).unwrap();
        keyed.post("/auth/token", &assertion, &account).status
    };
    let folder = keyed.pair.state().to_owned();
    let file = |name: &str, key: &SigningKey| {
        let path = folder.join(name);
        std::fs::write(&path, public(key)).unwrap();
        path.display().to_string()
    };
    let next = SigningKey::new("ES256").unwrap();
    let (one, two) = (file("one.jwk", &keyed.key), file("two.jwk", &next));
    let id = dashboard.id;
    keyed
        .pair
        .done(&format!("client update {id} --key one={one}"));
    assert_eq!(with_key(&keyed.key, "one"), 200);
    assert_eq!(
        dashboard.token(&lobby, &account).status,
        200,
        "the old way too"
    );
    keyed
        .pair
        .done(&format!("client rotate-secret {id} --end-all"));
    dashboard
        .token(&lobby, &account)
        .assert_error(401, "invalid_client");
    assert_eq!(with_key(&keyed.key, "one"), 200);

    keyed.pair.done(&format!(
        "client update {id} --key one={one} --key two={two}"
    ));
    assert_eq!(
        (with_key(&keyed.key, "one"), with_key(&next, "two")),
        (200, 401)
    );
    let shown = keyed.pair.done(&format!("client show {id}"));
    assert!(shown.contains("two  {\"kty\":\"EC\""), "{shown}");
    keyed
        .pair
        .done(&format!("client update {id} --key two={two}"));
    assert_eq!(with_key(&keyed.key, "one"), 401);
    let last = keyed
        .pair
        .failed(&format!("client rotate-secret {id} --end-all"));
    assert!(last.contains("has no secret"), "{last}");
}

/// RFC 6749 §10.10: signatures are as hopeless to guess as secrets, and slowed down and named in the same way.
#[test]
fn rfc6749_s10_10_wrong_signatures_are_named_counted_and_slowed_down() {
    let keyed = Keyed::start();
    let stranger = SigningKey::new("EdDSA").unwrap();
    let guess = || {
        let assertion = keyed.assertion("meter");
        keyed.token(&stranger.sign(&assertion.header, &assertion.body).unwrap())
    };
    for _ in 0..21 {
        guess();
    }
    until("guesses have to wait", || guess().status == 429);
    assert_eq!(keyed.token(&keyed.fresh("meter")).status, 200);
    let entries = keyed
        .pair
        .json("audit --client meter --action token_request_refused");
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
    for word in [
        "claimed_client=\"meter\"",
        "reason=\"wrong_client_assertion\"",
    ] {
        keyed.pair.pair.log().until_it_says(word).unwrap();
    }
}
