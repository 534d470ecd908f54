//! A request that waits, as far as its decision and the log need it.

use claims::thumbprint::Thumbprint;

use crate::Request;
use crate::denial_log::Denied;

/// What the decision about a waiting request needs.
#[derive(Debug)]
pub struct Held {
    method: Vec<u8>,
    target: Vec<u8>,
    authorization: Vec<Vec<u8>>,
    dpop: Vec<Vec<u8>>,
    certificate: Option<Thumbprint>,
    request_id: Vec<u8>,
}

impl Held {
    pub(crate) fn new(request: Request<'_>, denied: &Denied<'_>) -> Self {
        let copied = |headers: &[&[u8]]| headers.iter().map(|header| header.to_vec()).collect();
        Self {
            method: request.method.to_vec(),
            target: request.target.to_vec(),
            authorization: copied(request.authorization),
            dpop: copied(request.dpop),
            // The connection cannot be asked when the turn of the request comes.
            certificate: request.connection.certificate(),
            request_id: denied.bounded_request_id().to_vec(),
        }
    }

    pub(crate) fn with<T>(&self, decide: impl FnOnce(Request<'_>) -> T) -> T {
        let authorization: Vec<&[u8]> = self.authorization.iter().map(Vec::as_slice).collect();
        let dpop: Vec<&[u8]> = self.dpop.iter().map(Vec::as_slice).collect();
        decide(Request {
            method: &self.method,
            target: &self.target,
            authorization: &authorization,
            dpop: &dpop,
            connection: &self.certificate,
        })
    }

    /// For the log.
    pub fn as_denied(&self) -> Denied<'_> {
        Denied {
            method: &self.method,
            target: &self.target,
            request_id: &self.request_id,
        }
    }
}

/// What only the log needs.
impl From<&Denied<'_>> for Held {
    fn from(denied: &Denied<'_>) -> Self {
        Self {
            method: denied.method.to_vec(),
            target: denied.target.to_vec(),
            authorization: Vec::new(),
            dpop: Vec::new(),
            certificate: None,
            request_id: denied.bounded_request_id().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_decided_later_as_it_came() {
        let certificate = Some(Thumbprint::of(b"certificate"));
        let request = Request {
            method: b"GET",
            target: b"/x",
            authorization: &[b"DPoP a.b.c"],
            dpop: &[b"one", b"two"],
            connection: &certificate,
        };
        Held::new(request, &Denied::default()).with(|held| {
            assert_eq!((held.method, held.target), (request.method, request.target));
            assert_eq!(held.authorization, request.authorization);
            assert_eq!(held.dpop, request.dpop);
            assert_eq!(held.connection.certificate(), certificate);
        });
    }
}
