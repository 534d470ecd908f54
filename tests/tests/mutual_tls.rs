//! Mutual TLS at the token endpoint (protocol.md §5.14, D-48, RFC 8705): clients that authenticate with certificates, and
//! tokens that are bound to them, from the gateway of the token service to the gateway of the API.

use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tests::free_port;
use tests::proofs::ProofKey;
use tests::tls::{self, Authority, Identity};
use ureq::http::{HeaderMap, HeaderName, HeaderValue};

use crate::api::until;
use crate::client_libraries;
use crate::support::{
    Assertion, Browser, CREDENTIALS, Client, INSTALLED, JWT_BEARER, NON_INTERACTIVE, OwnPair, Pkce,
    Reply, USER_BOUND, WEB, form_body, get, post,
};
use crate::token::claims;

/// The header in which the gateway hands over the certificate.
const HEADER: &str = "x-token-service-client-certificate";

/// A client with a certificate in place of a secret.
const TLS: Client = Client {
    id: "tls-demo",
    secret: None,
    redirect_uri: "",
};

fn digest(identity: &Identity) -> [u8; 32] {
    Sha256::digest(&identity.certificate).into()
}

fn thumbprint(identity: &Identity) -> String {
    URL_SAFE_NO_PAD.encode(digest(identity))
}

fn hexadecimal(identity: &Identity) -> String {
    let digits = digest(identity).map(|byte| format!("{byte:02x}"));
    digits.concat()
}

/// A pair with the listeners for mutual TLS.
struct MutualTls {
    own: OwnPair,
    server: Identity,
    lobby: u16,
    api: u16,
    /// The token service's own listener, which only the gateway should reach.
    service: u16,
}

impl MutualTls {
    fn start() -> Self {
        Self::start_with(&[], &[])
    }

    fn start_with(changes: &[(&str, &str)], gateway: &[(&str, &str)]) -> Self {
        let server = Identity::new().unwrap();
        let [lobby, api, service] = [(); 3].map(|()| free_port().unwrap());
        let own = OwnPair::with_mutual_tls(&server, [lobby, api, service], changes, gateway);
        Self {
            own,
            server,
            lobby,
            api,
            service,
        }
    }

    /// The base address of the aliases.
    fn url(&self) -> String {
        format!("https://localhost:{}", self.lobby)
    }

    /// A certificate that is registered for a new client [`TLS`].
    fn register(&self) -> Identity {
        let own = Identity::new().unwrap();
        self.own.done(&format!(
            "client add {} --type user_bound --bound-user grace@example.com --scope projects --tls-certificate {}",
            TLS.id,
            hexadecimal(&own)
        ));
        own
    }

    /// A request over a connection with this certificate. `None` if the gateway refuses the connection.
    fn send(
        &self,
        port: u16,
        shown: Option<&Identity>,
        start: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Reply> {
        let mut request = format!("{start} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let answer = tls::send(port, &self.server, shown, &request).unwrap()?;
        let headers = answer.headers().map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                value.parse::<HeaderValue>().unwrap(),
            )
        });
        Some(Reply {
            status: answer.status,
            headers: headers.collect::<HeaderMap>(),
            body: answer.body.clone(),
        })
    }

    /// A form at an endpoint of the aliases, with these headers and the authentication of `client`.
    fn post(
        &self,
        shown: &Identity,
        client: &Client,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Reply {
        let mut fields = fields.to_vec();
        let mut headers = headers.to_vec();
        let basic = client.basic();
        if client.secret.is_some() {
            headers.push(("authorization", &basic));
        } else {
            fields.push(("client_id", client.id));
        }
        headers.push(("content-type", "application/x-www-form-urlencoded"));
        let (start, body) = (format!("POST {path}"), form_body(&fields));
        let reply = self.send(self.lobby, Some(shown), &start, &headers, &body);
        reply.unwrap()
    }

    fn token(&self, shown: &Identity, client: &Client, fields: &[(&str, &str)]) -> Reply {
        self.post(shown, client, "/auth/token", fields, &[])
    }

    /// A request of [`TLS`] to the token service's own listener, with these headers.
    fn past_the_gateway(&self, headers: &[(&str, String)]) -> Reply {
        let fields = [CREDENTIALS.as_slice(), &[("client_id", TLS.id)]].concat();
        let url = format!("http://127.0.0.1:{}/auth/token", self.service);
        post(&url, headers, &form_body(&fields))
    }

    /// Calls the API over a connection with this certificate.
    fn call(&self, shown: &Identity, scheme: &str, token: &str, proof: Option<&str>) -> Reply {
        let authorization = format!("{scheme} {token}");
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(proof.map(|proof| ("dpop", proof)));
        let reply = self.send(self.api, Some(shown), "GET /api/projects", &headers, "");
        reply.unwrap()
    }

    /// A code for a public client.
    fn code(&self, client: &Client, pkce: &Pkce) -> String {
        Browser::new(&self.own.lobby()).code_for(client, Some(pkce))
    }

    fn exchange(&self, shown: &Identity, client: &Client, headers: &[(&str, &str)]) -> Reply {
        let pkce = Pkce::of(&"p".repeat(43));
        let code = self.code(client, &pkce);
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code.as_str()),
            ("redirect_uri", client.redirect_uri),
            ("code_verifier", pkce.verifier.as_str()),
        ];
        self.post(shown, client, "/auth/token", &fields, headers)
    }

    fn refresh(&self, shown: &Identity, token: &str, headers: &[(&str, &str)]) -> Reply {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.post(shown, &INSTALLED, "/auth/token", &fields, headers)
    }

    /// A proof for a token request at the alias.
    fn proof(&self, key: &ProofKey) -> String {
        let url = format!("{}/auth/token", self.url());
        key.prove("POST", &url, None).unwrap()
    }
}

#[track_caller]
fn assert_bound(reply: &Reply, confirmation: &Value) -> String {
    assert_eq!(reply.status, 200, "{}", reply.body);
    let token = reply.text("access_token");
    assert_eq!(claims(&token).get("cnf"), Some(confirmation));
    let token_type = match confirmation.get("jkt") {
        Some(_) => "DPoP",
        None => "Bearer",
    };
    assert_eq!(reply.json()["token_type"], token_type);
    token
}

/// RFC 8705 §5, §3.3, RFC 8414 §2. Without the listener, the metadata do not mention mutual TLS.
#[test]
fn rfc8705_s5_the_metadata_name_the_aliases() {
    let pair = MutualTls::start();
    let metadata = |lobby: &str| {
        let reply = get(
            &format!("{lobby}/.well-known/oauth-authorization-server"),
            &[],
        );
        reply.json()
    };
    let told = metadata(&pair.own.lobby());
    let at = |path: &str| format!("{}{path}", pair.url());
    assert_eq!(
        told["mtls_endpoint_aliases"],
        json!({
            "token_endpoint": at("/auth/token"),
            "revocation_endpoint": at("/auth/revoke"),
            "introspection_endpoint": at("/auth/introspect"),
            "pushed_authorization_request_endpoint": at("/auth/par"),
        })
    );
    assert_eq!(told["tls_client_certificate_bound_access_tokens"], true);
    let without = metadata(&crate::support::lobby());
    assert_eq!(without.get("mtls_endpoint_aliases"), None);
    assert_eq!(
        without.get("tls_client_certificate_bound_access_tokens"),
        None
    );
    for endpoint in ["token", "revocation", "introspection"] {
        let methods = format!("{endpoint}_endpoint_auth_methods_supported");
        let has = |metadata: &Value| {
            let methods = metadata[&methods].as_array().unwrap();
            methods.contains(&json!("self_signed_tls_client_auth"))
        };
        assert!(has(&told) && !has(&without), "{methods}");
    }
}

#[test]
fn rfc8705_s2_2_a_registered_certificate_authenticates_at_each_endpoint() {
    let pair = MutualTls::start();
    let own = pair.register();
    let tokens = pair.token(&own, &TLS, &CREDENTIALS);
    assert_eq!(tokens.status, 200, "{}", tokens.body);
    let token = tokens.text("access_token");
    // The client is not registered for bound tokens.
    assert_eq!(claims(&token).get("cnf"), None);
    assert_eq!(pair.own.call(&token), 200);
    let at = |path: &str| pair.post(&own, &TLS, path, &[("token", &token)], &[]);
    assert_eq!(at("/auth/introspect").json()["active"], true);
    assert_eq!(at("/auth/revoke").status, 200);
    assert_eq!(at("/auth/introspect").json()["active"], false);

    pair.own.release(&[&WEB]);
    pair.own.done(&format!(
        "client update {} --tls-certificate {}",
        WEB.id,
        thumbprint(&own)
    ));
    let web = Client {
        secret: None,
        ..WEB
    };
    let request = [
        ("response_type", "code"),
        ("redirect_uri", WEB.redirect_uri),
    ];
    let pushed = pair.post(&own, &web, "/auth/par", &request, &[]);
    assert_eq!(pushed.status, 201, "{}", pushed.body);
    // People and gateways have nothing to look for at this listener.
    for path in [
        "/auth/authorize",
        "/auth/jwks",
        "/admin/clients",
        "/metrics",
    ] {
        let reply = pair.send(pair.lobby, Some(&own), &format!("GET {path}"), &[], "");
        assert_eq!(reply.unwrap().status, 404, "{path}");
    }
}

/// Nobody is the client who has not shown its certificate to the gateway, whatever else the request says.
#[test]
fn rfc8705_s2_2_whoever_lacks_the_certificate_is_refused() {
    let pair = MutualTls::start();
    let (own, other) = (pair.register(), Identity::new().unwrap());
    let forged = hexadecimal(&own);
    let forged = [(HEADER, forged.as_str())];
    let refused = |reply: &Reply| reply.assert_error(401, "invalid_client");

    refused(&pair.token(&other, &TLS, &CREDENTIALS));
    refused(&pair.post(&other, &TLS, "/auth/token", &CREDENTIALS, &forged));
    // A connection without a certificate, with and without the forged header.
    let form = [CREDENTIALS.as_slice(), &[("client_id", TLS.id)]].concat();
    let form = form_body(&form);
    let media = ("content-type", "application/x-www-form-urlencoded");
    for headers in [&[media][..], &[media, forged[0]]] {
        let bare = pair.send(pair.lobby, None, "POST /auth/token", headers, &form);
        refused(&bare.unwrap());
    }
    let respelled = [("x_token_service_client_certificate", forged[0].1)];
    let respelled = pair.post(&other, &TLS, "/auth/token", &CREDENTIALS, &respelled);
    respelled.assert_error(400, "invalid_request");

    // At the other listeners the header means nothing.
    let headers = [(HEADER, hexadecimal(&own))];
    for base in [
        pair.own.lobby(),
        format!("http://127.0.0.1:{}", pair.own.pair.ports().public),
    ] {
        let reply = post(&format!("{base}/auth/token"), &headers, &form);
        let why = refused(&reply);
        assert!(why.contains("mtls_endpoint_aliases"), "{why}");
    }
    // A client cannot add a second value to that of the gateway.
    let tokens = pair.post(&own, &TLS, "/auth/token", &CREDENTIALS, &forged);
    assert_eq!(tokens.status, 200, "{}", tokens.body);
}

/// Envoy Gateway can set a header from the connection, but neither remove it before nor keep an empty value (the chart does
/// this for token-guard).
#[forms::each]
fn a_header_that_is_only_replaced_cannot_be_forged() {
    let set = format!(
        r#"- append: {{ header: {{ key: {HEADER}, value: "sha256:%DOWNSTREAM_PEER_FINGERPRINT_256%" }}, append_action: OVERWRITE_IF_EXISTS_OR_ADD }}"#
    );
    let early = format!("- remove: x-real-ip\n                        {set}");
    let route = format!("header: {{ key: {HEADER}, ");
    let changes = [
        (route.as_str(), "header: { key: x-other, "),
        ("- remove: x-real-ip", &early),
    ];
    let pair = MutualTls::start_with(&[], &changes);
    let (own, other) = (pair.register(), Identity::new().unwrap());
    let forged = hexadecimal(&own);
    let media = ("content-type", "application/x-www-form-urlencoded");
    let headers = [media, (HEADER, forged.as_str())];
    let form = [CREDENTIALS.as_slice(), &[("client_id", TLS.id)]].concat();
    let form = form_body(&form);
    for (shown, status) in [(None, 401), (Some(&other), 401), (Some(&own), 200)] {
        let reply = pair.send(pair.lobby, shown, "POST /auth/token", &headers, &form);
        assert_eq!(reply.unwrap().status, status);
    }
}

/// What the token service itself takes from its gateway.
#[test]
fn the_header_of_the_gateway_has_one_certificate() {
    let pair = MutualTls::start();
    let own = pair.register();
    let der = STANDARD.encode(&own.certificate);
    let digest = format!("sha256:{}", hexadecimal(&own));
    for good in [
        hexadecimal(&own),
        hexadecimal(&own).to_uppercase(),
        digest,
        der,
    ] {
        let reply = pair.past_the_gateway(&[(HEADER, good.clone())]);
        assert_eq!(reply.status, 200, "{good}: {}", reply.body);
    }
    for absent in [
        vec![],
        vec![(HEADER, String::new())],
        vec![(HEADER, "sha256:".to_owned())],
    ] {
        let reply = pair.past_the_gateway(&absent);
        reply.assert_error(401, "invalid_client");
    }
    for wrong in [
        vec![(HEADER, thumbprint(&own))],
        vec![(HEADER, format!("sha256:{}", thumbprint(&own)))],
        vec![(HEADER, "-".to_owned())],
        vec![(HEADER, hexadecimal(&own)); 2],
        vec![(HEADER, String::new()), (HEADER, hexadecimal(&own))],
    ] {
        let why = pair
            .past_the_gateway(&wrong)
            .assert_error(400, "invalid_request");
        assert!(why.contains("The gateway sent"), "{why}");
    }
}

/// D-51. The gateway is among `trusted_proxies`, which does not suffice.
#[test]
fn only_gateways_for_mutual_tls_hand_over_certificates() {
    let elsewhere = [("TOKEN_SERVICE__MUTUAL_TLS__GATEWAYS", "10.1.2.3")];
    let pair = MutualTls::start_with(&elsewhere, &[]);
    let own = pair.register();
    let direct = pair.past_the_gateway(&[(HEADER, hexadecimal(&own))]);
    for reply in [direct, pair.token(&own, &TLS, &CREDENTIALS)] {
        let why = reply.assert_error(400, "invalid_request");
        assert!(why.contains("mutual_tls.gateways"), "{why}");
    }
    let bare = pair.past_the_gateway(&[]);
    bare.assert_error(401, "invalid_client");
}

/// Every grant, and no way around: what a client with bound tokens gets elsewhere is nothing.
#[test]
fn rfc8705_s3_every_grant_binds_its_access_token_to_the_certificate() {
    let pair = MutualTls::start();
    let lobby = pair.own.lobby();
    let own = Identity::new().unwrap();
    for client in [&WEB, &INSTALLED, &NON_INTERACTIVE, &USER_BOUND] {
        pair.own.release(&[client]);
        let update = format!("client update {} --certificate-bound", client.id);
        pair.own.done(&update);
    }
    let bound = json!({"x5t#S256": thumbprint(&own)});
    assert_bound(&pair.token(&own, &USER_BOUND, &CREDENTIALS), &bound);
    let assertion = Assertion::of("ada@example.com").sign();
    let assertion = [
        ("grant_type", JWT_BEARER),
        ("assertion", assertion.as_str()),
    ];
    let refused = |reply: &Reply| {
        let why = reply.assert_error(400, "invalid_request");
        assert!(why.contains("mtls_endpoint_aliases"), "{why}");
    };
    refused(&NON_INTERACTIVE.token(&lobby, &assertion));
    assert_bound(&pair.token(&own, &NON_INTERACTIVE, &assertion), &bound);
    refused(&USER_BOUND.token(&lobby, &CREDENTIALS));
    // A client that has not authenticated learns nothing of its registration.
    for (client, grant_type) in [
        (&USER_BOUND, "client_credentials"),
        (&USER_BOUND, "authorization_code"),
        (&WEB, "authorization_code"),
    ] {
        let form = form_body(&[("grant_type", grant_type), ("client_id", client.id)]);
        let stranger = post(&format!("{lobby}/auth/token"), &[], &form);
        stranger.assert_error(401, "invalid_client");
    }
    let pkce = Pkce::of(&"p".repeat(43));
    for client in [&WEB, &INSTALLED] {
        let code = pair.code(client, &pkce);
        refused(&client.exchange(&lobby, &code, Some(&pkce)));
        let tokens = pair.exchange(&own, client, &[]);
        assert_bound(&tokens, &bound);
        let refresh_token = tokens.text("refresh_token");
        refused(&client.refresh(&lobby, &refresh_token));
        let refresh = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.as_str()),
        ];
        assert_bound(&pair.token(&own, client, &refresh), &bound);
    }
    let told = pair
        .token(&own, &USER_BOUND, &CREDENTIALS)
        .text("access_token");
    let told = [("token", told.as_str())];
    let told = USER_BOUND.post(&lobby, "/auth/introspect", &told).json();
    assert_eq!(
        (&told["cnf"], &told["token_type"]),
        (&bound, &json!("Bearer"))
    );
    let audit = pair.own.done("audit --action tokens_issued");
    let entry = format!("bound to the certificate {}", thumbprint(&own));
    assert!(audit.contains(&entry), "{audit}");
    let legacy = pair
        .own
        .failed("client update legacy-demo --certificate-bound");
    assert!(
        legacy.contains("legacy access tokens cannot be bound"),
        "{legacy}"
    );
}

/// RFC 8705 §4, D-39.
#[test]
fn rfc8705_s4_refresh_tokens_of_public_clients_are_bound() {
    let pair = MutualTls::start();
    let (own, other) = (Identity::new().unwrap(), Identity::new().unwrap());
    let before = pair.exchange(&own, &INSTALLED, &[]).text("refresh_token");
    pair.own.release(&[&INSTALLED]);
    let update = format!("client update {} --certificate-bound", INSTALLED.id);
    pair.own.done(&update);
    let bound = json!({"x5t#S256": thumbprint(&own)});
    // The setting binds access tokens from now on, but a refresh does not bind a grant (D-50).
    let refreshed = pair.refresh(&own, &before, &[]);
    assert_bound(&refreshed, &bound);
    let elsewhere = pair.refresh(&other, &refreshed.text("refresh_token"), &[]);
    assert_bound(&elsewhere, &json!({"x5t#S256": thumbprint(&other)}));
    let first = pair.exchange(&own, &INSTALLED, &[]).text("refresh_token");
    let stolen = |token: &str| {
        let reply = pair.refresh(&other, token, &[]);
        let why = reply.assert_error(400, "invalid_grant");
        assert!(why.contains("bound to a certificate"), "{why}");
    };
    stolen(&first);
    let second = pair.refresh(&own, &first, &[]);
    assert_bound(&second, &bound);
    // Neither a repeated request nor a token whose reuse would revoke the grant.
    stolen(&first);
    let repeated = pair.refresh(&own, &first, &[]);
    assert_bound(&repeated, &bound);
    let second = second.text("refresh_token");
    assert_eq!(repeated.text("refresh_token"), second);
    // The grant keeps its binding, also if the client is registered again without it.
    let update = format!("client update {} --certificate-optional", INSTALLED.id);
    pair.own.done(&update);
    stolen(&second);
    let elsewhere = INSTALLED.refresh(&pair.own.lobby(), &second);
    elsewhere.assert_error(400, "invalid_grant");
    assert_eq!(pair.refresh(&own, &second, &[]).status, 200);
}

/// Both bindings, at the token service and at the API: each alone is not enough.
#[forms::each]
fn a_token_that_is_bound_to_key_and_certificate_needs_both() {
    let pair = MutualTls::start();
    pair.own.release(&[&INSTALLED]);
    pair.own.done(&format!(
        "client update {} --certificate-bound --dpop-bound",
        INSTALLED.id
    ));
    let (own, other) = (Identity::new().unwrap(), Identity::new().unwrap());
    let [key, another] = [(); 2].map(|()| ProofKey::new("ES256").unwrap());
    let both = json!({"x5t#S256": thumbprint(&own), "jkt": key.thumbprint()});
    let alone = pair.exchange(&own, &INSTALLED, &[]);
    alone.assert_error(400, "invalid_dpop_proof");
    // A proof for the usual endpoint is not one for the alias.
    let lobby = format!("{}/auth/token", pair.own.lobby());
    let elsewhere = key.prove("POST", &lobby, None).unwrap();
    let elsewhere = pair.exchange(&own, &INSTALLED, &[("dpop", &elsewhere)]);
    elsewhere.assert_error(400, "invalid_dpop_proof");
    let tokens = pair.exchange(&own, &INSTALLED, &[("dpop", &pair.proof(&key))]);
    let token = assert_bound(&tokens, &both);

    let url = format!("https://localhost:{}/api/projects", pair.api);
    let prove = |key: &ProofKey| key.prove("GET", &url, Some(&token)).unwrap();
    let status = |shown: &Identity, key: &ProofKey| {
        let reply = pair.call(shown, "DPoP", &token, Some(&prove(key)));
        reply.status
    };
    assert_eq!(status(&own, &key), 200);
    assert_eq!(status(&other, &key), 401);
    assert_eq!(status(&own, &another), 401);
    assert_eq!(pair.call(&own, "Bearer", &token, None).status, 401);

    let refresh_token = tokens.text("refresh_token");
    for (shown, key) in [(&other, &key), (&own, &another)] {
        let headers = [("dpop", pair.proof(key))];
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let reply = pair.refresh(shown, &refresh_token, &headers);
        reply.assert_error(400, "invalid_grant");
    }
    let refreshed = pair.refresh(&own, &refresh_token, &[("dpop", &pair.proof(&key))]);
    assert_bound(&refreshed, &both);
}

/// A file in the folder of the pair.
fn file(pair: &MutualTls, name: &str, content: &str) -> PathBuf {
    let path = pair.own.state().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// The whole pair, with curl as the client, and a CA of its own at the gateway: the CA lets a client in, and the registered
/// certificate says who it is.
#[forms::each]
fn rfc8705_s3_the_api_takes_a_bound_token_with_its_certificate_alone() {
    let authority = Authority::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let trusted = format!("trusted_ca: {{ filename: {} }}", ca.display());
    let gateway = [(
        "trust_chain_verification: ACCEPT_UNTRUSTED",
        trusted.as_str(),
    )];
    let pair = MutualTls::start_with(&[], &gateway);
    let [own, other] = [(); 2].map(|()| authority.issue("client").unwrap());
    pair.own.done(&format!(
        "client add {} --type user_bound --bound-user grace@example.com --scope projects --certificate-bound \
         --tls-certificate {}",
        TLS.id,
        hexadecimal(&own)
    ));
    let server = file(&pair, "ca-of-curl.pem", &pair.server.pem);
    let curl = |name: &str, identity: &Identity, arguments: &[&str]| {
        let certificate = file(&pair, name, &identity.pem);
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--write-out", "\n%{http_code}"])
            .arg("--cacert")
            .arg(&server)
            .arg("--cert")
            .arg(&certificate)
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    };
    let fields = [CREDENTIALS.as_slice(), &[("client_id", TLS.id)]].concat();
    let (form, alias) = (form_body(&fields), format!("{}/auth/token", pair.url()));
    let (status, body) = curl("own.pem", &own, &["--data", &form, &alias]);
    assert_eq!(status, "200", "{body}");
    let tokens: Value = serde_json::from_str(&body).unwrap();
    let token = tokens["access_token"].as_str().unwrap();
    assert_eq!(claims(token)["cnf"], json!({"x5t#S256": thumbprint(&own)}));
    assert_eq!(tokens["token_type"], "Bearer");
    let (status, body) = curl("other.pem", &other, &["--data", &form, &alias]);
    assert_eq!(status, "401", "{body}");

    let api = format!("https://localhost:{}/api/projects", pair.api);
    let bearer = format!("authorization: Bearer {token}");
    for (name, identity, expected) in [("own.pem", &own, "200"), ("other.pem", &other, "401")] {
        let (status, body) = curl(name, identity, &["--header", &bearer, &api]);
        assert_eq!(status, expected, "{name}: {body}");
    }
    // Over plain http, as whoever stole the token would use it.
    assert_eq!(pair.own.call(token), 401);

    // The gateway lets nobody in whom its CA has not issued a certificate.
    let stranger = Identity::new().unwrap();
    for port in [pair.lobby, pair.api] {
        let reply = pair.send(port, Some(&stranger), "GET /api/projects", &[], "");
        assert!(reply.is_none(), "{reply:?}");
    }
}

/// A lost device: what is bound to its certificate ends, at the gateway too.
#[forms::each]
fn a_lost_device_ends_with_its_certificate() {
    let pair = MutualTls::start();
    for client in [&INSTALLED, &USER_BOUND] {
        pair.own.release(&[client]);
        let update = format!("client update {} --certificate-bound", client.id);
        pair.own.done(&update);
    }
    let (lost, kept) = (Identity::new().unwrap(), Identity::new().unwrap());
    let device = pair.exchange(&lost, &INSTALLED, &[]);
    let without_grant = pair.token(&lost, &USER_BOUND, &CREDENTIALS);
    let other = pair.exchange(&kept, &INSTALLED, &[]);
    let status = |shown: &Identity, tokens: &Reply| {
        let token = tokens.text("access_token");
        pair.call(shown, "Bearer", &token, None).status
    };
    assert_eq!(status(&lost, &device), 200);
    let listed = pair
        .own
        .done(&format!("grant list --client {}", INSTALLED.id));
    assert!(listed.contains(&thumbprint(&lost)), "{listed}");
    let done = pair
        .own
        .done(&format!("grant revoke --key {}", thumbprint(&lost)));
    assert!(done.starts_with("1 grants revoked"), "{done}");
    for tokens in [&device, &without_grant] {
        until("the gateway refuses tokens of the lost device", || {
            status(&lost, tokens) == 401
        });
    }
    let refreshed = pair.refresh(&lost, &device.text("refresh_token"), &[]);
    refreshed.assert_error(400, "invalid_grant");
    assert_eq!(status(&kept, &other), 200);
}

/// A library that nobody here wrote. It finds the aliases in the metadata.
#[test]
fn openid_client_authenticates_with_a_certificate_and_uses_bound_tokens() {
    let pair = MutualTls::start();
    let own = Identity::new().unwrap();
    pair.own.done(&format!(
        "client add {} --type user_bound --bound-user ada@example.com --scope projects --certificate-bound \
         --tls-certificate {}",
        TLS.id,
        hexadecimal(&own)
    ));
    pair.own.release(&[&INSTALLED]);
    let update = format!("client update {} --certificate-bound", INSTALLED.id);
    pair.own.done(&update);
    let mut program = client_libraries::node("mtls_client.mjs");
    program
        .env(
            "API",
            format!("https://localhost:{}/api/projects", pair.api),
        )
        .env(
            "SERVER",
            file(&pair, "server-of-node.pem", &pair.server.pem),
        )
        .env("CERTIFICATE", file(&pair, "own.pem", &own.pem));
    let grants = ["client_credentials", "pkce", "refresh_token_public"];
    client_libraries::drive(&pair.own.pair, program, &grants);
}
