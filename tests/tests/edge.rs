//! What the gateway itself does: its errors, pages of other origins, unfinished requests, forged addresses, and its
//! admin interface.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::flood::{self, UnfinishedPosts};
use tests::front::pages;
use tests::{Artifacts, Ports, Process, envoy, free_port, gateways, http2, wire};
use ureq::http::{HeaderName, Request};

use crate::api::until;
use crate::nonsense::POSTS;
use crate::support::{
    CREDENTIALS, OwnPair, Reply, USER_BOUND, WEB, api, file, form_body, get, lobby, pair, post,
    send, stat,
};

/// More than 1,024, Envoy's default limit of connections to a cluster.
const MANY: usize = 1100;

const APP: &str = "https://spa.example.com";

#[track_caller]
fn raw(port: u16, request: &str) -> Reply {
    wire::send(port, request).unwrap().unwrap().into()
}

/// What the other side says last to unfinished forms.
#[track_caller]
fn last_words(held: &mut UnfinishedPosts) -> Reply {
    held.last_words().unwrap().into()
}

/// All listeners of the gateway, by name.
fn listeners(ports: Ports) -> [(&'static str, u16); 5] {
    [
        ("api", ports.api),
        ("keys", ports.keys),
        ("lobby", ports.lobby),
        ("early access", ports.lobby_ea),
        ("legacy", ports.legacy),
    ]
}

/// Asserts the gateway's own error, with the request id.
#[track_caller]
fn assert_gateway_error(listener: &str, reply: &Reply, status: u16, error: &str) {
    assert_eq!(reply.status, status, "{listener}: {reply:?}");
    reply.assert_error(status, error);
    let id = reply.header("x-request-id").unwrap_or_default();
    assert!(!id.is_empty(), "{listener}: {reply:?}");
    let retry = reply.header("retry-after");
    assert_eq!(retry.is_some(), status == 503, "{listener}: {reply:?}");
}

#[forms::each]
fn protocol_s2_4_errors_of_every_listener_itself_have_the_error_body_and_the_request_id() {
    let long = "a".repeat(100 * 1024);
    for (listener, port) in listeners(pair().ports()) {
        let invalid = |request: &str, status| {
            let reply = raw(port, request);
            assert_gateway_error(listener, &reply, status, "invalid_request");
        };
        invalid("nonsense\r\n\r\n", 400);
        invalid("GET / HTTP/1.1\r\nconnection: close\r\n\r\n", 400);
        invalid(
            "GET /a%2fb HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            400,
        );
        invalid("GET / HTTP/1.0\r\n\r\n", 426);
        invalid(
            &format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n"),
            431,
        );
    }
    // Unfinished requests, at all listeners at the same time.
    std::thread::scope(|scope| {
        for (listener, port) in listeners(pair().ports()) {
            scope.spawn(move || {
                let reply = raw(port, "GET / HTTP/1.1\r\nhost: x\r\nx-unfinished:");
                assert_gateway_error(listener, &reply, 408, "invalid_request");
            });
        }
    });
}

#[test]
fn d_18_the_gateway_itself_refuses_large_forms() {
    for (listener, port) in listeners(pair().ports()).into_iter().skip(2) {
        for path in POSTS {
            let large = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 70000\r\n\r\n{}",
                "a".repeat(70_000)
            );
            assert_gateway_error(listener, &raw(port, &large), 413, "invalid_request");
        }
    }
}

#[test]
fn errors_without_a_service_say_when_to_try_again() {
    let mut pair = OwnPair::start(&[]);
    pair.pair.stop_token_service();
    for (listener, port) in listeners(pair.pair.ports()).into_iter().skip(2) {
        for path in ["/auth/jwks", "/auth/authorize"] {
            let reply = get(&format!("http://127.0.0.1:{port}{path}"), &[]);
            assert_gateway_error(listener, &reply, 503, "temporarily_unavailable");
        }
        let url = format!("http://127.0.0.1:{port}/auth/authorize");
        let reply = get(&url, &[("accept", "text/html,*/*;q=0.8")]);
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (503, Some("1"))
        );
        assert_eq!(
            reply.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(
            reply.body,
            pages("envoy/envoy.yaml").unwrap()[0],
            "{listener}"
        );
    }
    let of_front = pages("examples/envoy-ext-authz/front.yaml").unwrap();
    assert_eq!(pages("envoy/envoy.yaml").unwrap(), of_front);
    assert_eq!(of_front.len(), 3);
}

/// An Envoy with a changed configuration, without the other parts of a pair.
struct Gateway {
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Gateway {
    /// Starts Envoy with this configuration and the replacements `changes`. Each replaced text must occur in it.
    #[track_caller]
    fn start(mut text: String, admin: u16, changes: &[(&str, String)]) -> Self {
        let artifacts = Artifacts::find().unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let config = folder.path().join("envoy.yaml");
        std::fs::write(&config, text).unwrap();
        let process = envoy::serve(&artifacts, &config, admin).unwrap();
        Self {
            _process: process,
            _folder: folder,
        }
    }
}

/// With a smaller bucket than in the shipped configuration. The gateway answers 429 without a token service.
#[test]
fn one_address_does_not_use_up_the_lobby_of_others() {
    let ports = Ports::free().unwrap();
    let moved = |port: u16| format!("port_value: {port} ");
    let changes = [
        ("port_value: 8080 ", moved(ports.api)),
        ("port_value: 8081 ", moved(ports.lobby)),
        ("port_value: 8082 ", moved(ports.lobby_ea)),
        ("port_value: 8083 ", moved(ports.legacy)),
        ("port_value: 8084 ", moved(ports.keys)),
        ("port_value: 9901 ", moved(ports.envoy_admin)),
        ("port_value: 9080 ", moved(ports.public)),
        ("port_value: 9081 ", moved(ports.internal)),
        ("port_value: 9082 ", moved(ports.public_ea)),
        ("port_value: 9083 ", moved(ports.internal_ea)),
        (
            "{ max_tokens: 3000, tokens_per_fill: 1000, fill_interval: 1s }",
            "{ max_tokens: 5, tokens_per_fill: 1, fill_interval: 600s }".to_owned(),
        ),
    ];
    let text = envoy::mounted(&file("envoy/envoy.yaml"), &Artifacts::find().unwrap()).unwrap();
    let _gateway = Gateway::start(text, ports.envoy_admin, &changes);

    let url = format!("http://127.0.0.1:{}/auth/jwks", ports.lobby);
    let runtime = http2::runtime().unwrap();
    let statuses = runtime.block_on(async {
        let eve = Ipv4Addr::new(127, 0, 0, 2);
        let requests = http2::connect(eve, ports.lobby).await.unwrap();
        let mut statuses = Vec::new();
        for _ in 0..6 {
            let request = Request::get(&url).body(()).unwrap();
            let answer = http2::exchange(&requests, request, "").await.unwrap();
            statuses.push(answer.status);
        }
        statuses
    });
    assert_eq!(statuses, [503, 503, 503, 503, 503, 429]);
    for _ in 0..5 {
        assert_eq!(get(&url, &[]).status, 503);
    }
    let refused = get(&url, &[]);
    refused.assert_error(429, "temporarily_unavailable");
    assert!(refused.header("retry-after").is_some());
}

/// The guide for plain Envoy, with no resource server.
#[forms::each]
fn plain_envoy_answers_for_a_resource_server_that_does_not() {
    let [api, admin, nobody] = [(); 3].map(|()| free_port().unwrap());
    let artifacts = Artifacts::find().unwrap();
    let moved = |port: u16| format!("port_value: {port} ");
    let filter = artifacts.filter.display().to_string();
    let changes = [
        ("port_value: 8070 ", moved(api)),
        ("port_value: 8000 ", moved(nobody)),
        ("port_value: 9911 ", moved(admin)),
        (gateways::mounted(artifacts.form), filter),
    ];
    let text = file(&format!(
        "{}/envoy.yaml",
        gateways::plain_envoy(artifacts.form)
    ));
    let _gateway = Gateway::start(text, admin, &changes);

    let anonymous = get(&format!("http://127.0.0.1:{api}/healthz"), &[]);
    assert_gateway_error("plain", &anonymous, 503, "temporarily_unavailable");
    assert_gateway_error(
        "plain",
        &raw(api, "nonsense\r\n\r\n"),
        400,
        "invalid_request",
    );
    // The gateway does not replace refusals of the filter.
    let refused = get(&format!("http://127.0.0.1:{api}/"), &[("origin", APP)]);
    let description = refused.assert_error(401, "invalid_request");
    assert!(description.contains("Authorization"), "{description}");
    assert_eq!(refused.header("access-control-allow-origin"), Some(APP));
    let preflight = preflight(&format!("http://127.0.0.1:{api}/"), APP, "GET");
    assert_eq!(preflight.status, 200);
}

fn preflight(url: &str, origin: &str, method: &str) -> Reply {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "authorization,dpop"),
    ];
    send("OPTIONS", url, &headers, ())
}

fn cors_headers(reply: &Reply) -> Vec<&str> {
    let names = reply.headers.keys().map(HeaderName::as_str);
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with("access-control-"))
        .collect();
    names.sort_unstable();
    names
}

#[forms::each]
fn pages_of_allowed_origins_may_ask_without_a_token_what_they_may_send() {
    let local = "http://127.0.0.1:40123";
    for (path, method, origin) in [
        ("/api/projects", "GET", APP),
        ("/api/documents/1", "DELETE", APP),
        ("/nowhere", "POST", local),
    ] {
        let reply = preflight(&format!("{}{path}", api()), origin, method);
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        let allowed = |name| reply.header(name).unwrap_or_default().to_owned();
        assert!(allowed("access-control-allow-methods").contains(method));
        for name in ["authorization", "dpop"] {
            assert!(allowed("access-control-allow-headers").contains(name));
        }
    }
}

#[forms::each]
fn pages_of_allowed_origins_may_read_answers_and_refusals() {
    let url = format!("{}/api/projects", api());
    let good = format!("Bearer {}", crate::api::token());
    for (credentials, status) in [
        (Some(good.as_str()), 200),
        (Some("Bearer a.b.c"), 401),
        (None, 401),
    ] {
        let mut headers = vec![("origin", APP)];
        headers.extend(credentials.map(|credentials| ("authorization", credentials)));
        let reply = get(&url, &headers);
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some(APP));
        let exposed = reply.header("access-control-expose-headers").unwrap();
        for name in [
            "www-authenticate",
            "dpop-nonce",
            "retry-after",
            "x-request-id",
        ] {
            assert!(exposed.contains(name), "{exposed}");
        }
        assert!(reply.header("vary").unwrap().contains("origin"));
    }
}

#[forms::each]
fn pages_of_other_origins_get_nothing_to_read() {
    let url = format!("{}/api/projects", api());
    let good = format!("Bearer {}", crate::api::token());
    for origin in [
        "https://evil.example.com",
        "https://spa.example.com.evil.example",
        "http://spa.example.com",
        "https://xspa.example.com",
        "http://127.0.0.1.evil.example:80",
        "http://127.0.0.1:1@evil.example",
        "http://localhost:8000",
        "null",
    ] {
        let asked = preflight(&url, origin, "GET");
        assert_eq!(asked.status, 401, "{origin}");
        assert_eq!(cors_headers(&asked), [""; 0], "{origin}");
        let reply = get(&url, &[("origin", origin), ("authorization", &good)]);
        assert_eq!(reply.status, 200);
        assert_eq!(cors_headers(&reply), [""; 0], "{origin}");
        // Caches store responses per origin.
        assert!(reply.header("vary").unwrap().contains("origin"));
    }
}

/// Results of a legitimate client at the authorization server `lobby`.
#[track_caller]
fn assert_served(lobby: &str) {
    for path in ["/auth/jwks", "/.well-known/oauth-authorization-server"] {
        assert_eq!(get(&format!("{lobby}{path}"), &[]).status, 200, "{path}");
    }
    let reply = USER_BOUND.token(lobby, &CREDENTIALS);
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// A counter of the gateway of `pair`.
fn counted(pair: &OwnPair, name: &str) -> usize {
    let count = stat(pair.pair.ports().envoy_admin, name).unwrap();
    count.try_into().unwrap()
}

/// Number of unfinished requests at the lobby of `pair`.
fn under_way(pair: &OwnPair) -> usize {
    counted(pair, "http.lobby.downstream_rq_active")
}

/// Unfinished forms over HTTP/1.1 and HTTP/2 delay no other request, because the service does not get them.
#[test]
fn unfinished_forms_at_the_gateway_stop_nobody() {
    flood::allow_open_files(4 * MANY as u64).unwrap();
    let pair = OwnPair::start(&[]);
    let (lobby, port) = (pair.pair.lobby_url(), pair.pair.ports().lobby);
    let token = pair.token();

    for http2 in [false, true] {
        let open = match http2 {
            true => UnfinishedPosts::http2,
            false => UnfinishedPosts::http1,
        };
        let held = RefCell::new(UnfinishedPosts::default());
        // The gateway ends them after fifteen seconds.
        until("the gateway has them all", || {
            held.take();
            let start = Instant::now();
            held.replace(open(port, "/auth/token", MANY).unwrap());
            while under_way(&pair) < MANY && start.elapsed() < Duration::from_secs(10) {
                tests::pace();
            }
            under_way(&pair) >= MANY
        });
        let mut held = held.into_inner();
        let passed_on = counted(&pair, "cluster.token-service.upstream_rq_active");
        assert_eq!(passed_on, 0);
        assert_served(&lobby);
        assert_eq!(pair.call(&token), 200);
        // The gateway ends them.
        if http2 {
            assert_eq!(held.last_status().unwrap(), 408);
        } else {
            let last = last_words(&mut held);
            assert_gateway_error("lobby", &last, 408, "invalid_request");
        }
        drop(held);
        until("the gateway is rid of them", || under_way(&pair) < MANY);
    }
}

/// Without a gateway that buffers forms, the service drops the oldest of too many unfinished forms, and all of them
/// after a time.
#[test]
fn unfinished_forms_at_the_service_stop_nobody() {
    flood::allow_open_files(2 * MANY as u64).unwrap();
    let pair = OwnPair::start(&[]);
    let port = pair.pair.ports().public;
    let service = format!("http://127.0.0.1:{port}");
    for path in ["/auth/token", "/auth/sign-in"] {
        let mut held = UnfinishedPosts::http1(port, path, MANY).unwrap();
        assert_served(&service);
        let last = last_words(&mut held);
        assert_eq!(last.status, 408, "{path}: {last:?}");
        if path == "/auth/token" {
            last.assert_error(408, "invalid_request");
        } else {
            assert!(last.body.contains("<h1>"), "{last:?}");
        }
    }
    assert_served(&service);
}

/// Whatever address a client claims, the service gets the address that the gateway saw. Here the service trusts the
/// client's address too, as if clients and gateway shared a network.
#[test]
fn rfc7239_s8_1_forged_addresses_are_not_believed() {
    let mut pair = OwnPair::start(&[]);
    let ports = pair.pair.ports();
    let refuse = |port: u16, name: &str, value: &str| {
        let body = form_body(&[("grant_type", "refresh_token"), ("refresh_token", "x")]);
        let headers = [(name, value.to_owned()), ("authorization", WEB.basic())];
        let url = format!("http://127.0.0.1:{port}/auth/token");
        assert_eq!(post(&url, &headers, &body).status, 400);
    };
    let addresses = |pair: &OwnPair| -> Vec<String> {
        let listed = pair.json("audit --limit 500");
        let refusals = listed["items"].as_array().unwrap().iter();
        let refusals = refusals.filter(|entry| entry["action"] == "token_request_refused");
        let address = |entry: &Value| entry["address"].as_str().unwrap().to_owned();
        refusals.map(address).collect()
    };

    refuse(ports.lobby, "x-other", "nothing");
    until("the log has it", || addresses(&pair).len() == 1);
    // Envoy reports the machine's own address for a client on loopback.
    let honest = addresses(&pair).remove(0);
    let trusted = format!("127.0.0.1,{honest}");
    pair.pair
        .set_environment("TOKEN_SERVICE__TRUSTED_PROXIES", &trusted);
    pair.restart();

    let mut expected = 1;
    for (name, value) in [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-for", "203.0.113.7, 127.0.0.1"),
        ("x-forwarded-for", "127.0.0.1,203.0.113.7"),
        ("forwarded", "for=203.0.113.7"),
        ("x-real-ip", "203.0.113.7"),
    ] {
        for port in [ports.lobby, ports.legacy] {
            refuse(port, name, value);
            expected += 1;
        }
    }
    until("the log has it", || addresses(&pair).len() == expected);
    assert_eq!(addresses(&pair), vec![honest; expected]);
}

/// A page in a browser on this machine can send requests to the port of the admin interface.
#[test]
fn the_admin_interface_of_the_gateway_shows_and_changes_nothing() {
    let admin = format!("http://127.0.0.1:{}", pair().ports().envoy_admin);
    for path in ["/ready", "/stats/prometheus", "/stats?filter=x"] {
        assert_eq!(get(&format!("{admin}{path}"), &[]).status, 200, "{path}");
    }
    for path in [
        "/quitquitquit",
        "/healthcheck/fail",
        "/drain_listeners",
        "/runtime_modify?x=1",
        "/reset_counters",
        "/logging?level=trace",
        "/config_dump",
        "/certs",
        "/",
    ] {
        let reply = post(&format!("{admin}{path}"), &[], "");
        assert_eq!(reply.status, 403, "{path}");
        assert_eq!(get(&format!("{admin}{path}"), &[]).status, 403, "{path}");
    }
    assert_eq!(get(&format!("{}/auth/jwks", lobby()), &[]).status, 200);
}
