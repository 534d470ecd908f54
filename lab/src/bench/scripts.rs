//! The requests of the demo's clients, one script per grant type.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use claims::Algorithm;
use domain::clock::Clock as _;
use domain::random;
use protocol::token::SigningKey;
use serde_json::{Value, json};
use system::{OsRandom, SystemClock};
use tests::browsing::form_body;
use tests::load::JWT_BEARER;

use super::http::{Connection, Reply, Script, Scripts, assert_ok, basic, get, only, post};
use super::seed::REDIRECT_URI;
use crate::short;

/// Assertions that are signed before a block, for all connections. The block ends when they are used up.
const ASSERTIONS: usize = 3000;

/// The issuer of the demo.
const ISSUER: &str = "http://127.0.0.1:8081";

/// A verifier of PKCE, and its challenge (RFC 7636 appendix B).
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// The endpoints of an issuer, and a web server that is its client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Web {
    pub(crate) authorization_path: &'static str,
    pub(crate) token_path: &'static str,
    pub(crate) client_id: &'static str,
    pub(crate) secret: &'static str,
    /// Further fields of requests for a code.
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

impl Web {
    /// The demo's.
    pub(crate) const DEMO: Self = Self {
        authorization_path: "/auth/authorize",
        token_path: "/auth/token",
        client_id: "web-demo",
        secret: "demo-secret-of-web-demo-not-for-real-use",
        fields: &[],
    };

    /// The path of a request for a code.
    fn authorization(&self) -> String {
        let usual = [
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", REDIRECT_URI),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ];
        let query = form_body(&[&usual, self.fields].concat());
        format!("{}?{query}", self.authorization_path)
    }

    /// A request for tokens.
    pub(crate) fn token(&self, fields: &[(&str, &str)]) -> Vec<u8> {
        let credentials = basic(self.client_id, self.secret);
        post(self.token_path, &credentials, &form_body(fields))
    }
}

pub(crate) fn demo_client(client_id: &str) -> String {
    basic(
        client_id,
        &format!("demo-secret-of-{client_id}-not-for-real-use"),
    )
}

/// A token request of the demo's user-bound client.
pub(crate) fn client_credentials() -> Vec<u8> {
    bound_request(&demo_client("user-bound-demo"), "1879048402")
}

/// A token request of a user-bound client with these headers, for this account.
fn bound_request(headers: &str, user_id: &str) -> Vec<u8> {
    let body = form_body(&[
        ("grant_type", "client_credentials"),
        ("user_id", user_id),
        ("user_site", "https://us1.example.com"),
    ]);
    post("/auth/token", headers, &body)
}

/// The id of the registered user-bound client `number`.
pub(crate) fn bound_client(number: usize) -> String {
    format!("bound-{number:08}")
}

/// The secret of [`bound_client`].
pub(crate) fn bound_secret(number: usize) -> String {
    format!("secret-of-bound-{number:08}-not-for-real-use")
}

/// A token request of [`bound_client`].
pub(crate) fn of_bound_client(number: usize) -> Vec<u8> {
    let credentials = basic(&bound_client(number), &bound_secret(number));
    bound_request(&credentials, &number.to_string())
}

/// Distance of clients that ask one after the other. Without a factor in common with a power of ten, so that all clients
/// have their turn.
const STRIDE: usize = 7_368_787;

/// Token requests of all `count` user-bound clients in turn, from `first` on.
pub(crate) fn of_all_bound(first: usize, count: usize) -> impl Script {
    let mut next = first;
    move || {
        let number = next;
        next = (number + STRIDE) % count;
        Some(of_bound_client(number))
    }
}

/// Guesses ids of clients. No id comes twice.
pub(crate) struct Unknown(usize);

impl Unknown {
    /// The guesses of the connection `number`.
    pub(crate) const fn from(number: usize) -> Self {
        Self(number * 1_000_000_000)
    }
}

impl Script for Unknown {
    fn request(&mut self) -> Option<Vec<u8>> {
        self.0 += 1;
        let credentials = basic(&format!("guess-{}", self.0), "guessed");
        Some(bound_request(&credentials, "1"))
    }

    fn answered(&mut self, reply: &Reply) -> bool {
        assert!(matches!(reply.status, 401 | 429), "{}", reply.head);
        true
    }
}

/// Token requests with a proof each, by several keys in turn: the service remembers only so many proofs of one key.
fn proven() -> impl Script {
    let key = |_| {
        let key = SigningKey::generate_pkcs8(Algorithm::Es256).unwrap();
        SigningKey::from_pkcs8(Algorithm::Es256, &key).unwrap()
    };
    let mut keys: Vec<SigningKey> = (0..8).map(key).collect();
    let headers = demo_client("user-bound-demo");
    move || {
        keys.rotate_left(1);
        let key = &keys[0];
        let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": key.jwk().key});
        let claims = json!({
            "jti": unique(), "htm": "POST", "htu": format!("{ISSUER}/auth/token"),
            "iat": SystemClock.now().seconds(),
        });
        let proof = signed(key, &header, &claims);
        let headers = format!("{headers}dpop: {proof}\r\n");
        Some(bound_request(&headers, "1879048402"))
    }
}

fn unique() -> String {
    random::text::<32>(&OsRandom).unwrap()
}

/// A JWT.
fn signed(key: &SigningKey, header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let input = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(input.as_bytes()).unwrap());
    format!("{input}.{signature}")
}

/// Requests with one assertion each, which the connections share.
#[derive(Clone)]
pub(crate) struct Assertions {
    key: Arc<SigningKey>,
    signed: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Assertions {
    pub(crate) fn new() -> Self {
        let pem = include_str!("../../../demo/non-interactive-demo.key.pem");
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(base64).unwrap();
        let key = SigningKey::from_pkcs8(Algorithm::Rs256, &der).unwrap();
        Self {
            key: Arc::new(key),
            signed: Arc::default(),
        }
    }

    fn sign(&self) -> Vec<u8> {
        let now = SystemClock.now().seconds();
        let header = json!({"typ": "JWT", "alg": "RS256", "kid": "demo-2020"});
        let claims = json!({
            "iss": "non-interactive-demo", "sub": "ada@example.com", "aud": "https://identity.example.com/",
            "iat": now, "exp": now + 3600, "jti": unique(),
        });
        let assertion = signed(&self.key, &header, &claims);
        let body = form_body(&[("grant_type", JWT_BEARER), ("assertion", &assertion)]);
        post("/auth/token", &demo_client("non-interactive-demo"), &body)
    }
}

impl Script for Assertions {
    fn prepare(&mut self) {
        let mut signed = self.signed.lock().unwrap();
        while signed.len() < short::count(ASSERTIONS) {
            signed.push(self.sign());
        }
    }

    fn request(&mut self) -> Option<Vec<u8>> {
        self.signed.lock().unwrap().pop()
    }
}

/// Uses refresh tokens in turn. Each response contains the next refresh token.
pub(crate) struct Refreshes {
    web: Web,
    tokens: Vec<String>,
    next: usize,
}

impl Refreshes {
    pub(crate) const fn new(web: Web, tokens: Vec<String>) -> Self {
        let next = 0;
        Self { web, tokens, next }
    }
}

impl Script for Refreshes {
    fn request(&mut self) -> Option<Vec<u8>> {
        let token = &self.tokens[self.next];
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        Some(self.web.token(&fields))
    }

    fn answered(&mut self, reply: &Reply) -> bool {
        assert_ok(reply);
        self.tokens[self.next] = reply.text("refresh_token");
        self.next = (self.next + 1) % self.tokens.len();
        true
    }
}

/// Signed-in browsers get codes in turn, and their application exchanges the codes. Each pair of requests counts once.
pub(crate) struct Codes {
    web: Web,
    browsers: Arc<[String]>,
    next: usize,
    code: Option<String>,
}

impl Codes {
    /// Starts with the browser number `first`.
    pub(crate) const fn new(web: Web, browsers: Arc<[String]>, first: usize) -> Self {
        Self {
            web,
            browsers,
            next: first,
            code: None,
        }
    }
}

impl Script for Codes {
    fn request(&mut self) -> Option<Vec<u8>> {
        let Some(code) = &self.code else {
            return Some(get(&self.web.authorization(), &self.browsers[self.next]));
        };
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", REDIRECT_URI),
            ("code_verifier", VERIFIER),
        ];
        Some(self.web.token(&fields))
    }

    fn answered(&mut self, reply: &Reply) -> bool {
        if self.code.take().is_some() {
            self.next = (self.next + 1) % self.browsers.len();
            return assert_ok(reply);
        }
        assert!(matches!(reply.status, 302 | 303), "{}", reply.head);
        let location = url::Url::parse(reply.headers("location").next().unwrap()).unwrap();
        let code = location.query_pairs().find(|(name, _)| name == "code");
        self.code = Some(code.unwrap().1.into_owned());
        false
    }
}

/// How a client gets tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    ClientCredentials,
    /// With a proof by ES256.
    Bound,
    JwtBearer,
    Refresh,
    Code,
}

impl Grant {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ClientCredentials => "client_credentials",
            Self::Bound => "client_credentials with a DPoP proof",
            Self::JwtBearer => "jwt-bearer",
            Self::Refresh => "refresh_token",
            Self::Code => "authorize in a session, and exchange the code",
        }
    }
}

/// Clients of a server, and browsers of its users.
pub(crate) struct Clients {
    pub(crate) address: SocketAddr,
    pub(crate) web: Web,
    /// A token request of a client that has no user.
    pub(crate) client_credentials: Vec<u8>,
    /// The cookies of browsers whose users are signed in. Each browser has another user, because the number of grants per
    /// user is capped.
    pub(crate) browsers: Arc<[String]>,
}

impl Clients {
    /// The demo's, with a browser for each of these sessions.
    pub(crate) async fn of_demo(address: SocketAddr, sessions: &[String]) -> Self {
        let ada = sign_in(&mut Connection::open(address).await).await;
        Self {
            address,
            web: Web::DEMO,
            client_credentials: client_credentials(),
            browsers: sessions.iter().map(|id| with_session(&ada, id)).collect(),
        }
    }

    /// The scripts of `connections` clients.
    pub(crate) async fn scripts(&self, grant: Grant, connections: usize) -> Scripts {
        let assertions = Assertions::new();
        let mut browser = Connection::open(self.address).await;
        let mut scripts = Scripts::new();
        for number in 0..connections {
            let person = number * self.browsers.len() / connections;
            let mut codes = Codes::new(self.web, Arc::clone(&self.browsers), person);
            scripts.push(match grant {
                Grant::ClientCredentials => Box::new(only(self.client_credentials.clone())),
                Grant::Bound => Box::new(proven()),
                Grant::JwtBearer => Box::new(assertions.clone()),
                Grant::Code => Box::new(codes),
                Grant::Refresh => {
                    let reply = loop {
                        let reply = browser.ask(&codes.request().unwrap()).await;
                        if codes.answered(&reply) {
                            break reply;
                        }
                    };
                    let tokens = vec![reply.text("refresh_token")];
                    Box::new(Refreshes::new(self.web, tokens))
                }
            });
        }
        scripts
    }
}

/// Signs Ada in, and returns the cookies of her browser.
async fn sign_in(connection: &mut Connection) -> String {
    let page = connection.ask(&get(&Web::DEMO.authorization(), "")).await;
    let html = String::from_utf8(page.body.clone()).unwrap();
    let hidden = |name: &str| -> String {
        let start = format!("name=\"{name}\" value=\"");
        let value = html.split_once(&start).unwrap().1.split('"').next();
        value.unwrap().replace("&#38;", "&").replace("&amp;", "&")
    };
    let body = form_body(&[
        ("csrf", &hidden("csrf")),
        ("request", &hidden("request")),
        ("username", "ada@example.com"),
        ("password", "demo-password-of-ada"),
    ]);
    let signed_in = post("/auth/sign-in", &cookies(&page), &body);
    let signed_in = connection.ask(&signed_in).await;
    assert_eq!(signed_in.status, 303, "{}", signed_in.head);
    cookies(&signed_in)
}

/// The cookies of `signed_in` with the session id replaced by `id`.
fn with_session(signed_in: &str, id: &str) -> String {
    let others = |pair: &&str| !pair.starts_with("session");
    let pairs = signed_in.trim_end().trim_start_matches("cookie: ");
    let session = pairs.split("; ").find(|pair| pair.starts_with("session"));
    let name = session.unwrap().split_once('=').unwrap().0;
    let own = format!("{name}={id}");
    let pairs: Vec<&str> = pairs.split("; ").filter(others).chain([&*own]).collect();
    format!("cookie: {}\r\n", pairs.join("; "))
}

fn cookies(reply: &Reply) -> String {
    let set = reply.headers("set-cookie");
    let set: Vec<&str> = set.filter_map(|value| value.split(';').next()).collect();
    format!("cookie: {}\r\n", set.join("; "))
}
