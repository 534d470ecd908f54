//! Error codes and their HTTP status codes.

use strum::IntoStaticStr;

/// The error codes of protocol.md §7.1, and codes for DPoP, for failures of the service and for rate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ErrorCode {
    /// The client could not be authenticated: HTTP 401.
    InvalidClient,
    /// The grant, its code, token or assertion is not valid: HTTP 400.
    InvalidGrant,
    /// The request is not formed correctly: HTTP 400.
    InvalidRequest,
    /// The integration type of the client has no authorization request: HTTP 400. Only for pushed requests (RFC 9126 §2.3).
    UnauthorizedClient,
    /// `response_type` is not `code`: HTTP 400. Only for pushed requests.
    UnsupportedResponseType,
    /// The client is not registered for the scope: HTTP 400. Only for pushed requests.
    InvalidScope,
    /// The DPoP proof is not valid, or missing (RFC 9449 §5): HTTP 400.
    InvalidDpopProof,
    /// The DPoP proof needs the nonce of the response (RFC 9449 §8): HTTP 400.
    UseDpopNonce,
    /// The service is temporarily unavailable: HTTP 503.
    TemporarilyUnavailable,
    /// The client sends too many requests: HTTP 429 (RFC 6585 §4), with the code of RFC 6749 §4.1.2.1 that invites a
    /// retry.
    #[strum(serialize = "temporarily_unavailable")]
    TooManyRequests,
    /// The service failed: HTTP 500.
    ServerError,
}

impl ErrorCode {
    /// The value of `error`.
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }

    /// The HTTP status (D-4).
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidClient => 401,
            Self::InvalidGrant
            | Self::InvalidRequest
            | Self::UnauthorizedClient
            | Self::UnsupportedResponseType
            | Self::InvalidScope
            | Self::InvalidDpopProof
            | Self::UseDpopNonce => 400,
            Self::TemporarilyUnavailable => 503,
            Self::TooManyRequests => 429,
            Self::ServerError => 500,
        }
    }
}
