//! `listen`, `internal_listen`, `mutual_tls.listen` and `allow_insecure_http`: the addresses of the listeners.

use std::net::SocketAddr;

use document::{Located, Section};
use url::{Host, Url};

pub(super) fn parse(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:9080 or [::]:9080")
}

/// A key, and the address of its listener.
type Listener<'a> = (&'static str, &'a Located<SocketAddr>);

/// Reports listeners with one address: each is for others. Port 0 is allowed, because the system then chooses the ports.
pub(super) fn check_listeners(root: &Section<'_>, listeners: &[Listener<'_>]) {
    for (index, (key, listener)) in listeners.iter().enumerate() {
        let mut earlier = listeners.iter().take(index);
        if listener.value.port() != 0
            && let Some((other, _)) = earlier.find(|(_, other)| other.value == listener.value)
        {
            let message =
                format!("{key}: must differ from {other}: each listener serves other callers");
            root.report(&listener.place, message);
        }
    }
}

/// Reports plain http beyond this machine: tokens need TLS there (RFC 8414 §2, RFC 9700 §2.6).
pub(super) fn check_insecure_http(
    root: &Section<'_>,
    issuer: &Located<String>,
    listeners: &[Listener<'_>],
    development: bool,
) {
    const REMEDY: &str =
        "; use https, or set allow_insecure_http = true for a test on a trusted network";
    let http = issuer.value.starts_with("http:");
    if http && !is_loopback(&issuer.value) {
        let message = format!("issuer: plain http beyond this machine{REMEDY}");
        root.report(&issuer.place, message);
    }
    for (_, listener) in listeners {
        if listener.value.ip().is_loopback() {
            continue;
        }
        let address = listener.value;
        if development {
            let message = format!(
                "{address}: the development defaults (no --config) do not listen beyond this machine unless \
                 allow_insecure_http = true"
            );
            root.report(&listener.place, message);
        } else if http {
            let message =
                format!("{address}: listens beyond this machine with an http issuer{REMEDY}");
            root.report(&listener.place, message);
        }
    }
}

pub(super) fn is_loopback(url: &str) -> bool {
    match Url::parse(url).as_ref().map(Url::host) {
        Ok(Some(Host::Ipv4(address))) => address.is_loopback(),
        Ok(Some(Host::Ipv6(address))) => address.is_loopback(),
        Ok(Some(Host::Domain(name))) => name == "localhost",
        Ok(None) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{load, load_from};

    #[test]
    fn the_listeners_differ_unless_the_system_chooses_their_ports() {
        let text = "listen = '127.0.0.1:9081'\n[mutual_tls]\nlisten = '127.0.0.1:9081'\nurl = 'https://mtls.example.com'\n\
                    gateways = ['127.0.0.1']";
        assert_eq!(
            load(text, &[]).unwrap_err(),
            [
                "config.toml:3: mutual_tls.listen: must differ from listen: each listener serves other callers",
                "default: internal_listen: must differ from listen: each listener serves other callers",
            ]
        );
        assert!(
            load(
                "listen = '127.0.0.1:0'\ninternal_listen = '127.0.0.1:0'",
                &[]
            )
            .is_ok()
        );
    }

    #[test]
    fn insecure_http_beyond_loopback_must_be_asked_for() {
        let places = |file: Option<&str>, environment: &[(&str, &str)]| -> Vec<String> {
            let result = match file {
                Some(text) => load(text, environment),
                None => load_from(None, environment),
            };
            let problems = result.err().unwrap_or_default().into_iter();
            problems
                .map(|problem| problem.split(": ").next().unwrap().to_owned())
                .collect()
        };
        let listen = ("TOKEN_SERVICE__LISTEN", "0.0.0.0:9080");
        let internal = ("TOKEN_SERVICE__INTERNAL_LISTEN", "0.0.0.0:9081");
        let forced = ("TOKEN_SERVICE__ALLOW_INSECURE_HTTP", "true");
        let https = "issuer = 'https://lobby.example.com'";
        let http = "issuer = 'http://lobby.example.com'";

        assert_eq!(places(Some(http), &[]), ["config.toml:1"]);
        assert_eq!(places(Some(http), &[forced]), [""; 0]);
        assert_eq!(places(Some(https), &[listen, internal]), [""; 0]);
        assert_eq!(places(Some(""), &[listen]), ["TOKEN_SERVICE__LISTEN"]);
        assert_eq!(places(Some(""), &[listen, internal, forced]), [""; 0]);
        let secure_issuer = ("TOKEN_SERVICE__ISSUER", "https://lobby.example.com");
        assert_eq!(
            places(None, &[secure_issuer, listen, internal]),
            ["TOKEN_SERVICE__INTERNAL_LISTEN", "TOKEN_SERVICE__LISTEN"]
        );
        assert_eq!(places(None, &[secure_issuer, listen, forced]), [""; 0]);
        assert_eq!(places(Some("issuer = 'http://localhost:1'"), &[]), [""; 0]);
    }
}
