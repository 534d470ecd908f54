//! The errors of the legacy token endpoint (protocol.md §7.2), one variant per reason.

use std::borrow::Cow;

use crate::oauth::error::{OUTDATED_CODE, TokenError};
use crate::oauth::message::repeated;
use crate::oauth::parameters::ParameterError;
use crate::token::KeyError;
use domain::random::RandomError;
use domain::{CodeMismatch, GrantId, RotationRefusal};
use store::StoreError;

/// Why the legacy token endpoint issues nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LegacyTokenError {
    /// The parameters cannot be read.
    Parameters(ParameterError),
    /// A parameter stands in body and query with different values (D-16).
    Contradiction,
    /// A required parameter is absent.
    Missing(&'static str),
    /// `grant_type` is neither of the two.
    GrantType,
    /// OAuth2 authentication is disabled on the host.
    Disabled,
    /// The client could not be authenticated: the reason of the current flows.
    Client(TokenError),
    /// No such code.
    UnknownCode,
    /// The code does not fit what was presented.
    Code(CodeMismatch),
    /// The code was used before; what its first use issued is revoked.
    CodeReplayed(GrantId),
    /// Not a refresh token of this instance.
    RefreshToken,
    /// The refresh token is refused.
    Refresh(RotationRefusal),
    /// The refresh token was used before and its grace is over; its grant is revoked.
    RefreshReused(GrantId),
    /// The user is gone or disabled, or the account is not linked any more.
    SubjectGone,
    /// The store did not answer.
    Store(StoreError),
    /// No random bytes.
    Random,
    /// Signing failed.
    Signing,
}

impl LegacyTokenError {
    /// `error` and HTTP status.
    #[must_use]
    pub const fn code(&self) -> (&'static str, u16) {
        match self {
            Self::Parameters(_)
            | Self::Contradiction
            | Self::Missing(_)
            | Self::GrantType
            | Self::Disabled
            | Self::Client(TokenError::SeveralAuthentications | TokenError::ClientIdDiffers) => {
                ("invalid_request", 400)
            }
            Self::Client(_) => ("invalid_client", 401),
            Self::UnknownCode
            | Self::Code(_)
            | Self::CodeReplayed(_)
            | Self::RefreshToken
            | Self::Refresh(_)
            | Self::RefreshReused(_)
            | Self::SubjectGone => ("invalid_grant", 400),
            Self::Store(_) => ("temporarily_unavailable", 503),
            Self::Random | Self::Signing => ("server_error", 500),
        }
    }

    /// The reason as a word for the log and metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Parameters(_) => "unreadable_parameters",
            Self::Contradiction => "contradicting_parameters",
            Self::Missing(_) => "missing_parameter",
            Self::GrantType => "unknown_grant_type",
            Self::Disabled => "instance_disabled",
            Self::Client(error) => error.reason(),
            Self::UnknownCode => "unknown_code",
            Self::Code(mismatch) => mismatch.reason(),
            Self::CodeReplayed(_) => "code_replayed",
            Self::RefreshToken => "malformed_refresh_token",
            Self::Refresh(refusal) => refusal.reason(),
            Self::RefreshReused(_) => "refresh_token_reused",
            Self::SubjectGone => "subject_gone",
            Self::Store(_) => "store_failed",
            Self::Random => "no_randomness",
            Self::Signing => "signing_failed",
        }
    }

    /// What the integrator should change; of the request it repeats names of parameters alone.
    #[must_use]
    pub fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Parameters(ParameterError::Repeated(name)) => return repeated(name).into(),
            Self::Client(error) => return error.description(),
            Self::Parameters(_) => "The parameters cannot be read",
            Self::Contradiction => "A parameter stands in body and query with different values",
            Self::Missing(name) => match name.as_bytes() {
                b"grant_type" => "grant_type is missing",
                b"code" => "code is missing",
                b"redirect_uri" => "redirect_uri is missing",
                _ => "refresh_token is missing",
            },
            Self::GrantType => "grant_type must be authorization_code or refresh_token",
            Self::Disabled => "OAuth2 authentication is disabled on this host",
            Self::UnknownCode | Self::Code(CodeMismatch::Client) => "The code is invalid",
            Self::Code(CodeMismatch::Expired) => "The code has expired",
            Self::Code(CodeMismatch::RedirectUri) => {
                "redirect_uri differs from the one of the logon"
            }
            Self::Code(CodeMismatch::Outdated) => OUTDATED_CODE,
            Self::Code(_) => "The code does not fit this request",
            Self::CodeReplayed(_) => "The code was used before; its tokens are revoked",
            Self::RefreshToken
            | Self::Refresh(
                RotationRefusal::Unknown
                | RotationRefusal::OtherClient
                | RotationRefusal::ScopeExceeded,
            ) => "The refresh token is invalid",
            Self::Refresh(RotationRefusal::Expired) => "The refresh token has expired",
            Self::Refresh(RotationRefusal::Revoked) => "The access has been revoked",
            Self::RefreshReused(_) => {
                "The refresh token was used before; the access is now revoked"
            }
            Self::SubjectGone => "The user or the linked account is not available any more",
            Self::Store(_) => "The service is busy; try again",
            Self::Random | Self::Signing => "The service failed",
        })
    }
}

impl From<ParameterError> for LegacyTokenError {
    fn from(error: ParameterError) -> Self {
        Self::Parameters(error)
    }
}

impl From<StoreError> for LegacyTokenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<RandomError> for LegacyTokenError {
    fn from(_: RandomError) -> Self {
        Self::Random
    }
}

impl From<KeyError> for LegacyTokenError {
    fn from(_: KeyError) -> Self {
        Self::Signing
    }
}
