//! The origin of a request: the client's address behind trusted proxies, and the request id.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::header::{self, HeaderMap};
use actix_web::web::Data;
use actix_web::{HttpMessage as _, HttpRequest};
use ipnet::IpNet;
use process::networks;

use crate::service::Service;
use crate::telemetry::audit_log::Origin;
use crate::telemetry::visible::bounded;

/// Header with the request id, from gateway to service and back to the client.
pub(super) const REQUEST_ID: &str = "x-request-id";

/// Maximum length of an accepted request id, in characters.
const MAX_REQUEST_ID: usize = 128;

/// The id of a request. The middleware stores it in the request's extensions.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

pub(super) fn of(request: &HttpRequest) -> Origin {
    let request_id = request.extensions().get::<RequestId>().cloned();
    Origin {
        address: address(request).map(|address| address.to_string()),
        request_id: request_id.map(|id| id.0),
    }
}

/// Marks the listeners before which a gateway stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct BehindGateway;

/// What [`address`] has found out about a request, so that each request is counted and reported once.
#[derive(Debug, Clone, Copy)]
struct ClientAddress(IpAddr);

/// The client's address: the address of the peer, or the address that trusted proxies name.
pub(super) fn address(request: &HttpRequest) -> Option<IpAddr> {
    let known = request.extensions().get::<ClientAddress>().copied();
    if let Some(ClientAddress(address)) = known {
        return Some(address);
    }
    let peer = request.peer_addr()?.ip();
    let service = request.app_data::<Data<Service>>();
    let trusted = service.map_or(&[][..], |service| &service.config.trusted_proxies);
    let (address, unusable) = client_address(peer, request.headers(), trusted);
    // Commands and monitoring come to the internal listener without a gateway.
    let is_behind = request.app_data::<BehindGateway>().is_some();
    if let (Some(unusable), Some(service), true) = (unusable, service, is_behind) {
        service.metrics.without_address();
        warn_of(peer, &String::from_utf8_lossy(unusable));
    }
    request.extensions_mut().insert(ClientAddress(address));
    Some(address)
}

/// Reports that a trusted proxy does not say for whom it sends a request, at most once a minute.
fn warn_of(proxy: IpAddr, received: &str) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < Duration::from_secs(60)) {
            return;
        }
        *last = Some(Instant::now());
    }
    tracing::warn!(
        %proxy,
        received = %bounded(received),
        "X-Forwarded-For of a trusted proxy has no address, so all its clients count as one: let the proxy set the \
         header to its client's address, or remove the proxy from trusted_proxies"
    );
}

/// Reads `X-Forwarded-For`. Each proxy appends the address of its peer, so, read from the end, the first address that
/// is not a trusted proxy is the client. The client may have invented the addresses before it. Also returns the entry that could
/// not be read, if one was reached: of a proxy without the header, an empty one.
fn client_address<'h>(
    peer: IpAddr,
    headers: &'h HeaderMap,
    trusted: &[IpNet],
) -> (IpAddr, Option<&'h [u8]>) {
    let mut client = peer;
    let mut forwarded: Vec<&[u8]> = headers
        .get_all("x-forwarded-for")
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        // Empty members of a list do not count (RFC 9110 §5.6.1.2).
        .filter(|named| !named.trim_ascii().is_empty())
        .collect();
    if forwarded.is_empty() {
        forwarded.push(b"");
    }
    for named in forwarded.into_iter().rev() {
        if !networks::contain(trusted, client) {
            break;
        }
        match std::str::from_utf8(named).ok().and_then(read) {
            Some(address) => client = address,
            None => return (client.to_canonical(), Some(named)),
        }
    }
    (client.to_canonical(), None)
}

/// An address, also with a port or in brackets, as some load balancers write it: `192.0.2.1:4711`, `[2001:db8::1]:4711`.
fn read(named: &str) -> Option<IpAddr> {
    let named = named.trim();
    let bracketed = || named.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || named.parse().ok().map(|socket: SocketAddr| socket.ip());
    named.parse().ok().or_else(with_port).or_else(bracketed)
}

/// The request id from a trusted proxy.
pub(super) fn given_id(
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    trusted: &[IpNet],
) -> Option<String> {
    if !peer.is_some_and(|peer| networks::contain(trusted, peer)) {
        return None;
    }
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let legal =
        (1..=MAX_REQUEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    legal.then(|| id.to_owned())
}

/// The `Host` header as sent, or the authority of the request line; empty when there is neither.
pub(super) fn host(http: &HttpRequest) -> &str {
    let sent = http.headers().get(header::HOST);
    sent.and_then(|host| host.to_str().ok())
        .or_else(|| http.uri().authority().map(|authority| authority.as_str()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    /// The client's address, and the entry that cannot be read.
    fn seen(peer: &str, forwarded: &[&[u8]]) -> (String, Option<Vec<u8>>) {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(
                HeaderName::from_static("x-forwarded-for"),
                HeaderValue::from_bytes(value).unwrap(),
            );
        }
        let trusted = ["127.0.0.1/32", "10.0.0.0/8"].map(|network| network.parse().unwrap());
        let (address, unusable) = client_address(peer.parse().unwrap(), &headers, &trusted);
        (address.to_string(), unusable.map(<[u8]>::to_vec))
    }

    #[test]
    fn the_last_address_that_no_trusted_proxy_has_is_the_clients() {
        let proxy = "127.0.0.1";
        for (peer, forwarded, address) in [
            ("203.0.113.9", &[][..], "203.0.113.9"),
            // Not a proxy.
            ("203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
            (proxy, &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            (proxy, &["1.1.1.1, 198.51.100.1, 10.1.2.3"], "198.51.100.1"),
            (proxy, &["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
            (proxy, &["198.51.100.1,", " "], "198.51.100.1"),
            (proxy, &["198.51.100.1:4711"], "198.51.100.1"),
            (proxy, &["2001:db8::1"], "2001:db8::1"),
            (proxy, &["[2001:db8::1]:4711"], "2001:db8::1"),
            (proxy, &["[2001:db8::1]"], "2001:db8::1"),
            (proxy, &["[::ffff:198.51.100.1]:4711"], "198.51.100.1"),
            (proxy, &["198.51.100.1:4711, 10.1.2.3:80"], "198.51.100.1"),
        ] {
            let values: Vec<&[u8]> = forwarded.iter().map(|value| value.as_bytes()).collect();
            let seen = seen(peer, &values);
            assert_eq!(seen, (address.to_owned(), None), "{forwarded:?}");
        }
        // The last entry is the proxy's, whatever the client has sent before it.
        assert_eq!(
            seen(proxy, &[b"\xff, 198.51.100.1"]),
            ("198.51.100.1".to_owned(), None)
        );
        for nonsense in [
            &b"nonsense"[..],
            b"unknown",
            b"198.51.100.1:",
            b"198.51.100.1:65536",
            b"[198.51.100.1",
            b"[198.51.100.1]:80",
            b"[2001:db8::1]:",
            b"\xff",
            b"",
        ] {
            let reported = Some(nonsense.to_vec());
            assert_eq!(seen(proxy, &[nonsense]), (proxy.to_owned(), reported));
        }
        let without = (proxy.to_owned(), Some(Vec::new()));
        assert_eq!(seen(proxy, &[]), without);
    }
}
