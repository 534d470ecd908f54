//! The token service behind other proxies, with TLS: the files `front*` of `examples/`. One table for all of them, which run at
//! the same time and share two token services.

mod page;
mod rows;

use std::cell::RefCell;
use std::fmt::Debug;
use std::io::Write as _;
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
        // 127.2.0.0/16: the load balancers.
        ("TOKEN_SERVICE__TRUSTED_PROXIES", "127.0.0.1, 127.2.0.0/16"),
    ]);
    // A legacy host, which the service recognizes by the `Host` that the proxy passes on.
    pair.done(&format!("legacy-instance put {HOST} --auth-server {HOST}"));
    (pair, port)
}

/// The certificate of the tests in Caddy's configuration.
const CERTIFICATE: (&str, &str) = ("# In place of certificates of ACME: tls", "tls");

/// Replacements in a proxy's configuration: 60 requests of an address at once, and no further attempts to connect.
const fn changes(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Nginx | Kind::DebianNginx => {
            &[("rate=100r/s", "rate=1r/s"), ("burst=300", "burst=60")]
        }
        Kind::Caddy => &[CERTIFICATE],
        Kind::Traefik => &[("average: 100", "average: 1"), ("burst: 300", "burst: 60")],
        Kind::HaProxy => &[
            // HAProxy waits for a second before each of its three.
            ("timeout connect 2s", "timeout connect 2s\n    retries 0"),
            ("sc0_http_req_rate gt 1000", "sc0_http_req_rate gt 60"),
        ],
        Kind::EnvoyExtAuthz | Kind::EnvoyFilter => &[(
            "max_tokens: 300, tokens_per_fill: 100",
            "max_tokens: 60, tokens_per_fill: 1",
        )],
    }
}

/// Replacements in a proxy's configuration: three seconds for unfinished requests.
const fn hasty(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Nginx | Kind::DebianNginx => &[
            ("client_header_timeout 10s", "client_header_timeout 3s"),
            ("client_body_timeout 10s", "client_body_timeout 3s"),
        ],
        Kind::Caddy => &[("read_header 10s", "read_header 3s"), CERTIFICATE],
        Kind::Traefik => &[("readTimeout: 15s", "readTimeout: 3s")],
        Kind::HaProxy => &[("timeout http-request 10s", "timeout http-request 3s")],
        Kind::EnvoyExtAuthz | Kind::EnvoyFilter => &[
            (
                "request_headers_timeout: 10s",
                "request_headers_timeout: 3s",
            ),
            ("request_timeout: 15s", "request_timeout: 3s"),
        ],
    }
}

/// Replacements for a proxy behind the load balancer `balancer`, as docs/front.md says.
fn behind(kind: Kind, balancer: Ipv4Addr) -> Vec<(String, String)> {
    let with = |after: &str, line: String| (after.to_owned(), format!("{after}\n{line}"));
    match kind {
        Kind::Nginx | Kind::DebianNginx => vec![with(
            "    access_log off;",
            format!(
                "    set_real_ip_from {balancer}; real_ip_header X-Forwarded-For; real_ip_recursive on;"
            ),
        )],
        Kind::Caddy => vec![with(
            "\t\tprotocols h1 h2",
            format!("\t\ttrusted_proxies static {balancer}"),
        )],
        Kind::Traefik => ["&strict", "*strict"]
            .map(|http| {
                let http = format!("    http: {http}");
                let trusted = format!("    forwardedHeaders: {{trustedIPs: [{balancer}]}}");
                (http.clone(), format!("{trusted}\n{http}"))
            })
            .into(),
        Kind::HaProxy => vec![with(
            "frontend token-service",
            format!("    tcp-request connection expect-proxy layer4 if {{ src {balancer} }}"),
        )],
        Kind::EnvoyExtAuthz | Kind::EnvoyFilter => {
            let hops = "                use_remote_address: true\n";
            vec![
                (
                    "                        - remove: x-forwarded-for\n".to_owned(),
                    String::new(),
                ),
                (
                    hops.to_owned(),
                    format!("{hops}                xff_num_trusted_hops: 1\n"),
                ),
            ]
        }
    }
}

/// The address of a client of the load balancers.
const BALANCED: &str = "198.51.100.7";

fn number(kind: Kind) -> u8 {
    let number = asking().position(|other| other == kind).unwrap();
    u8::try_from(number).unwrap()
}

/// The address of the load balancer before this proxy.
fn balancer(kind: Kind) -> Ipv4Addr {
    Ipv4Addr::new(127, 2, number(kind), 1)
}

/// A proxy before a token service, and what was wrong.
struct Place<'a> {
    kind: Kind,
    front: Front,
    server: &'a Identity,
    service: &'a OwnPair,
    /// Requests come from the proxy's load balancer.
    is_behind: bool,
    found: RefCell<Vec<String>>,
}

impl Place<'_> {
    fn expect(&self, row: &str, is_right: bool, seen: impl Debug) {
        if !is_right {
            let line = format!("{}: {row}: {seen:?}", self.kind.name());
            self.found.borrow_mut().push(line);
        }
    }

    /// An address of this machine that only clients of this proxy have. Envoy names another one for 127.0.0.1.
    fn address(&self, client: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, 1, number(self.kind), client)
    }

    fn connect(&self, client: u8, port: u16) -> TcpStream {
        if !self.is_behind {
            return wire::connect_from(self.address(client), port).unwrap();
        }
        let mut connection = wire::connect_from(balancer(self.kind), port).unwrap();
        if self.kind == Kind::HaProxy {
            let line = format!("PROXY TCP4 {BALANCED} 127.0.0.1 4711 {port}\r\n");
            connection.write_all(line.as_bytes()).unwrap();
        }
        connection
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

/// Takes ten seconds: three of them for unfinished requests.
#[test]
fn every_proxy_keeps_the_table() {
    let server = Identity::named(HOST).unwrap();
    let services = [
        "X-Token-Service-Client-Certificate",
        "X-Forwarded-Tls-Client-Cert",
    ]
    .map(service);
    at_every_gateway(|kind| {
        let is_traefik = kind == Kind::Traefik;
        let place = |reads_other_header: bool, is_deserted, is_behind, changes: &[(&str, &str)]| {
            let (service, with_certificates) =
                &services[usize::from(is_traefik != reads_other_header)];
            let ports = match is_deserted {
                true => [(); 2].map(|()| free_port().unwrap()),
                false => [service.pair.ports().public, *with_certificates],
            };
            Place {
                kind,
                front: Front::start(kind, ports, changes, &server).unwrap(),
                server: &server,
                service,
                is_behind,
                found: RefCell::default(),
            }
        };
        let alone = place(false, false, false, changes(kind));
        rows::check(&alone);
        let hasty = place(false, false, false, hasty(kind));
        rows::unfinished(&hasty);
        let deserted = place(false, true, false, changes(kind));
        rows::check_deserted(&deserted);
        let behind = behind(kind, balancer(kind));
        let behind = behind.iter().map(|(from, to)| (&**from, &**to));
        let behind: Vec<_> = changes(kind).iter().copied().chain(behind).collect();
        // Its token service reads the certificate from the header of the other proxies.
        let behind = place(true, false, true, &behind);
        rows::check_behind(&behind);
        [alone, hasty, deserted, behind]
            .map(|place| place.found.into_inner())
            .concat()
    });
    for (service, _) in services {
        let metrics = get(&format!("{}/metrics", service.pair.internal_url()), &[]).body;
        let unnamed = "\ntoken_service_requests_without_client_address_total 0\n";
        assert!(metrics.contains(unnamed), "{metrics}");
    }
}
