//! A fetch: its issuer, its kind, and its source.

use claims::revocation::MAX_PAGE_BYTES;
use keys::MAX_JWKS_BYTES;
use keys::discovery::MAX_METADATA_BYTES;
use keys::endpoint::Endpoint;
use strum::IntoStaticStr;

use super::Failure;
use crate::introspection::MAX_ANSWER_BYTES;
use crate::secret::Secret;

/// What a request waits for: the index of an issuer, and the kind of the fetch. If several issuers share a feed, the index is that
/// of the first.
pub(crate) type FetchId = (usize, FetchKind);

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FetchKind {
    /// The metadata of the issuer, which names the address of the keys.
    Metadata,
    Keys,
    Revocations,
    /// The answer of the introspection endpoint to the question with this number.
    Introspection(u64),
}

impl FetchKind {
    /// The kind without the number of the question.
    pub(crate) const fn without_number(self) -> Self {
        match self {
            Self::Introspection(_) => Self::Introspection(0),
            other => other,
        }
    }

    /// Longest body that is read, in bytes.
    pub const fn longest_answer(self) -> usize {
        match self {
            Self::Metadata => MAX_METADATA_BYTES,
            Self::Keys => MAX_JWKS_BYTES,
            Self::Revocations => MAX_PAGE_BYTES,
            Self::Introspection(_) => MAX_ANSWER_BYTES,
        }
    }
}

/// A fetch that the host must start now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Index of the issuer. If several issuers share a feed, this is the first of them.
    pub issuer: usize,
    pub kind: FetchKind,
    /// The path includes the query.
    pub endpoint: Endpoint,
    /// Time limit of the fetch, in seconds.
    pub timeout: u64,
    /// Form for a POST. Without a form, the fetch is a GET.
    pub form: Option<Form>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// `Authorization`.
    pub authorization: Secret,
    /// `application/x-www-form-urlencoded`.
    pub body: Secret,
}

impl Fetch {
    pub const fn method(&self) -> &'static str {
        match self.form {
            Some(_) => "POST",
            None => "GET",
        }
    }

    /// Headers of the request, except those that the endpoint determines.
    pub fn headers(&self) -> Vec<(&'static str, &str)> {
        let mut headers = vec![("accept", "application/json")];
        if let Some(form) = &self.form {
            headers.push(("content-type", "application/x-www-form-urlencoded"));
            headers.push(("authorization", form.authorization.expose()));
        }
        headers
    }

    pub fn body(&self) -> Option<&str> {
        self.form.as_ref().map(|form| form.body.expose())
    }

    /// The result of this fetch. `status`: of the response, `None` without one.
    ///
    /// # Errors
    /// There was no response, or another status than 200.
    pub fn result(&self, status: Option<&[u8]>, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let Some(status) = status else {
            return Err(Failure::without_response(format!(
                "no answer within {} seconds, or no connection",
                self.timeout
            )));
        };
        if status == b"200" {
            return Ok(body);
        }
        // The gateway's own message distinguishes refused connections, DNS errors and TLS errors.
        let words: String = String::from_utf8_lossy(&body)
            .chars()
            .filter(|character| !character.is_control())
            .take(200)
            .collect();
        let status = String::from_utf8_lossy(status);
        Err(Failure {
            why: format!("status {status}: {words}"),
            status: status.parse().ok(),
        })
    }

    /// Key under which the log counts failures: one for each endpoint, not one for each token.
    pub(crate) const fn log_source(&self) -> FetchId {
        (self.issuer, self.kind.without_number())
    }

    /// What the requests that need this fetch wait for. Requests that wait for keys wait for the metadata too.
    pub(crate) const fn source(&self) -> FetchId {
        match self.kind {
            FetchKind::Metadata => (self.issuer, FetchKind::Keys),
            kind => (self.issuer, kind),
        }
    }
}
