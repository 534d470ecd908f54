//! The requests of the demo's clients, one script per grant type.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use claims::Algorithm;
use domain::clock::Clock as _;
use protocol::token::SigningKey;
use serde_json::{Value, json};
use system::SystemClock;
use tests::browsing::form_body;
use tests::load::JWT_BEARER;

use super::seed::REDIRECT_URI;
use crate::http::{Connection, InTurn, Reply, Script, Scripts, assert_ok, basic, get, post};
use crate::short;

/// Assertions that are signed before a block. The block ends when they are used up.
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
    proven_by("")
}

/// The same, with a header for the proof.
fn proven_by(proof: &str) -> Vec<u8> {
    let headers = demo_client("user-bound-demo") + proof;
    let body = form_body(&[
        ("grant_type", "client_credentials"),
        ("user_id", "1879048402"),
        ("user_site", "https://us1.example.com"),
    ]);
    post("/auth/token", &headers, &body)
}

/// The id of the registered user-bound client `number`.
pub(crate) fn bound_client(number: usize) -> String {
    format!("bound-{number:08}")
}

/// The secret of [`bound_client`].
pub(crate) fn bound_secret(number: usize) -> String {
    format!("secret-of-bound-{number:08}-not-for-real-use")
}

/// Distance of clients that ask one after the other. Without a factor in common with a power of ten, so that all clients
/// have their turn.
const STRIDE: usize = 7_368_787;

/// Gets tokens for user-bound clients.
pub(crate) struct Bound {
    next: usize,
    stride: usize,
    count: usize,
}

impl Bound {
    /// One client.
    pub(crate) const fn only(number: usize) -> Self {
        Self {
            next: number,
            stride: 0,
            count: number + 1,
        }
    }

    /// All `count` clients in turn, from `first` on.
    pub(crate) const fn all(first: usize, count: usize) -> Self {
        Self {
            next: first,
            stride: STRIDE,
            count,
        }
    }
}

impl Script for Bound {
    fn request(&mut self) -> Option<Vec<u8>> {
        let number = self.next;
        self.next = (number + self.stride) % self.count;
        Some(token_request(
            number,
            &bound_client(number),
            &bound_secret(number),
        ))
    }
}

fn token_request(user_id: usize, client_id: &str, secret: &str) -> Vec<u8> {
    let body = form_body(&[
        ("grant_type", "client_credentials"),
        ("user_id", &user_id.to_string()),
        ("user_site", "https://us1.example.com"),
    ]);
    post("/auth/token", &basic(client_id, secret), &body)
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
        let client_id = format!("guess-{}", self.0);
        Some(token_request(1, &client_id, "guessed"))
    }

    fn answered(&mut self, reply: &Reply) -> bool {
        assert!(matches!(reply.status, 401 | 429), "{}", reply.head);
        true
    }
}

/// Requests with a proof each, by several keys in turn: the service remembers only so many proofs of one key.
pub(crate) struct Proven {
    keys: Vec<SigningKey>,
    number: usize,
}

impl Proven {
    pub(crate) fn client_credentials() -> Self {
        let key = |_| {
            let key = SigningKey::generate_pkcs8(Algorithm::Es256).unwrap();
            SigningKey::from_pkcs8(Algorithm::Es256, &key).unwrap()
        };
        Self {
            keys: (0..8).map(key).collect(),
            number: 0,
        }
    }
}

impl Script for Proven {
    fn request(&mut self) -> Option<Vec<u8>> {
        self.number += 1;
        let key = &self.keys[self.number % self.keys.len()];
        let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": key.jwk().key});
        let claims = json!({
            "jti": format!("bench-{}", self.number), "htm": "POST", "htu": format!("{ISSUER}/auth/token"),
            "iat": SystemClock.now().seconds(),
        });
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", part(header), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(input.as_bytes()).unwrap());
        let proof = format!("dpop: {input}.{signature}\r\n");
        Some(proven_by(&proof))
    }
}

/// Assertions that were signed in advance. Each is valid for one request.
#[derive(Clone)]
pub(crate) struct Assertions(pub(crate) Arc<Mutex<Vec<Vec<u8>>>>);

impl Script for Assertions {
    fn request(&mut self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().pop()
    }
}

/// Creates requests with one assertion each.
pub(crate) struct Assertor {
    key: SigningKey,
    signed: usize,
}

impl Assertor {
    pub(crate) fn new() -> Self {
        let pem = include_str!("../../../demo/non-interactive-demo.key.pem");
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(base64).unwrap();
        Self {
            key: SigningKey::from_pkcs8(Algorithm::Rs256, &der).unwrap(),
            signed: 0,
        }
    }

    pub(crate) fn sign(&mut self, count: usize) -> Assertions {
        let requests = (self.signed..self.signed + count).map(|number| self.request(number));
        let requests = requests.collect();
        self.signed += count;
        Assertions(Arc::new(Mutex::new(requests)))
    }

    fn request(&self, number: usize) -> Vec<u8> {
        let now = SystemClock.now().seconds();
        let header = json!({"typ": "JWT", "alg": "RS256", "kid": "demo-2020"}).to_string();
        let claims = json!({
            "iss": "non-interactive-demo", "sub": "ada@example.com", "aud": "https://identity.example.com/",
            "iat": now, "exp": now + 3600, "jti": format!("bench-{now}-{number}"),
        });
        let input = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims.to_string())
        );
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(input.as_bytes()).unwrap());
        let body = form_body(&[
            ("grant_type", JWT_BEARER),
            ("assertion", &format!("{input}.{signature}")),
        ]);
        post("/auth/token", &demo_client("non-interactive-demo"), &body)
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
    assertor: Assertor,
}

impl Clients {
    pub(crate) fn new(
        address: SocketAddr,
        web: Web,
        client_credentials: Vec<u8>,
        browsers: Arc<[String]>,
    ) -> Self {
        let assertor = Assertor::new();
        Self {
            address,
            web,
            client_credentials,
            browsers,
            assertor,
        }
    }

    /// The demo's, with a browser for each of these sessions.
    pub(crate) async fn of_demo(address: SocketAddr, sessions: &[String]) -> Self {
        let ada = sign_in(&mut Connection::open(address).await).await;
        let browsers = sessions.iter().map(|id| with_session(&ada, id)).collect();
        Self::new(address, Web::DEMO, client_credentials(), browsers)
    }

    /// The scripts of `connections` clients.
    pub(crate) async fn scripts(&mut self, grant: Grant, connections: usize) -> Scripts {
        let signed = match grant {
            Grant::JwtBearer => short::count(ASSERTIONS),
            _ => 0,
        };
        let assertions = self.assertor.sign(signed);
        let mut browser = Connection::open(self.address).await;
        let mut scripts = Scripts::new();
        for number in 0..connections {
            let person = number * self.browsers.len() / connections;
            let mut codes = Codes::new(self.web, Arc::clone(&self.browsers), person);
            scripts.push(match grant {
                Grant::ClientCredentials => Box::new(InTurn::only(self.client_credentials.clone())),
                Grant::Bound => Box::new(Proven::client_credentials()),
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
