//! A thousand requests that wait for the same fetch, and get their answers together. Envoy ends each stream inside the
//! call that answers it, so a filter that answered all of them at once would overflow the stack of its VM.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use tests::http2::{self, STREAMS};
use tests::wire;
use tokio::task::JoinSet;
use ureq::http::Request;

use crate::api::until;
use crate::native::metric;
use crate::support::{OwnPair, get, stat};

/// Number of concurrent requests: less than the filter's limit of held requests.
const REQUESTS: usize = 1000;

fn api_url(pair: &OwnPair) -> String {
    format!("{}/api/projects", pair.pair.api_url())
}

/// Number of VMs that this Envoy has created so far. An increase means that a VM was lost. The native module has none: its crash
/// ends Envoy.
fn vms_made(pair: &OwnPair) -> Option<u64> {
    stat(
        pair.pair.ports().envoy_admin,
        "wasm.envoy.wasm.runtime.v8.created",
    )
}

/// Sends the requests over a few connections, all before the first response is read. Returns the statuses, each with
/// true if the response has `Retry-After`, as the filter's own refusals with 503 have.
fn send_at_once(pair: &OwnPair, token: &str) -> Vec<(u16, bool)> {
    let port = pair.pair.ports().api;
    let (url, authorization) = (api_url(pair), format!("Bearer {token}"));
    let runtime = http2::runtime().unwrap();
    let exchange = async {
        let mut answers = JoinSet::new();
        for _ in 0..REQUESTS / STREAMS {
            let client = http2::connect(Ipv4Addr::LOCALHOST, port).await.unwrap();
            for _ in 0..STREAMS {
                let request = Request::get(&url).header("authorization", &authorization);
                let (client, request) = (client.clone(), request.body(()).unwrap());
                answers.spawn(async move {
                    let answer = http2::exchange(&client, request, "").await.unwrap();
                    (answer.status, answer.header("retry-after").is_some())
                });
            }
        }
        answers.join_all().await
    };
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), exchange).await })
        .unwrap()
}

/// Floods the gateway: every response is the expected one, and the VM does not crash.
#[track_caller]
fn assert_survives(pair: &OwnPair, token: &str, expected: (u16, bool)) {
    let before = vms_made(pair);
    let answers = send_at_once(pair, token);
    assert_eq!(answers.len(), REQUESTS);
    let others: Vec<_> = answers
        .iter()
        .filter(|answer| **answer != expected)
        .collect();
    assert!(
        others.is_empty(),
        "{} others: {:?}",
        others.len(),
        others.first()
    );
    assert_eq!(vms_made(pair), before, "a VM was lost");
    until("nobody waits any more", || {
        metric(pair.pair.ports().envoy_admin, "waiting") == Some(0)
    });
}

/// This attack needs no credentials, because the filter reads a token's `kid` before it verifies the signature.
#[forms::each]
fn a_thousand_tokens_with_an_unknown_key_end_no_vm() {
    let pair = OwnPair::start(&[]);
    let good = pair.token();
    assert_eq!(pair.call(&good), 200);
    let header = json!({"typ": "at+jwt", "alg": "EdDSA", "kid": "nobody-has-this-one"});
    let (_, rest) = good.split_once('.').unwrap();
    let unknown = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header.to_string()));
    // The fetch for this token is the last one for two seconds, in which the other requests accumulate.
    assert_eq!(pair.call(&unknown), 401);
    assert_survives(&pair, &unknown, (401, false));
    assert_eq!(pair.call(&good), 200);
}

#[forms::each]
fn a_thousand_requests_before_the_first_keys_end_no_vm() {
    let mut pair = OwnPair::start(&[]);
    let good = pair.token();
    pair.pair.stop_token_service();
    pair.pair.restart_envoy().unwrap();
    assert_survives(&pair, &good, (503, true));
    pair.pair.start_token_service().unwrap();
    until("keys arrive", || pair.call(&good) == 200);
}

#[forms::each]
fn a_thousand_requests_at_a_stale_feed_end_no_vm() {
    let mut pair = OwnPair::with_gateway(&[(
        r#""max_staleness_seconds": 60, "when_stale": "allow""#,
        r#""max_staleness_seconds": 2, "when_stale": "deny""#,
    )]);
    let good = pair.token();
    until("the feed is read", || pair.call(&good) == 200);
    pair.pair.stop_token_service();
    until("the feed is stale", || pair.call(&good) == 503);
    assert_survives(&pair, &good, (503, true));
    pair.pair.start_token_service().unwrap();
    until("the feed is back", || pair.call(&good) == 200);
}

/// The lobby takes 4,000 connections, and Envoy does not count them by address. A client that holds them all keeps browsers away,
/// but neither the keys from gateways elsewhere nor tokens from the API.
#[test]
fn half_sent_requests_that_close_the_lobby_keep_no_keys_away() {
    const LOBBY: u64 = 4000;
    tests::flood::allow_open_files(LOBBY + 500).unwrap();
    let pair = OwnPair::start(&[]);
    let good = pair.token();
    let ports = pair.pair.ports();
    let at = |port: u16, path: &str| format!("http://127.0.0.1:{port}{path}");
    let held = RefCell::new(Vec::new());
    // Envoy ends an unfinished request after ten seconds.
    until("the lobby is full", || {
        held.take();
        let head = "GET / HTTP/1.1\r\nhost: a\r\nx-half";
        let opened = (0..LOBBY).map(|_| wire::begin(ports.lobby, head).unwrap());
        held.replace(opened.collect());
        let keys = at(ports.lobby, "/auth/jwks");
        std::panic::catch_unwind(|| get(&keys, &[])).is_err()
    });
    for path in ["/auth/jwks", "/.well-known/oauth-authorization-server"] {
        assert_eq!(get(&at(ports.keys, path), &[]).status, 200, "{path}");
    }
    assert_eq!(pair.call(&good), 200);
    drop(held);
    // Everything else is for the lobby.
    for path in ["/", "/auth/authorize", "/revocations"] {
        get(&at(ports.keys, path), &[]).assert_error(404, "not_found");
    }
}
