//! One table of behaviour for all gateways: token-guard behind nginx, Caddy, Traefik, HAProxy and Envoy's `ext_authz`,
//! and the filter in Envoy. All run the configurations of `examples/` and `examples/envoy/`, with other ports.

mod attacks;
mod bound;
mod handover;
mod held;
mod http2;
mod internal_listener;
mod log;
mod real;
mod routes;
mod table;
mod token_guard;

use std::net::TcpListener;

use serde_json::{Value, json};
use tests::gateways::{Gateway, Kind, Neighbours, TokenGuard};
use tests::{Artifacts, Issuer, Upstream, wire};

use self::table::{Tokens, differences, openings};
use crate::api::{token, until};
use crate::support::{USER_BOUND, lobby, pair};

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// The ready configuration with the issuer and audience of the running pair, and with a second issuer whose tokens the
/// tests sign.
fn configuration(issuer: &Issuer) -> String {
    let path = Artifacts::find()
        .unwrap()
        .repository
        .join("examples/token-guard/token-guard.json");
    let text = std::fs::read_to_string(path).unwrap();
    let mut configuration: Value = serde_json::from_str(&text).unwrap();
    let issuers = configuration["issuers"].as_array_mut().unwrap();
    let audience = pair().api_url();
    issuers[0]["issuer"] = json!(lobby());
    issuers[0]["audiences"] = json!([audience]);
    issuers.push(issuer.configuration(&audience));
    let rules = configuration["rules"].as_array_mut().unwrap();
    rules.push(json!({"path_prefix": "/api/slides/", "scopes": ["documents"]}));
    configuration.to_string()
}

fn tokens(issuer: &Issuer) -> Tokens {
    let audience = pair().api_url();
    let revoked = token();
    let fields = [("token", revoked.as_str())];
    assert_eq!(
        USER_BOUND.post(&lobby(), "/auth/revoke", &fields).status,
        200
    );
    Tokens {
        good: token(),
        revoked,
        expired: issuer
            .token(&audience, &[("exp", json!(1_700_000_000))])
            .unwrap(),
        wrong_audience: issuer.token("https://other.example.com", &[]).unwrap(),
        forged: Issuer::new().unwrap().token(&audience, &[]).unwrap(),
        unknown_issuer: issuer
            .token(&audience, &[("iss", json!("https://unknown.test"))])
            .unwrap(),
        bare: issuer
            .token(&audience, &[("scope", json!("")), ("user_id", json!([]))])
            .unwrap(),
    }
}

fn clusters() -> [(&'static str, u16); 2] {
    let ports = pair().ports();
    [
        ("token-service", ports.public),
        ("token-service-internal", ports.internal),
    ]
}

/// token-guard with keys and revocations of the running pair.
fn ready_guard(configuration: &str, arguments: &[&str]) -> TokenGuard {
    TokenGuard::ready(configuration, &clusters(), arguments).unwrap()
}

/// A guard, the filter in its place, and the resource server at this port.
fn neighbours<'a>(
    guard: &TokenGuard,
    configuration: &'a str,
    resource_server: u16,
) -> Neighbours<'a> {
    let ports = pair().ports();
    Neighbours {
        guard: guard.port(),
        resource_server,
        token_service: (ports.public, ports.internal),
        plugin: configuration,
    }
}

/// A gateway, the guard that it asks, and the resource server behind it.
struct Guarded {
    kind: Kind,
    configuration: String,
    tokens: Tokens,
    upstream: Upstream,
    guard: TokenGuard,
    gateway: Gateway,
}

impl Guarded {
    /// Starts all three, with these replacements in the gateway's configuration, and waits until the guard knows keys
    /// and revocations.
    fn start(kind: Kind, changes: &[(&str, &str)]) -> Self {
        let guarded = Self::start_unasked(kind, changes);
        let port = guarded.gateway.port();
        let status = |token: &str| {
            let head = "GET /api/projects HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
            let request = format!("{head}Authorization: Bearer {token}\r\n\r\n");
            wire::send(port, &request)
                .unwrap()
                .map(|answer| answer.status)
        };
        until("the guard knows the keys", || {
            status(&guarded.tokens.good) == Some(200)
        });
        // Each worker, of whichever connection.
        until("the guard knows the revocation", || {
            (0..50).all(|_| status(&guarded.tokens.revoked) == Some(401))
        });
        guarded
    }

    /// Starts all three, and sends no request.
    fn start_unasked(kind: Kind, changes: &[(&str, &str)]) -> Self {
        let issuer = Issuer::new().unwrap();
        let configuration = configuration(&issuer);
        let upstream = Upstream::start(true).unwrap();
        let guard = ready_guard(&configuration, &[]);
        let neighbours = neighbours(&guard, &configuration, upstream.port());
        let gateway = Gateway::start(kind, &neighbours, changes).unwrap();
        Self {
            kind,
            configuration,
            tokens: tokens(&issuer),
            upstream,
            guard,
            gateway,
        }
    }

    fn differences(&self) -> Vec<String> {
        let (name, port) = (self.kind.name(), self.gateway.port());
        let found = differences(port, &self.upstream, &self.configuration, &self.tokens);
        found.iter().map(|line| format!("{name}: {line}")).collect()
    }
}

/// All gateways that ask token-guard: all but the filter.
pub(crate) fn asking() -> impl Iterator<Item = Kind> {
    Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::EnvoyFilter)
}

/// Runs a check against all gateways that ask token-guard at the same time, and shows the differences that it returns.
pub(crate) fn at_every_gateway(check: impl Fn(Kind) -> Vec<String> + Sync) {
    let form = tests::Form::chosen().unwrap();
    let found: Vec<String> = std::thread::scope(|scope| {
        let check = &check;
        let start = |kind: Kind| scope.spawn(move || form.run(|| check(kind)));
        let threads: Vec<_> = asking().map(start).collect();
        let found = threads.into_iter().map(|thread| thread.join().unwrap());
        found.flatten().collect()
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Runs the whole table through each gateway, and then stops the guard.
#[test]
fn every_gateway_keeps_the_table() {
    at_every_gateway(|kind| {
        let guarded = Guarded::start(kind, &[]);
        let mut found = guarded.differences();
        let Guarded {
            guard,
            gateway,
            upstream,
            tokens,
            ..
        } = guarded;
        drop(guard);
        found.extend(openings(kind, gateway.port(), &upstream, &tokens));
        found
    });
}

/// The routes that the chart's notes describe: one for WebSockets, and the others without protocols.
const AS_IN_THE_CHART: [(&str, &str); 3] = [
    (
        "[few-of-one-address, no-other-protocol, no-forged-identity, token-guard]",
        "[no-forged-identity, token-guard]",
    ),
    (
        "[few-of-one-address, no-forged-identity, token-guard]",
        "[no-other-protocol, no-forged-identity, token-guard]",
    ),
    (
        "HeaderRegexp(`Upgrade`, `(?i)[^websockt]`)",
        "HeaderRegexp(`Upgrade`, `(?i)^websocket$`) && !HeaderRegexp(`Upgrade`, `(?i)[^websockt]`)",
    ),
];

#[test]
fn traefik_as_in_the_chart_keeps_the_table() {
    let found = Guarded::start(Kind::Traefik, &AS_IN_THE_CHART).differences();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[forms::each]
fn envoy_with_the_filter_keeps_the_table() {
    let found = Guarded::start(Kind::EnvoyFilter, &[]).differences();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Replacements that shorten each gateway's timeout for the guard.
fn shorter(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Nginx | Kind::DebianNginx => &[("proxy_read_timeout 10s", "proxy_read_timeout 1s")],
        Kind::Caddy => &[("response_header_timeout 10s", "response_header_timeout 1s")],
        Kind::HaProxy => &[("local TIMEOUT = 10000", "local TIMEOUT = 1000")],
        Kind::EnvoyExtAuthz => &[(
            "timeout: 10s\n                        authorization_request",
            "timeout: 1s\n                        authorization_request",
        )],
        // Traefik has a fixed timeout of half a minute, without a key for it.
        Kind::Traefik | Kind::EnvoyFilter => &[],
    }
}

/// With a guard that accepts connections and never answers, no request passes, and none waits for ever.
#[test]
fn a_guard_that_does_not_answer_lets_nobody_pass() {
    let issuer = Issuer::new().unwrap();
    let tokens = tokens(&issuer);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = Upstream::start(true).unwrap();
    let neighbours = Neighbours::of_guard(silent.local_addr().unwrap().port(), upstream.port());
    at_every_gateway(|kind| {
        let gateway = Gateway::start(kind, &neighbours, shorter(kind)).unwrap();
        openings(kind, gateway.port(), &upstream, &tokens)
    });
}

/// HAProxy continues with a request if an action in Lua fails.
#[test]
fn a_broken_script_in_haproxy_lets_nobody_pass() {
    let start = "local headers = txn.http:req_get_headers()";
    for broken in ["error('broken')", "while true do end"] {
        let guarded = Guarded::start_unasked(Kind::HaProxy, &[(start, broken)]);
        let (gateway, upstream) = (&guarded.gateway, &guarded.upstream);
        let found = openings(Kind::HaProxy, gateway.port(), upstream, &guarded.tokens);
        assert!(found.is_empty(), "{broken}:\n{}", found.join("\n"));
    }
}

/// Shows that the table detects mistakes in a gateway's configuration: each change here opens a gateway.
#[test]
fn the_table_notices_careless_configurations() {
    for (kind, careless, noticed) in [
        (
            Kind::Nginx,
            ("proxy_set_header X-User-Id $guard_user_id;", ""),
            "x-user-id",
        ),
        (
            Kind::DebianNginx,
            ("\"~*^websocket$\" websocket;", "\"~h2c\" h2c;"),
            "the token lacks the scope",
        ),
        (
            Kind::Caddy,
            ("request_header @plain -Connection", ""),
            "Connection: ",
        ),
        (Kind::Caddy, ("request_header -X-User*", ""), "x-user~id"),
        (
            Kind::Traefik,
            ("aliasHeadersStrategy: delete", "aliasHeadersStrategy: keep"),
            "x_user_id",
        ),
        (
            Kind::HaProxy,
            (
                "http-request del-header ^x[^a-z0-9]user[^a-z0-9]id$ -m reg",
                "",
            ),
            "x_user_id",
        ),
        (
            Kind::EnvoyExtAuthz,
            (
                "- remove_on_match: { key_matcher: { safe_regex: { regex: 'x[^a-z0-9]user[^a-z0-9]id' } } }",
                "",
            ),
            "x-user-id",
        ),
    ] {
        let found = Guarded::start(kind, &[careless]).differences();
        let is_noticed = found
            .iter()
            .any(|line| line.to_lowercase().contains(&noticed.to_lowercase()));
        assert!(is_noticed, "{} with {careless:?}: {found:?}", kind.name());
    }
}

/// A WebSocket is a request like any other: it passes with a token, and the resource server may switch protocols.
#[test]
fn websockets_pass_with_a_token() {
    let upgrade = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for kind in [Kind::Nginx, Kind::Caddy, Kind::Traefik, Kind::HaProxy] {
        let guarded = Guarded::start(kind, &[]);
        let port = guarded.gateway.port();
        let head = "GET /api/socket HTTP/1.1\r\nHost: localhost\r\nX-Test: socket\r\n";
        let token = &guarded.tokens.good;
        let request = format!("{head}{upgrade}Authorization: Bearer {token}\r\n\r\n");
        let (answer, connection) = wire::open(port, &request).unwrap();
        let arrived = guarded.upstream.arrived("socket");
        let name = kind.name();
        let arrived = arrived.unwrap_or_else(|| panic!("{name}: {answer:?}"));
        assert_eq!(arrived.values("upgrade"), ["websocket"], "{name}");
        let options = arrived.values("connection").concat().to_lowercase();
        assert!(options.contains("upgrade"), "{name}: {options}");
        assert_eq!(arrived.values("x-user-id"), ["1879048402"], "{name}");
        assert_eq!(answer.map(|answer| answer.status), Some(101), "{name}");
        // The resource server speaks HTTP/2 within, and any other bytes would pass too.
        let within = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", "/within"),
            ("x-test", "within"),
        ];
        assert!(http2::send(connection, &within, "", &[]), "{name}");
        assert!(guarded.upstream.arrived("within").is_some(), "{name}");
    }
}
