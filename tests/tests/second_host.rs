//! The filter in an independent proxy-wasm host that has only the standard ABI: no foreign functions, no metadata.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{Fate, OTHER_ROOT, ROOT, SharedData, WasmHost};

const NOW: u64 = 1_800_000_000;
const KEYS: (&str, &str) = ("token-service", "/auth/jwks");
const FEED: &str = "token-service-internal";
const FROM_START: &str = "/revocations?version=2&since=0";

/// Keys of every algorithm that the filter verifies without its host; each algorithm is the `kid` of its key.
struct Issuer {
    ed25519: Ed25519KeyPair,
    p256: EcdsaKeyPair,
    rsa: RsaKeyPair,
}

const ALGORITHMS: [&str; 6] = ["EdDSA", "ES256", "RS256", "RS384", "RS512", "PS256"];

impl Issuer {
    fn new() -> Self {
        Self {
            ed25519: Ed25519KeyPair::generate().unwrap(),
            p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            rsa: RsaKeyPair::generate(rsa::KeySize::Rsa2048).unwrap(),
        }
    }

    fn jwks(&self) -> String {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = self.p256.public_key().as_ref()[1..].split_at(32);
        let public = self.rsa.public_key();
        let mut keys = vec![
            json!({"kid": "EdDSA", "kty": "OKP", "crv": "Ed25519", "x": text(self.ed25519.public_key().as_ref())}),
            json!({"kid": "ES256", "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y)}),
        ];
        keys.extend(["RS256", "RS384", "RS512", "PS256"].map(|algorithm| {
            json!({"kid": algorithm, "alg": algorithm, "kty": "RSA",
                   "n": text(public.modulus().big_endian_without_leading_zero()),
                   "e": text(public.exponent().big_endian_without_leading_zero())})
        }));
        json!({ "keys": keys }).to_string()
    }

    fn token(&self, algorithm: &str, jti: &str) -> String {
        self.token_since(algorithm, jti, NOW)
    }

    /// A token that is valid for an hour.
    fn token_since(&self, algorithm: &str, jti: &str, iat: u64) -> String {
        let header = json!({"typ": "at+jwt", "alg": algorithm, "kid": algorithm});
        let claims = json!({
            "iss": "https://lobby.example.com", "aud": "https://api.example.com",
            "sub": "ada@example.com", "client_id": "web", "user_id": "1879048401", "scope": "projects",
            "iat": iat, "exp": iat + 3600, "jti": jti, "grant_id": "grant-1",
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", part(&header), part(&claims));
        let message = input.as_bytes();
        let random = SystemRandom::new();
        let signature = match algorithm {
            "EdDSA" => self.ed25519.sign(message).as_ref().to_vec(),
            "ES256" => self.p256.sign(&random, message).unwrap().as_ref().to_vec(),
            rsa => {
                let encoding: &dyn RsaEncoding = match rsa {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                self.rsa
                    .sign(encoding, &random, message, &mut signature)
                    .unwrap();
                signature
            }
        };
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn configuration() -> String {
    json!({
        "issuers": [{
            "issuer": "https://lobby.example.com",
            "audiences": ["https://api.example.com"],
            "algorithms": ALGORITHMS,
            "jwks": {"cluster": KEYS.0, "path": KEYS.1},
            "revocations": {"cluster": FEED, "path": "/revocations", "poll_seconds": 2},
        }],
        "rules": [{"path_prefix": "/api/"}],
        "forward": {"x-user-id": "user_id", "x-client-id": "client_id"},
        "forward_authorization": false,
    })
    .to_string()
}

/// A filter that has started to fetch.
fn host() -> WasmHost {
    let mut host = WasmHost::load(NOW);
    assert!(host.configure(&configuration()), "{}", host.log());
    assert_ne!(host.tick_milliseconds(), 0, "ticks are asked for");
    host.tick_after(0);
    host
}

/// A filter that has read the keys and an empty feed.
fn ready_host(issuer: &Issuer) -> WasmHost {
    ready_host_with(&issuer.jwks())
}

fn ready_host_with(jwks: &str) -> WasmHost {
    let mut host = host();
    let keys = host.take_call(KEYS.0, KEYS.1);
    host.answer_call(&keys, jwks);
    let feed = host.take_call(FEED, FROM_START);
    host.answer_call(&feed, r#"{"revocations":[],"last":0}"#);
    host
}

fn send(host: &mut WasmHost, token: &str) -> (u32, Fate) {
    let authorization = format!("Bearer {token}");
    host.request(&[
        (":method", "GET"),
        (":path", "/api/projects"),
        ("authorization", &authorization),
        ("x-user-id", "spoofed"),
        ("accept", "application/json"),
    ])
}

/// Sends a request that must not wait.
fn decide(host: &mut WasmHost, token: &str) -> Fate {
    let (context, fate) = send(host, token);
    host.end(context);
    fate
}

fn passed() -> Fate {
    let headers = [
        (":method", "GET"),
        (":path", "/api/projects"),
        ("accept", "application/json"),
        ("x-client-id", "web"),
        ("x-user-id", "1879048401"),
    ];
    Fate::Passed(
        headers
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    )
}

#[track_caller]
fn assert_refused(fate: &Fate, description: &str) {
    let Fate::Answered(401, body) = fate else {
        panic!("{fate:?}");
    };
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"], "invalid_token");
    assert_eq!(body["error_description"], description);
}

#[test]
fn good_tokens_of_every_algorithm_pass_and_bad_ones_are_refused() {
    let issuer = Issuer::new();
    let mut host = ready_host(&issuer);
    for algorithm in ALGORITHMS {
        let token = issuer.token(algorithm, algorithm);
        assert_eq!(
            decide(&mut host, &token),
            passed(),
            "{algorithm}, first sight"
        );
        assert_eq!(decide(&mut host, &token), passed(), "{algorithm}, again");
        // Another token's signature.
        let other = issuer.token(algorithm, "other");
        let (input, _) = token.rsplit_once('.').unwrap();
        let (_, signature) = other.rsplit_once('.').unwrap();
        assert_refused(
            &decide(&mut host, &format!("{input}.{signature}")),
            "The signature of the access token is wrong",
        );
    }
    host.tick_after(1);
    let count = ALGORITHMS.len() as u64;
    assert_eq!(host.metric("token_filter.allowed"), 2 * count);
    assert_eq!(host.metric("token_filter.denied.reason.signature"), count);
    for algorithm in ["rs256", "rs384", "rs512", "es256", "es384"] {
        let metric = format!("token_filter.host_verifies_{algorithm}");
        assert_eq!(host.metric(&metric), 0);
    }
}

#[test]
fn a_revoked_token_is_refused_after_the_next_poll() {
    let issuer = Issuer::new();
    let mut host = ready_host(&issuer);
    let (revoked, other) = (issuer.token("EdDSA", "one"), issuer.token("EdDSA", "two"));
    assert_eq!(decide(&mut host, &revoked), passed());
    host.tick_after(3);
    let feed = host.take_call(FEED, FROM_START);
    let page = json!({
        "revocations": [{"sequence": 1, "kind": "token", "id": "one", "at": NOW, "exp": NOW + 3600}],
        "last": 1,
    });
    host.answer_call(&feed, &page.to_string());
    assert_refused(
        &decide(&mut host, &revoked),
        "The access token has been revoked",
    );
    assert_eq!(decide(&mut host, &other), passed());
}

#[test]
fn a_request_before_the_keys_waits_for_them() {
    let issuer = Issuer::new();
    let mut host = host();
    let (context, fate) = send(&mut host, &issuer.token("EdDSA", "one"));
    assert_eq!(fate, Fate::Held);
    let feed = host.take_call(FEED, FROM_START);
    host.answer_call(&feed, r#"{"revocations":[],"last":0}"#);
    assert_eq!(host.fate(context), Fate::Held);
    let keys = host.take_call(KEYS.0, KEYS.1);
    host.answer_call(&keys, &issuer.jwks());
    assert_eq!(host.fate(context), passed());
    host.end(context);
}

/// A rotation of keys refuses no request: a fetch that started before the request arrived may lack the new key.
/// Whatever clients send, the filter fetches at most once in two seconds.
#[test]
fn an_unknown_key_is_looked_for_by_a_fetch_that_starts_after_the_request() {
    let issuer = Issuer::new();
    let mut jwks: Value = serde_json::from_str(&issuer.jwks()).unwrap();
    jwks["keys"].as_array_mut().unwrap().remove(0);
    let before = jwks.to_string();
    let mut host = ready_host_with(&before);
    let token = issuer.token("EdDSA", "one");
    let (early, fate) = send(&mut host, &token);
    assert_eq!(fate, Fate::Held);
    host.tick_after(0);
    let hurried = host.take_call(KEYS.0, KEYS.1);
    let (late, fate) = send(&mut host, &token);
    assert_eq!(fate, Fate::Held);
    host.answer_call(&hurried, &before);
    let unknown = "The access token names a key that its issuer does not have";
    assert_refused(&host.fate(early), unknown);
    assert_eq!(host.fate(late), Fate::Held);

    for _ in 0..2 {
        assert!(!host.has_call(KEYS.0, KEYS.1));
        host.tick_after(1);
    }
    let next = host.take_call(KEYS.0, KEYS.1);
    host.answer_call(&next, &issuer.jwks());
    assert_eq!(host.fate(late), passed());
}

/// Most requests that one callback may answer. Envoy nests the answers, and V8's stack overflows after about 315.
const BATCH: usize = 32;

/// Calls `release`, after which waiting requests continue. That callback and each later tick decide about at most
/// [`BATCH`] requests.
fn assert_in_batches(host: &mut WasmHost, waiting: &[u32], release: impl FnOnce(&mut WasmHost)) {
    let mut decided = host.decided().len();
    let first = decided;
    release(host);
    loop {
        let now = host.decided().len();
        assert!(now - decided <= BATCH, "{} in one callback", now - decided);
        if now - first == waiting.len() {
            break;
        }
        assert_eq!(now - decided, BATCH, "nobody waits without need");
        assert_eq!(host.tick_milliseconds(), 1, "the next ones are due at once");
        decided = now;
        host.tick_after(0);
    }
    assert_eq!(
        host.decided()[first..],
        *waiting,
        "first come, first served"
    );
    assert_eq!(
        host.tick_milliseconds(),
        1000,
        "nobody is in a hurry any more"
    );
}

/// Waiting requests, in the order of their arrival.
fn send_many(host: &mut WasmHost, token: &str) -> Vec<u32> {
    let requests = (0..200).map(|_| {
        let (context, fate) = send(host, token);
        assert_eq!(fate, Fate::Held);
        context
    });
    requests.collect()
}

#[test]
fn no_callback_answers_more_requests_than_the_stack_holds() {
    let issuer = Issuer::new();
    let good = issuer.token("EdDSA", "one");
    let nothing_revoked = r#"{"revocations":[],"last":0}"#;

    // The keys arrive.
    let mut arriving = host();
    let feed = arriving.take_call(FEED, FROM_START);
    arriving.answer_call(&feed, nothing_revoked);
    let waiting = send_many(&mut arriving, &good);
    assert_in_batches(&mut arriving, &waiting, |host| {
        let keys = host.take_call(KEYS.0, KEYS.1);
        host.answer_call(&keys, &issuer.jwks());
    });
    assert_eq!(arriving.fate(waiting[199]), passed());

    // The keys are there, then the feed arrives.
    let mut arriving = host();
    let keys = arriving.take_call(KEYS.0, KEYS.1);
    arriving.answer_call(&keys, &issuer.jwks());
    let waiting = send_many(&mut arriving, &good);
    assert_in_batches(&mut arriving, &waiting, |host| {
        let feed = host.take_call(FEED, FROM_START);
        host.answer_call(&feed, nothing_revoked);
    });
    assert_eq!(arriving.fate(waiting[199]), passed());

    // Nothing arrives in time.
    let mut late = host();
    let waiting = send_many(&mut late, &good);
    assert_in_batches(&mut late, &waiting, |host| host.tick_after(5));
    assert!(matches!(late.fate(waiting[199]), Fate::Answered(503, _)));

    // The fetch for an unknown key brings no such key.
    let mut jwks: Value = serde_json::from_str(&issuer.jwks()).unwrap();
    jwks["keys"].as_array_mut().unwrap().remove(0);
    let mut unknown = ready_host_with(&jwks.to_string());
    let waiting = send_many(&mut unknown, &good);
    unknown.tick_after(0);
    assert_in_batches(&mut unknown, &waiting, |host| {
        let keys = host.take_call(KEYS.0, KEYS.1);
        host.answer_call(&keys, &jwks.to_string());
    });
    assert!(matches!(unknown.fate(waiting[199]), Fate::Answered(401, _)));

    // The fetch for an unknown key fails, and so does its repetition.
    let mut failing = ready_host_with(&jwks.to_string());
    let waiting = send_many(&mut failing, &good);
    failing.tick_after(0);
    let decided = failing.decided().len();
    let keys = failing.take_call(KEYS.0, KEYS.1);
    failing.answer_call(&keys, "<html>");
    assert_eq!(failing.decided().len(), decided, "another replica may know");
    failing.tick_after(0);
    assert_in_batches(&mut failing, &waiting, |host| {
        let keys = host.take_call(KEYS.0, KEYS.1);
        host.answer_call(&keys, "<html>");
    });
    assert!(matches!(failing.fate(waiting[199]), Fate::Answered(503, _)));
}

#[test]
fn a_request_that_ends_while_it_waits_for_its_turn_is_not_answered() {
    let issuer = Issuer::new();
    let mut host = host();
    let waiting = send_many(&mut host, &issuer.token("EdDSA", "one"));
    host.tick_after(5);
    assert_eq!(host.decided(), &waiting[..BATCH]);
    let (reset, others): (Vec<u32>, Vec<u32>) = waiting[BATCH..]
        .iter()
        .partition(|context| **context % 2 == 0);
    for context in reset {
        host.end(context);
    }
    for _ in 0..10 {
        host.tick_after(0);
    }
    assert_eq!(host.decided()[BATCH..], others);
}

/// The VMs of all workers share one gauge, which must show the worst VM. Here two roots represent two VMs.
#[test]
fn the_worst_of_all_workers_shows_in_gauges() {
    let issuer = Issuer::new();
    let mut host = ready_host(&issuer);
    assert!(host.configure_root(OTHER_ROOT, &configuration()));
    let both = |host: &mut WasmHost, seconds| {
        for root in [OTHER_ROOT, ROOT] {
            host.pass(if root == OTHER_ROOT { seconds } else { 0 });
            host.tick_root(root);
        }
    };
    both(&mut host, 0);
    assert_eq!(
        host.metric("token_filter.keys_missing"),
        1,
        "one of the two has none"
    );
    assert_eq!(host.metric("token_filter.revocations_missing"), 1);
    // The root reads its keys once, and never again.
    let keys = host.take_call_of(OTHER_ROOT, KEYS.0).unwrap();
    host.answer_call(&keys, &issuer.jwks());
    both(&mut host, 1);
    assert_eq!(host.metric("token_filter.keys_missing"), 0);
    for _ in 0..400 {
        both(&mut host, 1);
        while let Some(keys) = host.take_call_of(ROOT, KEYS.0) {
            host.answer_call(&keys, &issuer.jwks());
        }
    }
    assert_eq!(host.metric("token_filter.keys_age_seconds"), 401);
    // The values of a deleted root leave the gauge.
    let (_, fate) = host.request_under(
        OTHER_ROOT,
        &[
            (":method", "GET"),
            (":path", "/api/x"),
            (
                "authorization",
                &format!("Bearer {}", issuer.token("EdDSA", "one")),
            ),
        ],
    );
    assert_eq!(fate, Fate::Held, "its feed never came");
    both(&mut host, 1);
    assert_eq!(host.metric("token_filter.waiting"), 1);
    assert_eq!(host.metric("token_filter.revocations_missing"), 1);
    host.end(OTHER_ROOT);
    assert_eq!(host.metric("token_filter.waiting"), 0);
    assert_eq!(host.metric("token_filter.revocations_missing"), 0);
}

/// In report-only mode a refused request continues, but without its token where `forward_authorization` is `false`.
#[test]
fn a_filter_that_only_reports_withholds_the_token_too() {
    let issuer = Issuer::new();
    for (forwards, expected) in [(false, None), (true, Some("Bearer nonsense"))] {
        let mut reporting: Value = serde_json::from_str(&configuration()).unwrap();
        reporting["report_only"] = json!(true);
        reporting["forward_authorization"] = json!(forwards);
        let mut host = WasmHost::load(NOW);
        assert!(host.configure(&reporting.to_string()));
        host.tick_after(0);
        let keys = host.take_call(KEYS.0, KEYS.1);
        host.answer_call(&keys, &issuer.jwks());
        let Fate::Passed(headers) = decide(&mut host, "nonsense") else {
            panic!("it passes");
        };
        assert_eq!(headers.get("authorization").map(String::as_str), expected);
        // A request that waits before the filter would refuse it.
        let (context, fate) = send(&mut host, &issuer.token("EdDSA", "one"));
        assert_eq!(fate, Fate::Held);
        host.tick_after(5);
        let Fate::Passed(headers) = host.fate(context) else {
            panic!("it passes");
        };
        assert_eq!(headers.contains_key("authorization"), forwards);
    }
    // If the host cannot remove the token, the request does not pass.
    let mut reporting: Value = serde_json::from_str(&configuration()).unwrap();
    reporting["report_only"] = json!(true);
    let mut host = WasmHost::load_refusing(NOW, "proxy_remove_header_map_value");
    assert!(host.configure(&reporting.to_string()));
    let authorization = [
        (":method", "GET"),
        (":path", "/api/x"),
        ("authorization", "Bearer nonsense"),
    ];
    let (_, fate) = host.request(&authorization);
    assert!(matches!(fate, Fate::Answered(503, _)), "{fate:?}");
    host.tick_after(1);
    assert_eq!(host.metric("token_filter.denied.reason.host"), 1);
    // The guard allowed the request, but the metric counts what the filter did.
    assert_eq!(host.metric("token_filter.reported"), 0);
    assert_eq!(host.metric("token_filter.denied.reason.malformed"), 0);
}

/// A host without timers: requests start the fetches, wait for them, and detect that time has passed.
#[test]
fn a_host_without_timers_fetches_when_requests_come() {
    let issuer = Issuer::new();
    let mut host = WasmHost::load_refusing(NOW, "proxy_set_tick_period_milliseconds");
    assert!(host.configure(&configuration()), "{}", host.log());
    let bearer = format!("Bearer {}", issuer.token("EdDSA", "one"));
    let headers = [
        (":method", "GET"),
        (":path", "/api/projects"),
        ("authorization", bearer.as_str()),
    ];
    let (context, fate) = host.request(&headers);
    assert_eq!(fate, Fate::Held);
    let keys = host.take_call(KEYS.0, KEYS.1);
    host.answer_call(&keys, &issuer.jwks());
    let feed = host.take_call(FEED, FROM_START);
    host.answer_call(&feed, r#"{"revocations":[],"last":0}"#);
    assert!(matches!(host.fate(context), Fate::Passed(_)));

    // After a long silence the feed is stale: the next request waits for it.
    host.pass(600);
    let (context, fate) = host.request(&headers);
    assert_eq!(fate, Fate::Held);
    let path = host
        .calls()
        .into_iter()
        .find(|path| path.starts_with("/revocations"));
    let feed = host.take_call(FEED, &path.unwrap());
    let revoked = json!({
        "revocations": [{"sequence": 1, "kind": "token", "id": "one", "at": NOW, "exp": NOW + 3600}],
        "last": 1,
    });
    host.answer_call(&feed, &revoked.to_string());
    assert_refused(&host.fate(context), "The access token has been revoked");
}

/// Inline keys without a feed need no timer; tokens expire all the same.
#[test]
fn inline_keys_need_no_timer() {
    let issuer = Issuer::new();
    let mut host = WasmHost::load_refusing(NOW, "proxy_set_tick_period_milliseconds");
    assert!(host.configure(&inline(&issuer)), "{}", host.log());
    let token = issuer.token("EdDSA", "one");
    assert_eq!(decide(&mut host, &token), passed());
    host.pass(7200);
    assert_refused(&decide(&mut host, &token), "The access token has expired");
}

/// The configuration with the issuer's keys in it, and without a feed.
fn inline(issuer: &Issuer) -> String {
    let mut configuration: Value = serde_json::from_str(&configuration()).unwrap();
    let jwks: Value = serde_json::from_str(&issuer.jwks()).unwrap();
    configuration["issuers"][0]["jwks"] = jwks;
    let members = configuration["issuers"][0].as_object_mut().unwrap();
    members.remove("revocations");
    configuration.to_string()
}

/// If the host fails to add a header, the filter refuses the request and counts a denial.
#[test]
fn a_header_that_cannot_be_added_is_a_denial() {
    let issuer = Issuer::new();
    let mut host = WasmHost::load_refusing(NOW, "proxy_add_header_map_value");
    assert!(host.configure(&inline(&issuer)), "{}", host.log());
    let fate = decide(&mut host, &issuer.token("EdDSA", "one"));
    assert!(matches!(fate, Fate::Answered(503, _)), "{fate:?}");
    host.tick_after(1);
    assert_eq!(host.metric("token_filter.denied.reason.host"), 1);
    assert_eq!(host.metric("token_filter.allowed"), 0);
}

/// The host's log names each refused request, also a request that had to wait.
#[test]
fn a_denial_is_logged_with_method_path_and_request_id() {
    let issuer = Issuer::new();
    let mut host = host();
    let token = format!("Bearer {}", issuer.token("EdDSA", "one"));
    let send = |host: &mut WasmHost, path: &str, id: &str, authorization: &str| {
        host.request(&[
            (":method", "DELETE"),
            (":path", path),
            ("x-request-id", id),
            ("authorization", authorization),
        ])
    };
    send(
        &mut host,
        "/api/at-once?of=the-query",
        "id-1\u{1b}[0m",
        "Bearer x",
    );
    let (_, fate) = send(&mut host, "/api/later", "id-2", &token);
    assert_eq!(fate, Fate::Held);
    let keys = host.take_call(KEYS.0, KEYS.1);
    host.answer_call(&keys, &Issuer::new().jwks());
    let line = |reason: &str, path: &str, id: &str| {
        let line = json!({
            "event": "denied", "reason": reason, "status": 401, "left_out": 0,
            "method": "DELETE", "path": path, "request_id": id,
        });
        format!("info {line}")
    };
    let log = host.log();
    for line in [
        line("malformed", "/api/at-once", "id-1[0m"),
        line("signature", "/api/later", "id-2"),
    ] {
        assert!(log.lines().any(|found| found == line), "{line}: {log}");
    }
}

/// Gateways may start before the token service. A failing fetch is then a warning at first, and an error if it
/// persists. The filter logs each reason once, however often clients cause a new fetch.
#[test]
fn a_failing_fetch_is_logged_once_and_as_an_error_only_when_it_persists() {
    let issuer = Issuer::new();
    let mut host = host();
    let keys = "keys of https://lobby.example.com from cluster token-service at /auth/jwks: ";
    let lines = |host: &WasmHost| -> Vec<String> {
        let log = host.log();
        let lines = log.lines().filter(|line| line.contains(keys));
        lines.map(|line| line.replacen(keys, "", 1)).collect()
    };
    let fail_for = |host: &mut WasmHost, seconds| {
        for _ in 0..seconds {
            while host.has_call(KEYS.0, KEYS.1) {
                let call = host.take_call(KEYS.0, KEYS.1);
                host.fail_call(&call);
            }
            host.tick_after(1);
        }
    };
    let failed = "no answer within 5 seconds, or no connection";
    fail_for(&mut host, 9);
    assert_eq!(lines(&host), [format!("warn {failed}")]);
    fail_for(&mut host, 60);
    let expected = [format!("warn {failed}"), format!("error {failed}")];
    assert_eq!(lines(&host), expected);
    while !host.has_call(KEYS.0, KEYS.1) {
        host.tick_after(1);
    }
    let call = host.take_call(KEYS.0, KEYS.1);
    host.answer_call(&call, &issuer.jwks());
    assert_eq!(lines(&host).last().unwrap(), "info fetched, after failures");
    // From now on keys are known, and the first failure is an error.
    while !host.has_call(KEYS.0, KEYS.1) {
        host.tick_after(1);
    }
    fail_for(&mut host, 60);
    assert_eq!(lines(&host).last().unwrap(), &format!("error {failed}"));
    assert_eq!(lines(&host).len(), 4);
}

/// The filter itself does not implement P-384, and this host verifies no signatures.
#[test]
fn an_algorithm_that_nobody_here_verifies_is_refused_at_the_start() {
    let mut host = WasmHost::load(NOW);
    let mut configuration: Value = serde_json::from_str(&configuration()).unwrap();
    configuration["issuers"][0]["algorithms"] = json!(["ES256", "ES384"]);
    assert!(!host.configure(&configuration.to_string()));
    let sentence = "issuers[0].algorithms: ES384 is for hosts that verify it themselves, and this host does not; \
        here it can be EdDSA, ES256, RS256, RS384, RS512, PS256";
    assert!(host.log().contains(sentence), "{}", host.log());
}

#[test]
fn a_bad_configuration_is_refused_with_every_problem() {
    let mut host = WasmHost::load(NOW);
    assert!(!host.configure(r#"{"issuers": [], "rules": [], "realms": "api"}"#));
    for problem in ["issuers: ", "rules: ", "realms: unknown key"] {
        assert!(host.log().contains(problem), "{}", host.log());
    }
}

/// A plugin that is mounted twice runs in one VM: each request is judged by its own root's configuration.
#[test]
fn two_configurations_in_one_vm_keep_apart() {
    let issuer = Issuer::new();
    let mut host = ready_host(&issuer);
    let jwks: Value = serde_json::from_str(&issuer.jwks()).unwrap();
    let other = json!({
        "issuers": [{
            "issuer": "https://lobby.example.com",
            "audiences": ["https://other.example.com"],
            "algorithms": ALGORITHMS,
            "jwks": jwks,
        }],
        "rules": [{"path": "/public", "access": "anonymous"}, {"path_prefix": "/api/"}],
    });
    assert!(host.configure_root(OTHER_ROOT, &other.to_string()));
    let bearer = format!("Bearer {}", issuer.token("EdDSA", "one"));
    let at = |path| {
        [
            (":method", "GET"),
            (":path", path),
            ("authorization", &bearer),
        ]
    };
    let mut answers = Vec::new();
    for root in [ROOT, OTHER_ROOT] {
        for path in ["/api/projects", "/public"] {
            let (context, fate) = host.request_under(root, &at(path));
            host.end(context);
            answers.push(match fate {
                Fate::Passed(_) => 200,
                Fate::Answered(status, _) => status,
                Fate::Held => panic!("{path} waits"),
            });
        }
    }
    assert_eq!(answers, [200, 403, 401, 200]);

    // The host deletes the other root before its last request.
    let (context, _) = host.request_under(OTHER_ROOT, &at("/public"));
    host.end(OTHER_ROOT);
    host.end(context);
    assert_eq!(decide(&mut host, &issuer.token("EdDSA", "two")), passed());
    // Hosts send no request under a missing root: the SDK would end the VM.
    assert!(host.create_context(7, OTHER_ROOT).is_err());
}

/// If a host sends requests to a root without a valid configuration, the filter refuses them.
#[test]
fn without_a_configuration_nothing_passes() {
    let mut host = WasmHost::load(NOW);
    assert!(!host.configure("{}"));
    let (_, fate) = host.request(&[(":method", "GET"), (":path", "/public")]);
    assert_eq!(fate, Fate::Answered(503, String::new()));
}

/// A host calls each callback that is exported, for each request. The linker of the filter removes the unused ones.
#[test]
fn the_module_exports_what_the_filter_uses() {
    let expected = [
        "memory",
        "_initialize",
        "proxy_abi_version_0_2_1",
        "proxy_on_memory_allocate",
        "proxy_on_vm_start",
        "proxy_on_configure",
        "proxy_on_context_create",
        "proxy_on_tick",
        "proxy_on_http_call_response",
        "proxy_on_request_headers",
        "proxy_on_delete",
    ];
    assert_eq!(WasmHost::exports(), expected.map(str::to_owned).into());
}

/// Host functions that must not fail. The filter calls each at its start, when a panic of the SDK makes the gateway
/// refuse the plugin.
const NEEDED: [&str; 7] = [
    "proxy_define_metric",
    "proxy_get_buffer_bytes",
    "proxy_get_current_time_nanoseconds",
    "proxy_get_metric",
    "proxy_increment_metric",
    "proxy_record_metric",
    "proxy_set_effective_context",
];

/// Report-only mode lets every request pass, but removes headers that only the filter may set.
#[test]
fn a_host_that_fails_gets_no_spoofed_header_past_a_filter_that_only_reports() {
    let mut reporting: Value = serde_json::from_str(&configuration()).unwrap();
    reporting["report_only"] = json!(true);
    for function in WasmHost::functions() {
        let mut host = WasmHost::load_refusing(NOW, &function);
        let starts = host.configure(&reporting.to_string());
        assert_eq!(starts, !NEEDED.contains(&function.as_str()), "{function}");
        if !starts {
            continue;
        }
        match decide(&mut host, "nonsense") {
            Fate::Passed(headers) => assert_eq!(headers.get("x-user-id"), None, "{function}"),
            fate => assert!(
                host.log().contains(r#""event":"denied""#),
                "{function}: {fate:?}"
            ),
        }
    }
}

/// Whichever host call fails: the filter does not start, or it never crashes and lets no forbidden request pass.
#[test]
fn a_host_that_fails_gets_nothing_past_the_filter() {
    let issuer = Issuer::new();
    let functions = WasmHost::functions();
    assert!(functions.len() > 10, "{functions:?}");
    let mut keeping: Value = serde_json::from_str(&configuration()).unwrap();
    keeping["forward_authorization"] = json!(true);
    let each = |function| [configuration(), keeping.to_string()].map(|text| (function, text));
    for (function, configuration) in functions.iter().flat_map(each) {
        let mut host = WasmHost::load_refusing(NOW, function);
        let starts = host.configure(&configuration);
        assert_eq!(starts, !NEEDED.contains(&function.as_str()), "{function}");
        if !starts {
            continue;
        }
        host.tick_after(0);
        for (cluster, path, body) in [
            (KEYS.0, KEYS.1, issuer.jwks()),
            (
                FEED,
                FROM_START,
                r#"{"revocations":[],"last":0}"#.to_owned(),
            ),
        ] {
            if host.has_call(cluster, path) {
                let call = host.take_call(cluster, path);
                host.answer_call(&call, &body);
            }
        }
        let expired = issuer.token_since("EdDSA", "expired", NOW - 7200);
        for bad in ["", "nonsense", &expired] {
            let fate = decide(&mut host, bad);
            assert!(!matches!(fate, Fate::Passed(_)), "{function}: {fate:?}");
        }
        for _ in 0..2 {
            if let Fate::Passed(mut headers) = decide(&mut host, &issuer.token("EdDSA", "good")) {
                headers.remove("authorization");
                assert_eq!(Fate::Passed(headers), passed(), "{function}");
            }
        }
        host.tick_after(10);
    }
}

/// A page of version 2 of the feed.
fn page(since: u64, entries: &[(&str, &str)], more: bool) -> String {
    let revocations: Vec<Value> = entries
        .iter()
        .map(|(kind, id)| json!({"kind": kind, "id": id, "at": NOW, "exp": NOW + 3600}))
        .collect();
    let position = since + entries.len() as u64;
    json!({"feed": "A", "since": since, "position": position, "more": more, "holds": true, "revocations": revocations})
        .to_string()
}

/// Several workers of one gateway, each with its keys and the first page of the feed.
fn workers(count: usize, issuer: &Issuer) -> Vec<WasmHost> {
    let shared = SharedData::default();
    let worker = |_| {
        let mut host = WasmHost::load_sharing(NOW, &shared);
        assert!(host.configure(&configuration()), "{}", host.log());
        host.tick_after(0);
        let keys = host.take_call(KEYS.0, KEYS.1);
        host.answer_call(&keys, &issuer.jwks());
        let feed = host.take_call(FEED, FROM_START);
        host.answer_call(&feed, &page(0, &[], false));
        // No worker has taken over the feed yet.
        assert_eq!(host.calls(), Vec::<String>::new());
        host
    };
    (0..count).map(worker).collect()
}

fn tick_all(hosts: &mut [WasmHost], seconds: u64) {
    for _ in 0..seconds {
        hosts.iter_mut().for_each(|host| host.tick_after(1));
    }
}

const HELD: &str = "/revocations?version=2&feed=A&since=0&wait=20";

/// One worker has a held request. All workers read its response at their next tick. If that worker dies, another worker
/// sends the request.
#[test]
fn one_worker_reads_the_feed_for_all() {
    let issuer = Issuer::new();
    let mut hosts = workers(3, &issuer);
    let token = issuer.token("EdDSA", "one");
    tick_all(&mut hosts, 3);
    let leaders = |hosts: &[WasmHost]| -> Vec<usize> {
        let asks = |host: &WasmHost| host.calls().iter().any(|path| path.contains("wait="));
        (0..hosts.len())
            .filter(|number| asks(&hosts[*number]))
            .collect()
    };
    let [leader] = leaders(&hosts)[..] else {
        panic!("{:?}", leaders(&hosts));
    };
    for (number, host) in hosts.iter_mut().enumerate() {
        assert_eq!(decide(host, &token), passed());
        let expected = if number == leader { 1000 } else { 50 };
        assert_eq!(host.tick_milliseconds(), expected);
    }
    let held = hosts[leader].take_call(FEED, HELD);
    hosts[leader].answer_call(&held, &page(0, &[("token", "one")], false));
    hosts.iter_mut().for_each(|host| host.tick_after(0));
    for host in &mut hosts {
        assert_refused(&decide(host, &token), "The access token has been revoked");
    }
    assert_eq!(leaders(&hosts), [leader]);

    // A new VM without state replaces the dead VM.
    hosts.remove(leader);
    tick_all(&mut hosts, 6);
    let [successor] = leaders(&hosts)[..] else {
        panic!("{:?}", leaders(&hosts));
    };
    let next = hosts[successor].take_call(FEED, "/revocations?version=2&feed=A&since=1&wait=20");
    hosts[successor].answer_call(&next, &page(1, &[("token", "two")], false));
    hosts.iter_mut().for_each(|host| host.tick_after(0));
    for host in &mut hosts {
        let token = issuer.token("EdDSA", "two");
        assert_refused(&decide(host, &token), "The access token has been revoked");
    }
}

/// A request that arrives before the feed is read waits while pages arrive, until the last page.
#[test]
fn a_request_before_the_feed_waits_for_its_last_page() {
    let issuer = Issuer::new();
    let mut host = host();
    let keys = host.take_call(KEYS.0, KEYS.1);
    host.answer_call(&keys, &issuer.jwks());
    let (context, fate) = send(&mut host, &issuer.token("EdDSA", "one"));
    assert_eq!(fate, Fate::Held);
    let (revoked, fate) = send(&mut host, &issuer.token("EdDSA", "t6"));
    assert_eq!(fate, Fate::Held);
    let mut path = FROM_START.to_owned();
    for since in 0..8 {
        let call = host.take_call(FEED, &path);
        let id = format!("t{since}");
        host.answer_call(&call, &page(since, &[("token", &id)], since < 7));
        path = format!("/revocations?version=2&feed=A&since={}", since + 1);
        if since < 7 {
            host.tick_after(3);
            assert_eq!(host.fate(context), Fate::Held, "after page {since}");
        }
    }
    assert_eq!(host.fate(context), passed());
    assert_refused(&host.fate(revoked), "The access token has been revoked");

    // An endless feed does not hold requests for ever.
    let mut host = self::host();
    let keys = host.take_call(KEYS.0, KEYS.1);
    host.answer_call(&keys, &issuer.jwks());
    let (context, _) = send(&mut host, &issuer.token("EdDSA", "one"));
    let mut path = FROM_START.to_owned();
    for since in 0..11 {
        let call = host.take_call(FEED, &path);
        host.answer_call(&call, &page(since, &[("token", "x")], true));
        path = format!("/revocations?version=2&feed=A&since={}", since + 1);
        host.tick_after(3);
    }
    assert!(matches!(host.fate(context), Fate::Answered(503, _)));
}

/// The host's clock is set back and forward by hours: the filter reads the feed on, revoked tokens stay revoked, and
/// the age of the feed is right. The same without a monotonic clock.
#[test]
fn steps_of_the_clock_stop_nothing() {
    let issuer = Issuer::new();
    for function in ["clock_time_get", "nothing"] {
        for wrong in [NOW - 7200, NOW + 7200] {
            let mut host = WasmHost::load_refusing(NOW, function);
            assert!(host.configure(&configuration()), "{}", host.log());
            host.tick_after(0);
            let keys = host.take_call(KEYS.0, KEYS.1);
            host.answer_call(&keys, &issuer.jwks());
            let feed = host.take_call(FEED, FROM_START);
            let first = json!({
                "revocations": [{"sequence": 1, "kind": "token", "id": "one", "at": NOW, "exp": NOW + 3600}],
                "last": 1,
            });
            host.answer_call(&feed, &first.to_string());
            for clock in [wrong, NOW + 20] {
                host.set_clock(clock);
                host.tick_after(1);
                for _ in 0..100 {
                    host.tick_after(1);
                    let calls = host
                        .calls()
                        .into_iter()
                        .filter(|path| path.starts_with("/revocations"));
                    for path in calls.collect::<Vec<_>>() {
                        let call = host.take_call(FEED, &path);
                        let body = if path == FROM_START {
                            first.to_string()
                        } else {
                            r#"{"revocations":[],"last":1}"#.to_owned()
                        };
                        host.answer_call(&call, &body);
                    }
                }
                host.tick_after(1);
                assert!(
                    host.metric("token_filter.revocations_age_seconds") < 10,
                    "{function} {wrong}"
                );
            }
            let refused = decide(&mut host, &issuer.token("EdDSA", "one"));
            assert_refused(&refused, "The access token has been revoked");
            assert_eq!(decide(&mut host, &issuer.token("EdDSA", "two")), passed());
            // No more responses arrive, so the age rises, whatever the clock shows.
            host.set_clock(wrong);
            for _ in 0..40 {
                host.tick_after(1);
            }
            assert!(host.metric("token_filter.revocations_age_seconds") >= 30);
        }
    }
}
