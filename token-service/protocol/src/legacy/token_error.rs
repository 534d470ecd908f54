//! The errors of the legacy token endpoint (protocol.md §7.2).

use crate::oauth::error::{ErrorCode, TokenError};
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
    /// A legacy access token has no room for the user ID of the account.
    UserIdTooLong,
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
            Self::UserIdTooLong => Refusal {
                code: ErrorCode::InvalidGrant,
                ..invalid(
                    "user_id_too_long",
                    "The user ID of the account is too long for this flow",
                )
            },
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

#[cfg(test)]
mod tests {
    use super::*;

    /// protocol.md §7.2: not an error of the service.
    #[test]
    fn a_user_id_without_room_in_a_token_is_an_invalid_grant() {
        let refusal = LegacyTokenError::UserIdTooLong.refusal();
        assert_eq!(refusal.code, ErrorCode::InvalidGrant);
        assert_eq!(refusal.reason, "user_id_too_long");
    }
}
