//! The headers of a request that the decision and the log need.

use crate::denial_log::Denied;
use crate::{Connection, Request};

/// `Authorization`, as hosts that know names in lower case call it.
pub const AUTHORIZATION: &str = "authorization";

/// `DPoP`, in the same way.
pub const DPOP: &str = claims::dpop::HEADER;

/// Envoy's attribute with the SHA-256 of the DER of the certificate of the client's connection, as hexadecimal digits. No header
/// can forge it.
pub const CERTIFICATE_DIGEST: &str = "connection.sha256_peer_certificate_digest";

/// The first two values of a header. A request with more than one is refused.
#[derive(Debug, Default)]
struct Values<'a> {
    values: [&'a [u8]; 2],
    count: usize,
}

impl<'a> Values<'a> {
    fn push(&mut self, value: &'a [u8]) {
        if let Some(place) = self.values.get_mut(self.count) {
            *place = value;
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[&'a [u8]] {
        self.values.get(..self.count).unwrap_or_default()
    }
}

/// The parts of a request, for hosts that hand over all headers, with names in lower case.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    method: &'a [u8],
    target: &'a [u8],
    authorization: Values<'a>,
    dpop: Values<'a>,
    /// Only for the log.
    request_id: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes a header of the request.
    pub fn note(&mut self, name: &[u8], value: &'a [u8]) {
        // Not a match: its patterns are compared byte by byte.
        if name == b":method" {
            self.method = value;
        } else if name == b":path" {
            self.target = value;
        } else if name == AUTHORIZATION.as_bytes() {
            self.authorization.push(value);
        } else if name == DPOP.as_bytes() {
            self.dpop.push(value);
        } else if name == b"x-request-id" {
            self.request_id = value;
        }
    }

    pub fn as_request<'r>(&'r self, connection: &'r dyn Connection) -> Request<'r> {
        Request {
            method: self.method,
            target: self.target,
            authorization: self.authorization.as_slice(),
            dpop: self.dpop.as_slice(),
            connection,
        }
    }

    pub const fn as_denied(&self) -> Denied<'a> {
        Denied {
            method: self.method,
            target: self.target,
            request_id: self.request_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_headers_are_seen_as_two() {
        let mut parts = Parts::default();
        for (name, value) in [
            (b"dpop".as_slice(), b"one".as_slice()),
            (b"x-dpop", b"other"),
            (b"dpop", b"two"),
            (b"dpop", b"three"),
        ] {
            parts.note(name, value);
        }
        let request = parts.as_request(&None);
        assert_eq!(request.dpop, [b"one".as_slice(), b"two"]);
        assert!(request.authorization.is_empty());
    }
}
