//! Against providers on this machine that are slow, endless, wrong, or change their keys.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use claims::Algorithm as OwnAlgorithm;
use protocol::token::SigningKey;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::telemetry::metrics::ProviderOutcome;

/// Time limit for providers that answer: longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn patience() -> Instant {
    Instant::now() + PATIENCE
}

/// Time limit for a provider that never answers.
const SOON: Duration = Duration::from_millis(400);

/// The error at the end of [`SOON`].
const NO_ANSWER: &str = "no answer within 400ms";

type Handler = Box<dyn Fn(&str, &mut TcpStream) + Send>;

/// A provider that answers each connection as the current handler does. The handler gets the path.
struct Upstream {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    handler: Arc<Mutex<Arc<Mutex<Handler>>>>,
}

impl Upstream {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = Self {
            port: listener.local_addr().unwrap().port(),
            requests: Arc::default(),
            handler: Arc::new(Mutex::new(Self::handler(|_, _| {}))),
        };
        let (requests, handler) = (
            Arc::clone(&upstream.requests),
            Arc::clone(&upstream.handler),
        );
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (requests, handler) = (Arc::clone(&requests), Arc::clone(&handler));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let Some(request) = read(&stream) else {
                        return;
                    };
                    let path = request.split(' ').nth(1).unwrap().to_owned();
                    requests.lock().unwrap().push(request);
                    let handler = Arc::clone(&handler.lock().unwrap());
                    let handle = handler.lock().unwrap();
                    handle(&path, &mut stream);
                });
            }
        });
        upstream
    }

    fn handler(handler: impl Fn(&str, &mut TcpStream) + Send + 'static) -> Arc<Mutex<Handler>> {
        Arc::new(Mutex::new(Box::new(handler)))
    }

    fn answers(&self, handler: impl Fn(&str, &mut TcpStream) + Send + 'static) {
        *self.handler.lock().unwrap() = Self::handler(handler);
    }

    /// Answers like a provider, with these keys, and changes of its metadata. `token`: the answer of the token endpoint.
    fn provides(&self, keys: &[&SigningKey], changes: Value, token: (u16, Value)) {
        let mut metadata = json!({
            "issuer": self.url(""),
            "jwks_uri": self.url("/keys"),
            "authorization_endpoint": self.url("/authorize?tenant=1"),
            "token_endpoint": self.url("/token"),
        });
        let members = changes.as_object().unwrap().clone();
        metadata.as_object_mut().unwrap().extend(members);
        let keys: Vec<_> = keys.iter().map(|key| key.jwk().clone()).collect();
        let keys = json!({ "keys": keys });
        self.answers(move |path, stream| {
            let (status, body) = match path {
                "/.well-known/openid-configuration" => (200, &metadata),
                "/keys" => (200, &keys),
                "/token" => (token.0, &token.1),
                _ => (404, &Value::Null),
            };
            respond(stream, status, "", body.to_string().as_bytes());
        });
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn count(&self, path: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        let start = format!("GET {path} ");
        requests
            .iter()
            .filter(|request| request.starts_with(&start))
            .count()
    }

    fn last(&self) -> String {
        self.requests.lock().unwrap().last().unwrap().clone()
    }

    /// The providers of a configuration with this one, `more` of it, and `text`.
    fn providers(&self, more: &str, text: &str) -> (Providers, IdentityProvider, ProviderMetrics) {
        self.providers_within(PATIENCE, more, text)
    }

    fn providers_within(
        &self,
        limit: Duration,
        more: &str,
        text: &str,
    ) -> (Providers, IdentityProvider, ProviderMetrics) {
        let entry = format!(
            "[[identity_providers]]\nid = 'sso'\nissuer = '{}'\nalgorithms = ['EdDSA']\n{more}\n{text}\n",
            self.url("")
        );
        let config = load(&entry);
        let metrics = ProviderMetrics::default();
        let providers = Providers::within(&config, &metrics, limit).unwrap();
        (
            providers,
            config.protocol.identity_providers[0].clone(),
            metrics,
        )
    }
}

fn load(text: &str) -> Config {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    Config::load(Some(&path), []).unwrap()
}

/// The head and body of a request.
fn read(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
    }
    let lower = request.to_ascii_lowercase();
    let length = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    request.push_str(&String::from_utf8(body).unwrap());
    Some(request)
}

fn respond(stream: &mut TcpStream, status: u16, headers: &str, body: &[u8]) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
}

/// Until the client hangs up.
fn wait(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0]);
}

fn signing_key() -> SigningKey {
    signing_key_of(OwnAlgorithm::EdDsa)
}

fn signing_key_of(algorithm: OwnAlgorithm) -> SigningKey {
    let pkcs8 = SigningKey::generate_pkcs8(algorithm).unwrap();
    SigningKey::from_pkcs8(algorithm, &pkcs8).unwrap()
}

const ALGORITHM: Algorithm = Algorithm::EdDsa;

fn nothing() -> Value {
    json!({})
}

/// A client with a secret, in a folder that must live on.
fn secret() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, "s: cret+\n").unwrap();
    let text = format!(
        "client_id = 'a:b'\nclient_secret_file = '{}'",
        path.display()
    );
    (folder, text)
}

#[tokio::test]
async fn keys_and_endpoints_come_with_one_fetch_at_the_first_use() {
    let upstream = Upstream::start();
    let key = signing_key();
    let changes = json!({
        "authorization_response_iss_parameter_supported": true,
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    });
    upstream.provides(&[&key], changes, (404, nothing()));
    let (_folder, client) = secret();
    let (providers, provider, metrics) = upstream.providers(&client, "");
    for _ in 0..3 {
        let found = providers
            .key(&provider, key.kid(), ALGORITHM)
            .await
            .unwrap();
        assert_eq!(found.unwrap().kid, key.kid());
        let expected = Endpoints {
            authorization_endpoint: upstream.url("/authorize?tenant=1").parse().unwrap(),
            token_endpoint: upstream.url("/token").parse().unwrap(),
            iss_parameter_supported: true,
            token_endpoint_auth_methods: vec!["client_secret_post".to_owned()],
        };
        assert_eq!(*providers.endpoints(&provider).await.unwrap(), expected);
    }
    assert_eq!(upstream.requests.lock().unwrap().len(), 2);
    for request in ["metadata", "keys"] {
        assert_eq!(metrics.counted("sso", request, ProviderOutcome::Ok), 1);
    }
}

#[tokio::test]
async fn a_flood_of_unknown_keys_costs_one_fetch_and_hides_no_new_key() {
    let upstream = Upstream::start();
    let (old, new) = (signing_key(), signing_key());
    upstream.provides(&[&old], nothing(), (404, nothing()));
    let (providers, provider, _) = upstream.providers("", "");
    let key = async |kid: &str| providers.key(&provider, kid, ALGORITHM).await.unwrap();
    assert!(key(old.kid()).await.is_some());
    let flood = || async {
        let unknown = (0..200).map(|number| {
            let kid = format!("unknown-{number}");
            let (providers, provider) = (&providers, &provider);
            async move { providers.key(provider, &kid, ALGORITHM).await }
        });
        let found = join_all(unknown).await;
        assert!(found.iter().all(|found| matches!(found, Ok(None))));
    };
    let start = Instant::now();
    flood().await;
    assert_eq!(upstream.count("/keys"), 2);
    for _ in 0..5 {
        // The next fetch is not due yet.
        let _ = timeout(Duration::from_millis(20), flood()).await;
    }
    // The schedule counts whole seconds.
    let most = 2 + start.elapsed().as_secs().div_ceil(2);
    assert!(upstream.count("/keys") as u64 <= most);
    upstream.provides(&[&new], nothing(), (404, nothing()));
    assert!(
        key(old.kid()).await.is_some(),
        "known keys wait for nothing"
    );
    // The next fetch is due within two seconds, and the request waits for it.
    assert!(key(new.kid()).await.is_some());
    assert!(upstream.count("/keys") as u64 <= most + 1);
    assert!(
        providers.0["sso"]
            .state()
            .keys
            .get(old.kid(), ALGORITHM)
            .is_none()
    );
}

#[tokio::test]
async fn what_was_fetched_stays_in_use_during_an_outage() {
    let upstream = Upstream::start();
    let key = signing_key();
    upstream.provides(&[&key], nothing(), (404, nothing()));
    let (_folder, client) = secret();
    let (providers, provider, metrics) = upstream.providers(&client, "");
    providers.endpoints(&provider).await.unwrap();
    upstream.answers(|_, stream| respond(stream, 503, "", b""));
    let unknown = providers.key(&provider, "unknown", ALGORITHM).await;
    let expected = Unavailable {
        provider: "sso".to_owned(),
        why: format!(
            "metadata: GET {}: status 503",
            upstream.url("/.well-known/openid-configuration")
        ),
    };
    assert_eq!(unknown.unwrap_err(), expected);
    assert_eq!(
        metrics.counted("sso", "metadata", ProviderOutcome::Status),
        1
    );
    assert!(
        providers
            .key(&provider, key.kid(), ALGORITHM)
            .await
            .unwrap()
            .is_some()
    );
    assert!(providers.endpoints(&provider).await.is_ok());
    // No keys, or keys that nobody can use, replace nothing.
    let of_another_algorithm = signing_key_of(OwnAlgorithm::Es256);
    for (keys, why) in [
        (vec![], "keys: the JWK set has no keys"),
        (vec![&of_another_algorithm], "keys: no key is usable"),
    ] {
        upstream.provides(&keys, nothing(), (404, nothing()));
        let error = providers.probe(&provider).await.unwrap_err();
        assert!(error.why.starts_with(why), "{error}");
        let known = providers.key(&provider, key.kid(), ALGORITHM).await;
        assert!(known.unwrap().is_some(), "{why}");
    }
}

#[tokio::test]
async fn hostile_answers_are_bounded_and_named() {
    let elsewhere = Upstream::start();
    let foreign = elsewhere.url("/x");
    let (_folder, client) = secret();
    let refused = async |why: &str, set_up: &dyn Fn(&Upstream)| {
        let upstream = Upstream::start();
        set_up(&upstream);
        let limit = if why == NO_ANSWER { SOON } else { PATIENCE };
        let (providers, provider, _) = upstream.providers_within(limit, &client, "");
        let endpoints = timeout(2 * PATIENCE, providers.endpoints(&provider)).await;
        let error = endpoints.expect(why).unwrap_err();
        // The fetch and those who wait for it end at the same moment.
        let is_late = why == NO_ANSWER && error.why.ends_with(why);
        assert!(error.why.starts_with(why) || is_late, "{why}: {error}");
        assert!(error.why.len() < 400, "{why}");
    };
    type Answers = fn(&mut TcpStream);
    let handlers: [(&str, Answers); 7] = [
        (NO_ANSWER, wait),
        ("metadata: ", |_| {}),
        ("metadata: ", |stream| {
            drop(stream.write_all(b"SSH-2.0-x\r\n"));
        }),
        ("metadata: ", |stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            while stream.write_all(b"x: aaaaaaaaaaaaaaaa\r\n").is_ok() {}
        }),
        ("metadata: larger than", |stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b' '; 4096]).is_ok() {}
        }),
        (NO_ANSWER, |stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            let interval = Some(Duration::from_millis(50));
            stream.set_read_timeout(interval).unwrap();
            while stream.write_all(b" ").is_ok() {
                wait(stream);
            }
        }),
        ("metadata: ", |stream| {
            let deep = format!("{{\"a\":{}", "[".repeat(100_000));
            respond(stream, 200, "", deep.as_bytes());
        }),
    ];
    for (why, handler) in handlers {
        let set_up = |upstream: &Upstream| upstream.answers(move |_, stream| handler(stream));
        refused(why, &set_up).await;
    }
    let redirects = |upstream: &Upstream| {
        let location = format!("location: {foreign}\r\n");
        upstream.answers(move |_, stream| respond(stream, 302, &location, b""));
    };
    refused("metadata: GET http://127.0.0.1:", &redirects).await;
    let script = "javascript:alert(1)//";
    for (name, value, why) in [
        ("issuer", &*foreign, "its issuer is not"),
        ("jwks_uri", &foreign, "its jwks_uri is at http://127.0.0.1:"),
        ("token_endpoint", &foreign, "its token_endpoint is at http"),
        (
            "authorization_endpoint",
            script,
            "its authorization_endpoint is no http",
        ),
    ] {
        let set_up = |upstream: &Upstream| {
            let token = (404, nothing());
            upstream.provides(&[&signing_key()], json!({name: value}), token);
        };
        refused(&format!("metadata: {why}"), &set_up).await;
    }
    let jwk = serde_json::to_string(signing_key().jwk()).unwrap();
    let list = |one: &str, count| format!("{{\"keys\":[{}]}}", vec![one; count].join(","));
    for (body, why) in [
        (list(&jwk, 10_000), "larger than"),
        (list("1", 100_000), "no key is usable: key 0: not an object"),
        ("{}".to_owned(), "it has no list"),
        (list("", 0), "the JWK set has no keys"),
    ] {
        let set_up = |upstream: &Upstream| {
            let body = body.clone();
            let metadata = json!({"issuer": upstream.url(""), "jwks_uri": upstream.url("/keys")});
            upstream.answers(move |path, stream| match path {
                "/keys" => respond(stream, 200, "", body.as_bytes()),
                _ => respond(stream, 200, "", metadata.to_string().as_bytes()),
            });
        };
        refused(&format!("keys: {why}"), &set_up).await;
    }
    assert_eq!(elsewhere.requests.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn further_hosts_are_reached_if_they_are_listed() {
    let (upstream, elsewhere) = (Upstream::start(), Upstream::start());
    let key = signing_key();
    upstream.provides(
        &[],
        json!({"jwks_uri": elsewhere.url("/keys")}),
        (404, nothing()),
    );
    elsewhere.provides(&[&key], nothing(), (404, nothing()));
    let hosts = format!("hosts = ['127.0.0.1:{}']", elsewhere.port);
    let (providers, provider, _) = upstream.providers(&hosts, "");
    let found = providers
        .key(&provider, key.kid(), ALGORITHM)
        .await
        .unwrap();
    assert!(found.is_some() && elsewhere.count("/keys") == 1);
    let error = providers.endpoints(&provider).await.unwrap_err();
    assert!(error.why.contains("no client_id"), "{error}");
}

#[tokio::test]
async fn keys_in_a_file_are_read_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("jwks.json");
    let (old, new) = (signing_key(), signing_key());
    let write = |key: &SigningKey| {
        let text = json!({"keys": [key.jwk()]}).to_string();
        std::fs::write(&path, text).unwrap();
    };
    let upstream = Upstream::start();
    let (providers, provider, _) =
        upstream.providers(&format!("jwks_file = '{}'", path.display()), "");
    let missing = providers.key(&provider, old.kid(), ALGORITHM).await;
    assert!(missing.unwrap_err().why.contains("jwks.json"));
    for key in [&old, &new] {
        write(key);
        let found = providers
            .key(&provider, key.kid(), ALGORITHM)
            .await
            .unwrap();
        assert!(found.is_some());
    }
    assert_eq!(upstream.requests.lock().unwrap().len(), 0);
}

fn form(request: &str) -> BTreeMap<String, String> {
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    url::form_urlencoded::parse(body.as_bytes())
        .into_owned()
        .collect()
}

#[tokio::test]
async fn a_code_is_redeemed_with_the_method_that_the_provider_offers() {
    let upstream = Upstream::start();
    let (folder, client) = secret();
    let answer = json!({"id_token": "a.b.c", "access_token": "x", "token_type": "Bearer"});
    for (methods, is_post) in [
        (json!(null), false),
        (json!(["client_secret_post", "client_secret_basic"]), false),
        (json!(["client_secret_post"]), true),
    ] {
        let changes = json!({"token_endpoint_auth_methods_supported": methods});
        upstream.provides(&[&signing_key()], changes, (200, answer.clone()));
        let (providers, provider, metrics) = upstream.providers(&client, "");
        let redeemed = providers
            .redeem(
                &provider,
                "c&d",
                "https://a.example/r",
                "verifier",
                patience(),
            )
            .await;
        assert_eq!(redeemed.unwrap(), "a.b.c");
        let request = upstream.last();
        assert!(request.starts_with("POST /token HTTP/1.1\r\n"), "{request}");
        let mut expected = vec![
            ("grant_type", "authorization_code"),
            ("code", "c&d"),
            ("redirect_uri", "https://a.example/r"),
            ("code_verifier", "verifier"),
        ];
        if is_post {
            expected.extend([("client_id", "a:b"), ("client_secret", "s: cret+")]);
        }
        let expected = expected
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(form(&request), expected.collect());
        let basic = format!(
            "authorization: Basic {}\r\n",
            STANDARD.encode("a%3Ab:s%3A+cret%2B")
        );
        assert_eq!(request.contains(&basic), !is_post, "{request}");
        assert_eq!(metrics.counted("sso", "token", ProviderOutcome::Ok), 1);
        // A new secret needs no restart.
        std::fs::write(folder.path().join("secret"), "new").unwrap();
        providers
            .redeem(&provider, "c", "r", "v", patience())
            .await
            .unwrap();
        let basic = format!("authorization: Basic {}\r\n", STANDARD.encode("a%3Ab:new"));
        assert!(is_post || upstream.last().contains(&basic));
        std::fs::write(folder.path().join("secret"), "\u{feff}s: cret+\n").unwrap();
    }
}

#[tokio::test]
async fn a_code_is_redeemed_with_a_key() {
    let upstream = Upstream::start();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("key.pem");
    let pkcs8 = SigningKey::generate_pkcs8(OwnAlgorithm::Es256).unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(&*pkcs8)
    );
    std::fs::write(&path, pem).unwrap();
    let key = SigningKey::from_pkcs8(OwnAlgorithm::Es256, &pkcs8).unwrap();
    upstream.provides(
        &[&signing_key()],
        nothing(),
        (200, json!({"id_token": "a.b.c"})),
    );
    let client = format!("client_id = 'c'\nclient_key_file = '{}'", path.display());
    let (providers, provider, _) = upstream.providers(&client, "");
    providers
        .redeem(&provider, "c", "r", "v", patience())
        .await
        .unwrap();
    let form = form(&upstream.last());
    assert_eq!(
        form["client_assertion_type"],
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    );
    assert!(!form.contains_key("client_secret") && form["client_id"] == "c");
    let (input, signature) = form["client_assertion"].rsplit_once('.').unwrap();
    assert!(key.verifies(
        input.as_bytes(),
        &URL_SAFE_NO_PAD.decode(signature).unwrap()
    ));
    let part = |index| {
        let part = URL_SAFE_NO_PAD
            .decode(input.split('.').nth(index).unwrap())
            .unwrap();
        serde_json::from_slice::<Value>(&part).unwrap()
    };
    assert_eq!(part(0)["kid"], key.kid());
    let claims = part(1);
    assert_eq!((&claims["iss"], &claims["sub"]), (&json!("c"), &json!("c")));
    assert_eq!(claims["aud"], upstream.url(""));
    assert_eq!(
        claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(),
        60
    );
}

#[tokio::test]
async fn answers_that_bring_no_id_token_are_told_apart() {
    let refused = |error: &str, description: Option<&str>| RedeemError::Refused {
        error: error.to_owned(),
        description: description.map(str::to_owned),
    };
    let unavailable = |why: &str| {
        RedeemError::from(Unavailable {
            provider: "sso".to_owned(),
            why: why.to_owned(),
        })
    };
    let malformed = |why: &str| RedeemError::Malformed(why.to_owned());
    let upstream = Upstream::start();
    let (_folder, client) = secret();
    for (status, body, outcome, expected) in [
        (
            400,
            json!({"error": "invalid_grant"}),
            ProviderOutcome::Refused,
            refused("invalid_grant", None),
        ),
        (
            401,
            json!({"error": "invalid_client", "error_description": "expired\r\nx"}),
            ProviderOutcome::InvalidClient,
            refused("invalid_client", Some("expiredx")),
        ),
        (
            503,
            json!({"error": "x"}),
            ProviderOutcome::Status,
            unavailable("status 503"),
        ),
        (
            200,
            json!({"access_token": "x"}),
            ProviderOutcome::Malformed,
            malformed("status 200: no id_token"),
        ),
        (
            302,
            json!({"id_token": "a.b.c"}),
            ProviderOutcome::Malformed,
            malformed("status 302: neither an ID token nor an error"),
        ),
        (
            400,
            json!([]),
            ProviderOutcome::Malformed,
            malformed("status 400: not a JSON object"),
        ),
        (
            200,
            json!({"id_token": "a".repeat(200_000)}),
            ProviderOutcome::Malformed,
            malformed("status 200: larger than 131072 bytes"),
        ),
    ] {
        upstream.provides(&[&signing_key()], nothing(), (status, body));
        let (providers, provider, metrics) = upstream.providers(&client, "");
        let redeemed = providers.redeem(&provider, "c", "r", "v", patience()).await;
        assert_eq!(redeemed.unwrap_err(), expected);
        assert_eq!(metrics.counted("sso", "token", outcome), 1, "{expected:?}");
    }
}

/// More people than there are threads for one provider wait for it, and nobody else does.
#[tokio::test]
async fn a_provider_that_hangs_takes_nothing_from_others() {
    let (slow, quick) = (Upstream::start(), Upstream::start());
    let (_folder, client) = secret();
    for (upstream, status) in [(&slow, 200), (&quick, 200)] {
        upstream.provides(
            &[&signing_key()],
            nothing(),
            (status, json!({"id_token": "a.b.c"})),
        );
    }
    let second = format!(
        "[[identity_providers]]\nid = 'quick'\nissuer = '{}'\nalgorithms = ['EdDSA']\n{client}",
        quick.url("")
    );
    let (providers, provider, metrics) = slow.providers(&client, &second);
    let other = IdentityProvider {
        id: "quick".to_owned(),
        ..provider.clone()
    };
    providers.endpoints(&provider).await.unwrap();
    providers.endpoints(&other).await.unwrap();
    slow.answers(|_, stream| wait(stream));
    // Until then, the other provider must have answered.
    let until = Instant::now() + Duration::from_secs(3);
    let redeem = |_| providers.redeem(&provider, "c", "r", "v", until);
    let waiting = join_all((0..3 * REDEMPTIONS).map(redeem));
    let mut waiting = Box::pin(timeout(PATIENCE, waiting));
    let redeemed = tokio::select! {
        biased;
        _ = &mut waiting => panic!("the slow one was quicker"),
        redeemed = providers.redeem(&other, "c", "r", "v", patience()) => redeemed,
    };
    assert_eq!(redeemed.unwrap(), "a.b.c");
    let failed = waiting.await.unwrap();
    assert!(
        failed
            .iter()
            .all(|one| matches!(one, Err(RedeemError::Unavailable(_)))),
        "{failed:?}"
    );
    let asked = slow
        .requests
        .lock()
        .unwrap()
        .iter()
        .filter(|request| request.starts_with("POST"))
        .count();
    assert!(asked <= REDEMPTIONS, "{asked}");
    let counted = metrics.counted("sso", "token", ProviderOutcome::NoAnswer);
    assert_eq!(counted, 3 * REDEMPTIONS as u64);
}

#[test]
fn files_that_cannot_be_used_stop_the_start() {
    let folder = TempDir::new().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    let of = |keys: &str| {
        let text = format!(
            "[[identity_providers]]\nid = 'sso'\nissuer = 'https://sso.example.com'\n{keys}\n"
        );
        let error = Providers::new(&load(&text), &ProviderMetrics::default()).unwrap_err();
        format!("{error:#}")
    };
    let empty = empty.display();
    assert_eq!(
        of(&format!("client_id = 'c'\nclient_secret_file = '{empty}'")),
        format!("identity provider sso: client_secret_file: {empty}: is empty")
    );
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "one\ntwo\n").unwrap();
    let lines = lines.display();
    assert_eq!(
        of(&format!("client_id = 'c'\nclient_secret_file = '{lines}'")),
        format!(
            "identity provider sso: client_secret_file: {lines}: has several lines; a secret is one"
        )
    );
    let key = of(&format!("client_id = 'c'\nclient_key_file = '{empty}'"));
    assert!(key.contains("expected a private key in PEM"), "{key}");
    assert!(of("ca_file = '/nowhere.pem'").contains("/nowhere.pem"));
}
