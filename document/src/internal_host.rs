//! Hosts of requests to an internal listener, against DNS rebinding. A web page in an operator's browser can read a response
//! only if the page's own host name resolves to the listener. The listener refuses such names.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A configured host name, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// One name.
    Name(String),
    /// All names with this ending, which starts with a dot.
    Under(String),
}

/// Endings of names that nobody can register: `.localhost` (RFC 6761 §6.3), `.internal` (reserved by ICANN for private use),
/// and the endings of Kubernetes services.
const PRIVATE: [&str; 4] = [".localhost", ".internal", ".svc", ".svc.cluster.local"];

impl HostPattern {
    /// Reads `gatepass.example.com` or `*.monitoring.example.com`; `None` if the text is malformed, for example a name
    /// with a port.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let text = text.strip_suffix('.').unwrap_or(&text);
        let (name, pattern) = match text.strip_prefix('*') {
            Some(end) => (end.strip_prefix('.')?, Self::Under(end.to_owned())),
            None => (text, Self::Name(text.to_owned())),
        };
        is_name(name).then_some(pattern)
    }

    fn fits(&self, name: &str) -> bool {
        match self {
            Self::Name(known) => name == known,
            Self::Under(end) => name.len() > end.len() && name.ends_with(end),
        }
    }
}

/// True if the text can be the name of a host.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(legal)
    };
    text.split('.').all(label)
}

/// True if an internal listener accepts a request with the `Host` headers `hosts` and the authority `authority` in its
/// request line. A request without a host does not come from a browser.
pub fn is_internal<'a>(
    hosts: impl IntoIterator<Item = &'a [u8]>,
    authority: Option<&str>,
    configured: &[HostPattern],
) -> bool {
    let mut hosts = hosts.into_iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => authority.is_none_or(|host| is_internal_host(host, configured)),
        (Some(host), None) => {
            std::str::from_utf8(host).is_ok_and(|host| is_internal_host(host, configured))
        }
        (Some(_), Some(_)) => false,
    }
}

/// True if the host, with or without a port (RFC 9110 §7.2), is an address, a name without a dot such as `localhost` or the
/// name of a container, a name of a private network, or a name in `configured`.
fn is_internal_host(host: &str, configured: &[HostPattern]) -> bool {
    let host = host.to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        // Otherwise the colon is a part of the address in brackets.
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host.as_str(), ""),
    };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    if let Some(address) = name.strip_prefix('[') {
        let address = address.strip_suffix(']');
        return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    // A final dot makes a name absolute (RFC 1034 §3.1). Without another dot, the owner of a top-level domain has the name.
    let (name, is_absolute) = match name.strip_suffix('.') {
        Some(name) => (name, name != "localhost"),
        None => (name, false),
    };
    is_name(name)
        && ((!name.contains('.') && !is_absolute)
            || name.parse::<Ipv4Addr>().is_ok()
            || PRIVATE.iter().any(|end| name.ends_with(end))
            || configured.iter().any(|pattern| pattern.fits(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_web_pages_are_refused() {
        let configured = ["Gatepass.example.com", "*.ops.example.com."]
            .map(|text| HostPattern::parse(text).unwrap());
        for host in [
            "127.0.0.1",
            "127.0.0.1:9081",
            "10.1.2.3:9081",
            "[::1]:9081",
            "[fd00::1]",
            "localhost:9081",
            "LOCALHOST",
            "token-service",
            "token-service-internal:9081",
            "token-service.gatepass.svc.cluster.local:9081",
            "token-service.gatepass.svc",
            "host.docker.internal:9081",
            "gatepass.example.com:9081",
            "GATEPASS.example.com",
            "a.ops.example.com",
            "a.ops.example.com.:9081",
            "gatepass.example.com.",
            "token-service.gatepass.svc.cluster.local.:9081",
            "localhost.",
        ] {
            assert!(is_internal_host(host, &configured), "{host}");
        }
        for host in [
            "",
            ":9081",
            "evil.example:9081",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "gatepass.example.com.evil.example",
            "evilgatepass.example.com",
            "ops.example.com",
            ".ops.example.com",
            "evil.example.",
            "evil.",
            "localhost..",
            "gatepass.example.com..",
            ".",
            "evil.local",
            "user@127.0.0.1",
            "127.0.0.1:9081:1",
            "[::1",
            "[evil.example]",
            "[::1].evil.example",
            "[::1].evil.example:9081",
            "[::1]evil",
            "[::1]:9081.evil.example",
            "[::1]:[::1]",
            "::1",
            "evil/example",
        ] {
            assert!(!is_internal_host(host, &configured), "{host}");
        }
        assert!(!is_internal_host("gatepass.example.com", &[]));
    }

    #[test]
    fn a_request_names_one_host() {
        let accepts =
            |hosts: &[&[u8]], authority| is_internal(hosts.iter().copied(), authority, &[]);
        assert!(accepts(&[b"localhost"], None));
        assert!(accepts(&[], Some("localhost:9081")));
        assert!(accepts(&[], None), "not a browser");
        assert!(!accepts(&[], Some("evil.example")));
        assert!(!accepts(&[b"localhost", b"localhost"], None));
        assert!(!accepts(&[b"\xff"], None));
    }

    #[test]
    fn patterns_are_names() {
        for text in [
            "", "*", "*.", ".", "a..", "a..b", "a:1", "http://a", "*a.b", "a.*.b", "a/b", "[::1]",
        ] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }
}
