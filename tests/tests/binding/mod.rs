//! Tokens that are bound to a key (DPoP, RFC 9449) or to a certificate (mutual TLS, RFC 8705, protocol.md §5.14), from the
//! token endpoint to the gateway of the API.

mod api;
mod certificates;
mod grants;
mod proofs;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tests::proofs::ProofKey;
use tests::tls::{self, Identity};
use tests::{Form, free_port};

use crate::support::{Browser, CREDENTIALS, Client, OwnPair, Pkce, Reply, form_body, get};
use crate::token::claims;

/// The header in which the gateway hands over the certificate.
const HEADER: &str = "x-token-service-client-certificate";

fn key() -> ProofKey {
    ProofKey::new("ES256").unwrap()
}

fn identity() -> Identity {
    Identity::new().unwrap()
}

fn pkce() -> Pkce {
    Pkce::of(&"p".repeat(43))
}

fn digest(identity: &Identity) -> [u8; 32] {
    Sha256::digest(&identity.certificate).into()
}

fn thumbprint(identity: &Identity) -> String {
    URL_SAFE_NO_PAD.encode(digest(identity))
}

pub(crate) fn hexadecimal(identity: &Identity) -> String {
    let digits = digest(identity).map(|byte| format!("{byte:02x}"));
    digits.concat()
}

/// What a client shows with a request: a proof of its key, its certificate, both or nothing.
#[derive(Debug, Clone, Copy)]
struct Shown<'a> {
    key: Option<&'a ProofKey>,
    certificate: Option<&'a Identity>,
}

impl<'a> Shown<'a> {
    const NOTHING: Self = Self {
        key: None,
        certificate: None,
    };

    const fn key(key: &'a ProofKey) -> Self {
        Self {
            key: Some(key),
            ..Self::NOTHING
        }
    }

    const fn certificate(certificate: &'a Identity) -> Self {
        Self {
            certificate: Some(certificate),
            ..Self::NOTHING
        }
    }

    const fn both(key: &'a ProofKey, certificate: &'a Identity) -> Self {
        Self {
            key: Some(key),
            certificate: Some(certificate),
        }
    }

    /// `cnf` of a token that is bound to what `bound` names: `bearer`, `key`, `certificate` or `both`.
    fn confirmation(self, bound: &str) -> Option<Value> {
        let key = || json!(self.key.unwrap().thumbprint());
        let certificate = || json!(thumbprint(self.certificate.unwrap()));
        Some(match bound {
            "bearer" => return None,
            "key" => json!({"jkt": key()}),
            "certificate" => json!({"x5t#S256": certificate()}),
            "both" => json!({"jkt": key(), "x5t#S256": certificate()}),
            other => panic!("{other}"),
        })
    }
}

/// Asserts what a token request gives to a client: tokens as [`Shown::confirmation`] names them, or an error.
#[track_caller]
fn assert_gives(reply: &Reply, outcome: &str, shown: Shown) {
    if outcome.starts_with("invalid_") || outcome.starts_with("use_") {
        let why = reply.assert_error(400, outcome);
        match outcome {
            // The client needs a certificate, and the aliases take one.
            "invalid_request" => assert!(why.contains("mtls_endpoint_aliases"), "{why}"),
            "invalid_grant" => {}
            _ => assert!(reply.header("dpop-nonce").is_some(), "{why}"),
        }
        return;
    }
    assert_eq!(reply.status, 200, "{}", reply.body);
    let confirmation = shown.confirmation(outcome);
    let claims = claims(&reply.text("access_token"));
    assert_eq!(claims.get("cnf"), confirmation.as_ref());
    let token_type = match outcome {
        "key" | "both" => "DPoP",
        _ => "Bearer",
    };
    assert_eq!(reply.text("token_type"), token_type);
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

/// The pair of all tests that change neither its settings nor the demo's clients, one for each form of the filter.
fn shared() -> &'static MutualTls {
    static WASM: LazyLock<MutualTls> = LazyLock::new(|| MutualTls::start(&[], &[]));
    static NATIVE: LazyLock<MutualTls> = LazyLock::new(|| MutualTls::start(&[], &[]));
    match Form::chosen().unwrap() {
        Form::Wasm => &WASM,
        Form::Native => &NATIVE,
    }
}

impl MutualTls {
    fn start(changes: &[(&str, &str)], gateway: &[(&str, &str)]) -> Self {
        let server = identity();
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

    /// The base address of the endpoints for a client that shows `shown`: the aliases for one with a certificate.
    fn base(&self, shown: Shown) -> String {
        match shown.certificate {
            Some(_) => format!("https://localhost:{}", self.lobby),
            None => self.own.lobby(),
        }
    }

    /// A user-bound client that authenticates with `certificate`.
    fn certified(&self, certificate: &Identity, more: Value) -> Client {
        let mut members = more;
        members["bound_user"] = json!("grace@example.com");
        members["tls_client_certificates"] = json!([hexadecimal(certificate)]);
        self.own.register("user_bound", members)
    }

    /// A request over a connection with this certificate. `None` if the gateway refuses the connection.
    fn send(
        &self,
        port: u16,
        shown: Option<&Identity>,
        start: &str,
        headers: &[(&str, String)],
        body: &str,
    ) -> Option<Reply> {
        let mut request = format!("{start} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let answer = tls::send(port, &self.server, shown, &request).unwrap();
        answer.map(Reply::from)
    }

    /// A form at an endpoint, with a fresh proof and the client's authentication.
    fn post(&self, shown: Shown, client: &Client, path: &str, fields: &[(&str, &str)]) -> Reply {
        let url = format!("{}{path}", self.base(shown));
        let proof = shown.key.map(|key| key.prove("POST", &url, None).unwrap());
        let headers = proof.map(|proof| ("dpop", proof));
        self.post_with(shown.certificate, client, path, fields, headers.as_slice())
    }

    fn post_with(
        &self,
        certificate: Option<&Identity>,
        client: &Client,
        path: &str,
        fields: &[(&str, &str)],
        more: &[(&str, String)],
    ) -> Reply {
        let Some(certificate) = certificate else {
            return client.post_with(&self.own.lobby(), path, fields, more);
        };
        let (mut headers, body) = client.form(fields);
        headers.extend_from_slice(more);
        headers.push(("content-type", tests::browsing::FORM.to_owned()));
        let start = format!("POST {path}");
        let reply = self.send(self.lobby, Some(certificate), &start, &headers, &body);
        reply.unwrap()
    }

    fn token(&self, shown: Shown, client: &Client, fields: &[(&str, &str)]) -> Reply {
        self.post(shown, client, "/auth/token", fields)
    }

    /// A code that Ada's `browser` gets for this client.
    fn code(&self, browser: &Browser, client: &Client, more: &[(&str, &str)]) -> String {
        let pkce = client.secret.is_none().then(pkce);
        browser.code_with(client, pkce.as_ref(), more)
    }

    fn exchange(&self, shown: Shown, client: &Client, code: &str) -> Reply {
        let pkce = client.secret.is_none().then(pkce);
        self.token(shown, client, &client.exchange_fields(code, pkce.as_ref()))
    }

    /// The tokens of a new code.
    fn tokens(&self, shown: Shown, client: &Client) -> Reply {
        let code = self.code(&Browser::new(&self.own.lobby()), client, &[]);
        self.exchange(shown, client, &code)
    }

    fn refresh(&self, shown: Shown, client: &Client, token: &str) -> Reply {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.token(shown, client, &fields)
    }

    /// Calls the API.
    fn call(&self, shown: Shown, scheme: &str, token: &str) -> u16 {
        let api = match shown.certificate {
            Some(_) => format!("https://localhost:{}", self.api),
            None => self.own.pair.api_url(),
        };
        let url = format!("{api}/api/projects");
        let proof = shown
            .key
            .map(|key| key.prove("GET", &url, Some(token)).unwrap());
        self.call_with(shown.certificate, scheme, token, proof)
    }

    fn call_with(
        &self,
        certificate: Option<&Identity>,
        scheme: &str,
        token: &str,
        proof: Option<String>,
    ) -> u16 {
        let mut headers = vec![("authorization", format!("{scheme} {token}"))];
        headers.extend(proof.map(|proof| ("dpop", proof)));
        if certificate.is_some() {
            let reply = self.send(self.api, certificate, "GET /api/projects", &headers, "");
            return reply.unwrap().status;
        }
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        get(
            &format!("{}/api/projects", self.own.pair.api_url()),
            &headers,
        )
        .status
    }

    /// What the service tells `client` about its token.
    fn introspect(&self, shown: Shown, client: &Client, token: &str) -> Value {
        let at = Shown { key: None, ..shown };
        let reply = self.post(at, client, "/auth/introspect", &[("token", token)]);
        reply.json()
    }
}

/// The form of a token request of a client that sends only its id.
pub(crate) fn named(client: &Client) -> String {
    let fields = [CREDENTIALS.as_slice(), &[("client_id", client.id)]].concat();
    form_body(&fields)
}
