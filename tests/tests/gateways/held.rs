//! Connections that a client holds: many of one address, bodies that never end, and WebSockets that never end.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;

use tests::gateways::{Gateway, Kind, Neighbours};
use tests::{Upstream, response, wire};

use crate::api::until;

/// Connections that the ready configurations allow one address.
const MOST: usize = 200;

/// A gateway whose guard allows everything, before a resource server.
fn open_gateway(kind: Kind, changes: &[(&str, &str)]) -> (Gateway, Upstream) {
    let resource_server = Upstream::start(true).unwrap();
    let neighbours = Neighbours::of_guard(guard("200 OK"), resource_server.port());
    let gateway = Gateway::start(kind, &neighbours, changes).unwrap();
    (gateway, resource_server)
}

fn is_served(port: u16) -> bool {
    let request = "GET /api/projects HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = wire::send(port, request);
    answer.is_ok_and(|answer| answer.is_some_and(|answer| answer.status == 200))
}

/// HAProxy is the only one of these gateways that counts connections before it has read a request.
#[test]
fn haproxy_counts_the_half_sent_requests_of_an_address() {
    let (gateway, _resource_server) = open_gateway(Kind::HaProxy, &[]);
    let port = gateway.port();
    assert!(is_served(port));
    let head = "GET /api/projects HTTP/1.1\r\nHost: localhost\r\nX-Half";
    // HAProxy ends an unfinished request after ten seconds.
    until("the address has all its connections", || {
        let _held: Vec<TcpStream> = (0..MOST)
            .map(|_| wire::begin(port, head).unwrap())
            .collect();
        !is_served(port)
    });
    until("the address is served again", || is_served(port));
}

/// Starts a server that decides about every request in the same way. Returns its port.
fn guard(status: &'static str) -> u16 {
    tests::serve("127.0.0.1", 0, move |_| response(status, "", "")).unwrap()
}

/// Go reads the rest of a body before it sends a response, so a client could hold a refusal and its connection for ever.
#[test]
fn a_body_that_never_ends_holds_no_refusal_back() {
    let guard = guard("401 Unauthorized");
    for (kind, change) in [
        (Kind::Caddy, ("read_body 60s", "read_body 1s")),
        (Kind::Traefik, ("readTimeout: 60s", "readTimeout: 1s")),
    ] {
        let neighbours = Neighbours {
            guard,
            ..Neighbours::default()
        };
        let gateway = Gateway::start(kind, &neighbours, &[change]).unwrap();
        let head = "POST /api/projects HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nbeginning";
        let mut connection = wire::begin(gateway.port(), head).unwrap();
        let mut answer = Vec::new();
        let ended = connection.read_to_end(&mut answer);
        let name = kind.name();
        let is_late = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
        assert!(!ended.as_ref().is_err_and(is_late), "{name}: {ended:?}");
    }
}

/// Caddy is the only one of these gateways with a bound on the age of a WebSocket.
#[test]
fn caddy_ends_a_websocket_of_a_certain_age() {
    let change = ("stream_timeout 1h", "stream_timeout 1s");
    let (gateway, _resource_server) = open_gateway(Kind::Caddy, &[change]);
    let request = "GET /api/projects HTTP/1.1\r\nHost: localhost\r\nX-Test: age\r\nUpgrade: websocket\r\n\
                   Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let (answer, mut connection) = wire::open(gateway.port(), request).unwrap();
    assert_eq!(answer.unwrap().status, 101);
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).unwrap();
}
