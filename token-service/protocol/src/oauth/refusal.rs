//! The refusal of a request by an endpoint of any flow, for client and operator.

use std::borrow::Cow;

use super::error::TokenError;
use super::error_code::ErrorCode;
use domain::{AuditAction, GrantId};

/// The information about a refused request for client, log, metrics and audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The value of `error` for the client.
    pub code: ErrorCode,
    /// Tells the integrator what to change: ASCII without quotes and backslashes (RFC 6749 §5.2).
    pub description: Cow<'static, str>,
    /// Time after which the client may try again (RFC 9110 §10.2.3), in seconds, at least 1; `None` if a retry is
    /// useless.
    pub retry_after: Option<u64>,
    /// The reason as a word for log and metrics, so that the operator knows it. Several reasons may share a
    /// description, so that an attacker learns nothing.
    pub reason: &'static str,
    /// The internal error, for the log; `None` if `reason` is sufficient.
    pub cause: Option<String>,
    pub action: AuditAction,
    pub revoked_grant: Option<GrantId>,
}

impl Refusal {
    /// The refusal of a malformed request.
    pub const fn invalid_request(reason: &'static str, description: &'static str) -> Self {
        Self {
            code: ErrorCode::InvalidRequest,
            description: Cow::Borrowed(description),
            retry_after: None,
            reason,
            cause: None,
            action: AuditAction::TokenRequestRefused,
            revoked_grant: None,
        }
    }
}

/// An error of an endpoint with client authentication, of any flow.
pub trait EndpointError: From<TokenError> {
    /// The error, if it also exists in the current flows.
    fn token_error(&self) -> Option<&TokenError>;

    fn refusal(&self) -> Refusal;
}

impl EndpointError for TokenError {
    fn token_error(&self) -> Option<&TokenError> {
        Some(self)
    }

    fn refusal(&self) -> Refusal {
        Refusal {
            code: self.code(),
            description: self.to_string().into(),
            retry_after: self.retry_after(),
            reason: self.reason(),
            cause: self.cause(),
            action: self.action(),
            revoked_grant: self.revoked_grant(),
        }
    }
}
