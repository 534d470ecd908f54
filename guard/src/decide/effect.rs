//! What the guard reads of a request, and what it decides.

use std::fmt::Debug;
use std::sync::Arc;

use claims::thumbprint::Thumbprint;

use crate::access_log;
use crate::answers::Answer;
use crate::fetch::{FetchId, FetchKind};
use crate::forward::Header;
use crate::verdict::Denial;
use crate::verify::TokenReference;

/// The parts of a request that the guard reads, as the client sent them.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:path`, with the query.
    pub target: &'a [u8],
    /// Every `Authorization` header.
    pub authorization: &'a [&'a [u8]],
    /// Every `DPoP` header (RFC 9449 §4.1).
    pub dpop: &'a [&'a [u8]],
    pub connection: &'a dyn Connection,
}

/// The client's connection. Only the host knows it; the guard asks when a token needs it.
pub trait Connection: Debug {
    /// SHA-256 of the DER of the certificate with which the client authenticated the connection (RFC 8705 §3.1). `None`
    /// if it has none. Never from a header that a client can set.
    fn certificate(&self) -> Option<Thumbprint>;
}

/// For hosts that know the certificate at once.
impl Connection for Option<Thumbprint> {
    fn certificate(&self) -> Option<Thumbprint> {
        *self
    }
}

/// For which fetches a request may be held. Each kind has its own wait, because one request may need keys first,
/// and then the revocation feed or an introspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The request may be held for every fetch.
    Left,
    /// The wait for this kind is over. The request may be held for other kinds.
    Over(FetchKind),
}

impl Patience {
    /// True if a request may be held for a fetch of `kind`.
    pub(super) fn is_left_for(self, kind: FetchKind) -> bool {
        match self {
            Self::Left => true,
            Self::Over(over) => over.without_number() != kind.without_number(),
        }
    }
}

/// Whether a request is decided.
#[derive(Debug)]
pub(crate) enum Decision {
    Now(Effect),
    /// The guard decides again once this fetch has ended.
    After(FetchId),
}

/// What the host must do with a request. When the host has done so, it calls
/// [`Driver::carried_out`](crate::driver::Driver::carried_out).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub fate: Fate,
    /// Why the guard refuses the request, or would refuse it without report-only mode.
    pub denial: Option<Denial>,
    /// The token of the request, once it is verified.
    pub token: Option<Arc<TokenReference>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The request goes to the resource server.
    Pass {
        add: Arc<[Header]>,
        authorization: Authorization,
    },
    Answer(Answer),
}

/// What the resource server receives of the client's `Authorization`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// The headers as sent.
    AsSent,
    /// Nothing: the host removes the headers.
    Withheld,
    /// Only this value, with the scheme Bearer. The host replaces the header, and removes the `DPoP` header.
    AsBearer(String),
}

impl Effect {
    /// The outcome in the access log: `allowed`, `anonymous`, `metadata`, or the name of the denial.
    pub fn name(&self) -> &'static str {
        match (&self.denial, &self.fate, &self.token) {
            (Some(denial), ..) => denial.name(),
            (None, Fate::Answer(_), _) => access_log::METADATA,
            (None, Fate::Pass { .. }, Some(_)) => access_log::ALLOWED,
            (None, Fate::Pass { .. }, None) => access_log::ANONYMOUS,
        }
    }
}
