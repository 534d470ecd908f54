//! The headers of a request that the decision and the log need.

use claims::Thumbprint;

use crate::denial_log::Denied;
use crate::guard::{Connection, Request};

/// `Authorization`, as hosts that know names in lower case call it.
pub const AUTHORIZATION: &str = "authorization";

/// `DPoP`, in the same way.
pub const DPOP: &str = claims::dpop::HEADER;

/// Envoy's attribute with the SHA-256 of the DER of the certificate of the client's connection, as hexadecimal digits. No header
/// can forge it.
pub const CERTIFICATE_DIGEST: &str = "connection.sha256_peer_certificate_digest";

/// Reads 64 hexadecimal digits.
pub fn thumbprint(digits: &[u8]) -> Option<Thumbprint> {
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let mut bytes = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().take(33) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        bytes.push(u8::try_from(high? * 16 + low?).ok()?);
    }
    bytes.try_into().ok().map(Thumbprint::from_bytes)
}

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
        match name {
            b":method" => self.method = value,
            b":path" => self.target = value,
            b"x-request-id" => self.request_id = value,
            _ if name == AUTHORIZATION.as_bytes() => self.authorization.push(value),
            _ if name == DPOP.as_bytes() => self.dpop.push(value),
            _ => {}
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
    fn a_digest_has_64_digits() {
        let expected = Thumbprint::from_bytes([0xa7; 32]);
        for digits in ["a7".repeat(32), "A7".repeat(32)] {
            assert_eq!(thumbprint(digits.as_bytes()), Some(expected));
        }
        for other in [
            String::new(),
            "a7".repeat(31),
            "a7".repeat(33),
            "a".repeat(63),
            "g7".repeat(32),
            "+7".repeat(32),
            expected.to_string(),
        ] {
            assert_eq!(thumbprint(other.as_bytes()), None, "{other}");
        }
    }

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
