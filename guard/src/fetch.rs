//! What the host fetches for the guard, and why a fetch failed.

mod request;

pub(crate) use self::request::FetchId;
pub use self::request::{Fetch, FetchKind, Form};

/// Why a fetch brought no body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Status of the response. `None` without a response, or if its body broke off.
    pub status: Option<u16>,
    /// The reason, for the log.
    pub why: String,
}

impl Failure {
    pub fn without_response(why: impl Into<String>) -> Self {
        Self {
            status: None,
            why: why.into(),
        }
    }
}
