//! What becomes known of a request that an endpoint refuses: the same for every flow.

use std::borrow::Cow;

use super::error::TokenError;
use super::error_code::ErrorCode;
use domain::{AuditAction, GrantId};

/// What client, log, metrics and audit log learn of a refused request, whichever flow it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code that the client sees.
    pub code: ErrorCode,
    /// What the integrator should change: ASCII without quotes and backslashes (RFC 6749 §5.2).
    pub description: Cow<'static, str>,
    /// Seconds after which the client may try again (RFC 9110 §10.2.3), at least 1; `None` when another try is in vain.
    pub retry_after: Option<u64>,
    /// The reason as a word for the log and metrics. Several reasons may share a description, so that it tells an
    /// attacker nothing; the reason tells the operator.
    pub reason: &'static str,
    /// What failed inside, for the log; `None` if the reason says all.
    pub cause: Option<String>,
    /// What the audit log calls it.
    pub action: AuditAction,
    /// The grant that the refusal revoked.
    pub revoked_grant: Option<GrantId>,
}

impl Refusal {
    /// A request that is not formed correctly.
    #[must_use]
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

/// The error of an endpoint with client authentication, of any flow.
pub trait EndpointError: From<TokenError> {
    /// The error, if the current flows know it too.
    fn token_error(&self) -> Option<&TokenError>;

    /// What becomes known of it.
    fn refusal(&self) -> Refusal;
}

impl EndpointError for TokenError {
    fn token_error(&self) -> Option<&TokenError> {
        Some(self)
    }

    fn refusal(&self) -> Refusal {
        Refusal {
            code: self.code(),
            description: self.description(),
            retry_after: self.retry_after(),
            reason: self.reason(),
            cause: self.cause(),
            action: self.action(),
            revoked_grant: self.revoked_grant(),
        }
    }
}
