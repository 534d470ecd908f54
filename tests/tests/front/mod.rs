//! The token service behind other proxies, with TLS: the files `front*` of `examples/`. One table for all of them, which run at
//! the same time and share two token services.

mod rows;

use std::cell::RefCell;
use std::fmt::Debug;
use std::net::{Ipv4Addr, TcpStream};

use tests::front::{Front, HOST};
use tests::gateways::Kind;
use tests::tls::{self, Identity};
use tests::{Answer, wire};
use tests::{browsing::FORM, free_port};
use ureq::http::HeaderMap;

use crate::gateways::{asking, at_every_gateway};
use crate::support::{OwnPair, get};

/// A token service whose issuer is `https://id.example.com`, and its port for clients with certificates.
fn service(certificate_header: &str) -> (OwnPair, u16) {
    let port = free_port().unwrap();
    let pair = OwnPair::start(&[
        ("TOKEN_SERVICE__ISSUER", &format!("https://{HOST}")),
        (
            "TOKEN_SERVICE__MUTUAL_TLS__LISTEN",
            &format!("127.0.0.1:{port}"),
        ),
        (
            "TOKEN_SERVICE__MUTUAL_TLS__URL",
            &format!("https://{HOST}:8443"),
        ),
        ("TOKEN_SERVICE__MUTUAL_TLS__GATEWAYS", "127.0.0.1"),
        (
            "TOKEN_SERVICE__MUTUAL_TLS__CERTIFICATE_HEADER",
            certificate_header,
        ),
    ]);
    // A legacy host, which the service recognizes by the `Host` that the proxy passes on.
    pair.done(&format!("legacy-instance put {HOST} --auth-server {HOST}"));
    (pair, port)
}

/// Replacements in a proxy's configuration: three seconds for unfinished requests, and 60 requests of an address at once. Caddy
/// gets a certificate of its own.
const fn changes(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Nginx | Kind::DebianNginx => &[
            ("client_header_timeout 10s", "client_header_timeout 3s"),
            ("client_body_timeout 10s", "client_body_timeout 3s"),
            ("rate=100r/s", "rate=1r/s"),
            ("burst=300", "burst=60"),
        ],
        Kind::Caddy => &[
            ("read_header 10s", "read_header 3s"),
            ("# In place of certificates of ACME: tls", "tls"),
        ],
        Kind::Traefik => &[
            ("readTimeout: 15s", "readTimeout: 3s"),
            ("average: 100", "average: 1"),
            ("burst: 300", "burst: 60"),
        ],
        Kind::HaProxy => &[
            ("timeout http-request 10s", "timeout http-request 3s"),
            ("sc0_http_req_rate gt 1000", "sc0_http_req_rate gt 60"),
        ],
        Kind::EnvoyExtAuthz | Kind::EnvoyFilter => &[
            (
                "request_headers_timeout: 10s",
                "request_headers_timeout: 3s",
            ),
            ("request_timeout: 15s", "request_timeout: 3s"),
            (
                "max_tokens: 300, tokens_per_fill: 100",
                "max_tokens: 60, tokens_per_fill: 1",
            ),
        ],
    }
}

/// A proxy before a token service, and what was wrong.
struct Place<'a> {
    kind: Kind,
    front: Front,
    server: &'a Identity,
    service: &'a OwnPair,
    found: RefCell<Vec<String>>,
}

impl Place<'_> {
    fn expect(&self, row: &str, is_right: bool, seen: impl Debug) {
        if !is_right {
            let line = format!("{}: {row}: {seen:?}", self.kind.name());
            self.found.borrow_mut().push(line);
        }
    }

    /// An address of this machine that clients of this proxy alone have. Envoy names another one for 127.0.0.1.
    fn address(&self, client: u8) -> Ipv4Addr {
        let number = asking().position(|kind| kind == self.kind).unwrap();
        Ipv4Addr::new(127, 1, u8::try_from(number).unwrap(), client)
    }

    fn connect(&self, client: u8, port: u16) -> TcpStream {
        wire::connect_from(self.address(client), port).unwrap()
    }

    /// Sends a request with these header lines to `port`, and shows `certificate`. The status is 0 without a response.
    fn ask(
        &self,
        (client, certificate): (u8, Option<&Identity>),
        port: u16,
        start: &str,
        headers: &str,
        body: &str,
    ) -> Answer {
        let length = match headers.contains("Transfer-Encoding") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let request = format!(
            "{start} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nContent-Type: {FORM}\r\n{headers}{length}\r\n{body}"
        );
        let connection = self.connect(client, port);
        let mut connection = tls::open(connection, self.server, certificate).unwrap();
        let answer = wire::exchange(&mut connection, &request).unwrap_or(Answer {
            status: 0,
            headers: HeaderMap::new(),
            body: String::new(),
        });
        let of_service = answer.values("strict-transport-security").len();
        let ids = answer.values("x-request-id").len();
        // Traefik gives requests no ids, and no proxy gives one to what it does not understand.
        let is_without =
            of_service == 0 && (self.kind == Kind::Traefik || [0, 400].contains(&answer.status));
        let is_right = of_service <= 1 && ids <= 1 && (ids == 1 || is_without);
        self.expect(start, is_right, (headers, &answer.headers));
        answer
    }
}

/// Eleven seconds, of which three are those of unfinished requests.
#[test]
fn every_proxy_keeps_the_table() {
    let server = Identity::named(HOST).unwrap();
    let services = [
        "X-Token-Service-Client-Certificate",
        "X-Forwarded-Tls-Client-Cert",
    ]
    .map(service);
    at_every_gateway(|kind| {
        let (service, with_certificates) = &services[usize::from(kind == Kind::Traefik)];
        let ports = [service.pair.ports().public, *with_certificates];
        let place = Place {
            kind,
            front: Front::start(kind, ports, changes(kind), &server).unwrap(),
            server: &server,
            service,
            found: RefCell::default(),
        };
        rows::check(&place);
        place.found.into_inner()
    });
    for (service, _) in services {
        let metrics = get(&format!("{}/metrics", service.pair.internal_url()), &[]).body;
        let unnamed = "\ntoken_service_requests_without_client_address_total 0\n";
        assert!(metrics.contains(unnamed), "{metrics}");
    }
}
