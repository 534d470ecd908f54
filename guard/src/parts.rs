//! The headers of a request that the decision and the log need.

use crate::denial_log::Denied;
use crate::guard::Request;

/// `Authorization`, as hosts that know names in lower case call it.
pub const AUTHORIZATION: &str = "authorization";

/// The parts of a request, for hosts that hand over all headers, with names in lower case.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    method: &'a [u8],
    target: &'a [u8],
    /// The first two `Authorization` headers. A request with more than one is refused.
    authorization: [&'a [u8]; 2],
    authorizations: usize,
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
            _ if name == AUTHORIZATION.as_bytes() => {
                if let Some(place) = self.authorization.get_mut(self.authorizations) {
                    *place = value;
                    self.authorizations += 1;
                }
            }
            _ => {}
        }
    }

    pub fn as_request(&self) -> Request<'_> {
        let authorization = self.authorization.get(..self.authorizations);
        Request {
            method: self.method,
            target: self.target,
            authorization: authorization.unwrap_or_default(),
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
