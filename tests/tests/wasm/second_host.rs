//! The filter in an independent proxy-wasm host that has only the standard ABI: no foreign functions, no metadata.

use serde_json::{Value, json};
use tests::SigningKey;

use crate::support::{Fate, OTHER_ROOT, ROOT, WasmHost};

const NOW: u64 = 1_800_000_000;
const KEYS: (&str, &str) = ("token-service", "/auth/jwks");
const FEED: &str = "token-service-internal";
const FROM_START: &str = "/revocations?version=2&since=0";

/// Keys of every algorithm that the filter verifies without its host.
struct Issuer([SigningKey; ALGORITHMS.len()]);

const ALGORITHMS: [&str; 6] = ["EdDSA", "ES256", "RS256", "RS384", "RS512", "PS256"];

impl Issuer {
    fn new() -> Self {
        Self(ALGORITHMS.map(|algorithm| SigningKey::new(algorithm).unwrap()))
    }

    fn jwks(&self) -> Value {
        json!({"keys": self.0.each_ref().map(SigningKey::jwk)})
    }

    fn token(&self, algorithm: &str, jti: &str) -> String {
        self.token_since(algorithm, jti, NOW)
    }

    /// A token that is valid for an hour.
    fn token_since(&self, algorithm: &str, jti: &str, iat: u64) -> String {
        let place = ALGORITHMS.iter().position(|name| *name == algorithm);
        let claims = json!({
            "iss": "https://lobby.example.com", "aud": "https://api.example.com",
            "sub": "ada@example.com", "client_id": "web", "user_id": "1879048401", "scope": "projects",
            "iat": iat, "exp": iat + 3600, "jti": jti, "grant_id": "grant-1",
        });
        self.0[place.unwrap()].token(&claims).unwrap()
    }
}

fn configuration() -> Value {
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
}

/// A filter that has started to fetch.
fn host() -> WasmHost {
    let mut host = WasmHost::load(NOW);
    assert!(
        host.configure(&configuration().to_string()),
        "{}",
        host.log()
    );
    assert_ne!(host.tick_milliseconds(), 0, "ticks are asked for");
    host.tick_after(0);
    host
}

/// A filter that has read the keys and an empty feed.
fn ready_host(issuer: &Issuer) -> WasmHost {
    let mut host = host();
    answer(&mut host, KEYS, &issuer.jwks());
    answer(&mut host, (FEED, FROM_START), &page(&[]));
    host
}

/// Answers the fetch of this cluster and path.
#[track_caller]
fn answer(host: &mut WasmHost, (cluster, path): (&str, &str), body: &Value) {
    let call = host.take_call(cluster, path);
    host.answer_call(&call, &body.to_string());
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

/// A request that ends before its turn is not answered.
#[test]
fn a_request_that_has_ended_is_not_answered() {
    let issuer = Issuer::new();
    let mut host = host();
    let token = issuer.token("EdDSA", "one");
    let [first, reset, last] = [(); 3].map(|()| {
        let (context, fate) = send(&mut host, &token);
        assert_eq!((fate, host.tick_milliseconds()), (Fate::Held, 1));
        context
    });
    host.end(reset);
    host.tick_after(5);
    assert_eq!(host.decided(), [first, last]);
    assert_eq!(host.tick_milliseconds(), 1000);
    assert!(matches!(host.fate(last), Fate::Answered(503, _)));
}

/// The VMs of all workers share one gauge. Here two roots represent two VMs. The values of a deleted root leave the gauge.
#[test]
fn the_worst_of_all_workers_shows_in_gauges() {
    let mut host = ready_host(&Issuer::new());
    assert!(host.configure_root(OTHER_ROOT, &configuration().to_string()));
    for root in [OTHER_ROOT, ROOT] {
        host.tick_root(root);
    }
    assert_eq!(host.metric("token_filter.keys_missing"), 1);
    host.end(OTHER_ROOT);
    assert_eq!(host.metric("token_filter.keys_missing"), 0);
}

/// In report-only mode a refused request continues, but without its token where `forward_authorization` is `false`.
#[test]
fn a_filter_that_only_reports_withholds_the_token_too() {
    let issuer = Issuer::new();
    for (forwards, expected) in [(false, None), (true, Some("Bearer nonsense"))] {
        let mut reporting = configuration();
        reporting["report_only"] = json!(true);
        reporting["forward_authorization"] = json!(forwards);
        let mut host = WasmHost::load(NOW);
        assert!(host.configure(&reporting.to_string()));
        host.tick_after(0);
        answer(&mut host, KEYS, &issuer.jwks());
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
    let mut reporting = configuration();
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
    assert!(
        host.configure(&configuration().to_string()),
        "{}",
        host.log()
    );
    let bearer = format!("Bearer {}", issuer.token("EdDSA", "one"));
    let headers = [
        (":method", "GET"),
        (":path", "/api/projects"),
        ("authorization", bearer.as_str()),
    ];
    let (context, fate) = host.request(&headers);
    assert_eq!(fate, Fate::Held);
    answer(&mut host, KEYS, &issuer.jwks());
    answer(&mut host, (FEED, FROM_START), &page(&[]));
    assert!(matches!(host.fate(context), Fate::Passed(_)));

    // After a long silence the feed is stale: the next request waits for it.
    host.pass(600);
    let (context, fate) = host.request(&headers);
    assert_eq!(fate, Fate::Held);
    let path = host
        .calls()
        .into_iter()
        .find(|path| path.starts_with("/revocations"));
    answer(&mut host, (FEED, &path.unwrap()), &page(&["one"]));
    assert_refused(&host.fate(context), "The access token has been revoked");
}

/// The configuration with the issuer's keys in it, and without a feed.
fn inline(issuer: &Issuer) -> String {
    let mut configuration = configuration();
    configuration["issuers"][0]["jwks"] = issuer.jwks();
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
    answer(&mut host, KEYS, &Issuer::new().jwks());
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

#[test]
fn a_fetch_without_an_answer_is_logged() {
    let mut host = host();
    let keys = host.take_call(KEYS.0, KEYS.1);
    host.fail_call(&keys);
    let line = "warn keys of https://lobby.example.com from cluster token-service at /auth/jwks: \
        no answer within 5 seconds, or no connection";
    assert!(
        host.log().lines().any(|found| found == line),
        "{}",
        host.log()
    );
}

/// A plugin that is mounted twice runs in one VM: each request is judged by its own root's configuration.
#[test]
fn two_configurations_in_one_vm_keep_apart() {
    let issuer = Issuer::new();
    let mut host = ready_host(&issuer);
    let other = json!({
        "issuers": [{
            "issuer": "https://lobby.example.com",
            "audiences": ["https://other.example.com"],
            "algorithms": ALGORITHMS,
            "jwks": issuer.jwks(),
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
    for (root, path, status) in [
        (ROOT, "/api/projects", 200),
        (ROOT, "/public", 403),
        (OTHER_ROOT, "/api/projects", 401),
        (OTHER_ROOT, "/public", 200),
    ] {
        let (context, fate) = host.request_under(root, &at(path));
        host.end(context);
        let found = match fate {
            Fate::Passed(_) => 200,
            Fate::Answered(status, _) => status,
            Fate::Held => panic!("{path} waits"),
        };
        assert_eq!(found, status, "{root} {path}");
    }

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
    let mut reporting = configuration();
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
    let mut keeping = configuration();
    keeping["forward_authorization"] = json!(true);
    let each = |function| [configuration(), keeping.clone()].map(|text| (function, text));
    for (function, configuration) in functions.iter().flat_map(each) {
        let mut host = WasmHost::load_refusing(NOW, function);
        let starts = host.configure(&configuration.to_string());
        assert_eq!(starts, !NEEDED.contains(&function.as_str()), "{function}");
        if !starts {
            continue;
        }
        host.tick_after(0);
        for (call, body) in [(KEYS, issuer.jwks()), ((FEED, FROM_START), page(&[]))] {
            if host.has_call(call.0, call.1) {
                answer(&mut host, call, &body);
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

/// A page of the feed of a service that holds no requests.
fn page(tokens: &[&str]) -> Value {
    let entry = |id| json!({"kind": "token", "id": id, "at": NOW, "exp": NOW + 3600});
    let revocations: Vec<Value> = tokens.iter().map(entry).collect();
    let position = revocations.len();
    json!({"feed": "A", "since": 0, "position": position, "more": false, "holds": false, "revocations": revocations})
}
