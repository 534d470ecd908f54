use crate::oauth::authorize::{AuthorizeError, IssueError, RedirectError, UnsafeRequest};
use crate::oauth::error::TokenError;
use crate::oauth::error_code::ErrorCode;
use crate::oauth::refusal::{EndpointError, Refusal};
use domain::random::RandomError;
use secrets::sealing::SealingError;

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
    /// The service could not seal the request.
    Sealing(SealingError),
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
            Self::Sealing(error) => {
                return Refusal {
                    code: ErrorCode::ServerError,
                    cause: Some(error.to_string()),
                    ..Refusal::invalid_request("sealing_failed", "The service failed")
                };
            }
            Self::RequestUri => (
                ErrorCode::InvalidRequest,
                "request_uri_pushed",
                "A pushed request must not contain request_uri".into(),
            ),
            Self::Unsafe(UnsafeRequest::ClientUnauthorized) => (
                ErrorCode::UnauthorizedClient,
                "authorization_request_refused",
                UnsafeRequest::ClientUnauthorized.remedy().into(),
            ),
            Self::Unsafe(reason) => (
                ErrorCode::InvalidRequest,
                "authorization_request_refused",
                reason.remedy().into(),
            ),
            Self::Request(error) => (
                code_of(error),
                "authorization_request_refused",
                error.description(),
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

impl From<TokenError> for PushError {
    fn from(error: TokenError) -> Self {
        Self::Endpoint(error)
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

impl From<RandomError> for PushError {
    fn from(_: RandomError) -> Self {
        Self::Endpoint(TokenError::Random)
    }
}

impl From<IssueError> for PushError {
    fn from(error: IssueError) -> Self {
        Self::Endpoint(match error {
            IssueError::Store(error) => error.into(),
            IssueError::Sealing(error) => return Self::Sealing(error),
            _ => TokenError::Random,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_cannot_be_sealed_is_a_failure_with_its_cause() {
        let error = PushError::from(IssueError::Sealing(SealingError::Failed));
        let refusal = error.refusal();
        assert_eq!(refusal.code, ErrorCode::ServerError);
        assert_eq!(refusal.reason, "sealing_failed");
        assert_eq!(refusal.cause.as_deref(), Some("sealing failed"));
    }
}
