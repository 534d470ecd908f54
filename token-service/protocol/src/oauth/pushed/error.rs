use crate::oauth::authorize::{AuthorizeError, RedirectError, UnsafeRequest};
use crate::oauth::error::TokenError;
use crate::oauth::error_code::ErrorCode;
use crate::oauth::refusal::{EndpointError, Refusal};

/// Reason why a pushed authorization request is refused (RFC 9126 §2.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushError {
    /// The form or the client, as at the token endpoint; or the service failed.
    Endpoint(TokenError),
    /// RFC 9126 §2.1: a pushed request must not contain `request_uri`.
    RequestUri,
    /// The authorization endpoint would show the error on a page.
    Unsafe(UnsafeRequest),
    /// The authorization endpoint would send the error to the redirect URI.
    Request(RedirectError),
}

impl EndpointError for PushError {
    fn token_error(&self) -> Option<&TokenError> {
        match self {
            Self::Endpoint(error) => Some(error),
            _ => None,
        }
    }

    fn refusal(&self) -> Refusal {
        let (code, reason, description) = match self {
            Self::Endpoint(error) => return error.refusal(),
            Self::RequestUri => (
                ErrorCode::InvalidRequest,
                "request_uri_pushed",
                "A pushed request must not contain request_uri".into(),
            ),
            Self::Unsafe(UnsafeRequest::ClientUnauthorized) => (
                ErrorCode::UnauthorizedClient,
                "authorization_request_refused",
                UnsafeRequest::ClientUnauthorized.to_string().into(),
            ),
            Self::Unsafe(reason) => (
                ErrorCode::InvalidRequest,
                "authorization_request_refused",
                reason.to_string().into(),
            ),
            Self::Request(error) => (
                code_of(error),
                "authorization_request_refused",
                error.to_string().into(),
            ),
        };
        Refusal {
            code,
            description,
            ..Refusal::invalid_request(reason, "")
        }
    }
}

/// The codes that validation returns (RFC 6749 §4.1.2.1).
fn code_of(error: &RedirectError) -> ErrorCode {
    match error.code() {
        "invalid_scope" => ErrorCode::InvalidScope,
        "unsupported_response_type" => ErrorCode::UnsupportedResponseType,
        _ => ErrorCode::InvalidRequest,
    }
}

impl<E: Into<TokenError>> From<E> for PushError {
    fn from(error: E) -> Self {
        Self::Endpoint(error.into())
    }
}

impl From<UnsafeRequest> for PushError {
    fn from(reason: UnsafeRequest) -> Self {
        Self::Unsafe(reason)
    }
}

impl From<AuthorizeError> for PushError {
    fn from(error: AuthorizeError) -> Self {
        match error {
            AuthorizeError::Unsafe(reason) => Self::Unsafe(reason),
            AuthorizeError::Redirect(_, error) => Self::Request(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrets::sealing::SealingError;

    #[test]
    fn a_request_that_cannot_be_sealed_is_a_failure_with_its_cause() {
        let error = PushError::from(SealingError::Failed);
        let refusal = error.refusal();
        assert_eq!(refusal.code, ErrorCode::ServerError);
        assert_eq!(refusal.reason, "sealing_failed");
        assert_eq!(refusal.cause.as_deref(), Some("sealing failed"));
    }
}
