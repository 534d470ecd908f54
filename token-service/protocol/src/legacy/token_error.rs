//! The errors of the legacy token endpoint (protocol.md §7.2).

use crate::oauth::error::TokenError;
use crate::oauth::refusal::{EndpointError, Refusal};
use domain::{CodeMismatch, RotationRefusal};

/// Reason why the legacy token endpoint refuses a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LegacyTokenError {
    /// A parameter has different values in body and query (D-16).
    Contradiction,
    /// `grant_type` is not one of the two legacy grant types.
    GrantType,
    /// OAuth2 authentication is disabled on the instance.
    Disabled {
        /// True if the code or the refresh token is of this instance.
        is_its: bool,
    },
    /// A reason that the current flows also have.
    Common(TokenError),
}

impl<E: Into<TokenError>> From<E> for LegacyTokenError {
    fn from(error: E) -> Self {
        Self::Common(error.into())
    }
}

impl EndpointError for LegacyTokenError {
    fn token_error(&self) -> Option<&TokenError> {
        match self {
            Self::Common(error) => Some(error),
            _ => None,
        }
    }

    fn refusal(&self) -> Refusal {
        let invalid = Refusal::invalid_request;
        match self {
            Self::Contradiction => invalid(
                "contradicting_parameters",
                "A parameter stands in body and query with different values",
            ),
            Self::GrantType => invalid(
                "unknown_grant_type",
                "grant_type must be authorization_code or refresh_token",
            ),
            Self::Disabled { .. } => invalid(
                "instance_disabled",
                "OAuth2 authentication is disabled on this host",
            ),
            Self::Common(error) => {
                let mut refusal = error.refusal();
                if let Some(description) = description(error) {
                    refusal.description = description.into();
                }
                refusal
            }
        }
    }
}

/// The description for errors whose text in the current flows does not fit, because the legacy flow has a logon instead
/// of an authorization request.
const fn description(error: &TokenError) -> Option<&'static str> {
    Some(match error {
        TokenError::Code(CodeMismatch::RedirectUri) => {
            "redirect_uri differs from the one of the logon"
        }
        // The store forgets a code some time after its end.
        TokenError::UnknownCode | TokenError::Code(CodeMismatch::Client) => {
            "The code is unknown: it has expired, or this server did not issue it to this client"
        }
        TokenError::Refresh(RotationRefusal::Revoked) => "The access has been revoked",
        TokenError::RefreshReused(_) => {
            "The refresh token was used before; the access is now revoked"
        }
        _ => return None,
    })
}
