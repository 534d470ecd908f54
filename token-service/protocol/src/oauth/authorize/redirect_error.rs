//! Errors that the service sends to the client's redirect URI (RFC 6749 §4.1.2.1).

use crate::oauth::message::{repeated, unregistered_scope};
use crate::oauth::pkce::ChallengeError;
use domain::Scope;

/// Reason for an error at the client's redirect URI, with what the integrator has to change: ASCII without quotes and
/// backslashes (RFC 6749 §4.1.2.1). Repeats only names of parameters and scopes from the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// A parameter other than `client_id` and `redirect_uri` is repeated (D-17).
    #[error("{}", repeated(.0))]
    ParameterRepeated(String),
    #[error("response_type is missing; it must be code")]
    ResponseTypeMissing,
    #[error("response_type must be code")]
    ResponseTypeUnsupported,
    /// The challenge is missing or wrong.
    #[error("{0}")]
    Challenge(ChallengeError),
    /// `dpop_jkt` is not a thumbprint (RFC 9449 §10).
    #[error(
        "dpop_jkt must be the SHA-256 thumbprint of a key in base64url without padding: 43 characters"
    )]
    DpopKeyMalformed,
    /// `scope` is not a list of scope tokens (RFC 6749 §3.3).
    #[error("scope is not a list of scope tokens separated by single spaces")]
    ScopeMalformed,
    /// `scope` exceeds the registration by this scope (D-9).
    #[error("{}", unregistered_scope(.0))]
    ScopeNotPermitted(Scope),
    /// `prompt` has an unknown value, or `none` together with other values.
    #[error("prompt must be none, or a list of login, consent and select_account")]
    PromptUnsupported,
    #[error("max_age must be a whole number of seconds")]
    MaxAgeMalformed,
    /// `acr_values` has no value that this service can meet (RFC 9470 §5).
    #[error("acr_values must name a value of acr_values_supported in the metadata")]
    AcrValuesUnmet,
    /// `prompt=none` was requested, but the user must sign in (OpenID Connect Core §3.1.2.6).
    #[error("prompt=none was requested, but the user must sign in")]
    LoginRequired,
    /// `prompt=none` was requested, but the user must choose a linked account (OpenID Connect Core §3.1.2.6).
    #[error("prompt=none was requested, but the user must choose a linked account")]
    AccountSelectionRequired,
    /// `prompt=none` was requested, but the user must confirm the client (D-34, OpenID Connect Core §3.1.2.6).
    #[error(
        "prompt=none was requested, but the user must confirm: any app on a device can claim this redirect_uri"
    )]
    InteractionRequired,
    /// `prompt=none` was requested, but the user must set another password or set up a second factor (OpenID Connect Core
    /// §3.1.2.6).
    #[error(
        "prompt=none was requested, but the user must set another password or set up a second factor"
    )]
    SignInIncomplete,
    /// The client is registered for pushed requests only (RFC 9126 §6).
    #[error(
        "This client must push its authorization requests: send the parameters to /auth/par, and the request_uri here"
    )]
    NotPushed,
    /// The first visit of a pushed request came too late, or the person took too long (RFC 9126 §4).
    #[error("request_uri has expired: push the request again")]
    RequestUriExpired,
    /// The pushed request has yielded its code (RFC 9126 §4).
    #[error("request_uri was used before: push the request again")]
    RequestUriUsed,
    /// The user has no linked account (D-7).
    #[error("The user has no linked account")]
    NoLinkedAccount,
    #[error("The user cancelled the sign-in")]
    Cancelled,
}

impl RedirectError {
    /// The value of `error` (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ParameterRepeated(_)
            | Self::ResponseTypeMissing
            | Self::Challenge(_)
            | Self::DpopKeyMalformed
            | Self::PromptUnsupported
            | Self::MaxAgeMalformed
            | Self::NotPushed => "invalid_request",
            // RFC 9101 §7.
            Self::RequestUriExpired | Self::RequestUriUsed => "invalid_request_uri",
            Self::ResponseTypeUnsupported => "unsupported_response_type",
            Self::ScopeMalformed | Self::ScopeNotPermitted(_) => "invalid_scope",
            Self::AcrValuesUnmet => "unmet_authentication_requirements",
            Self::LoginRequired => "login_required",
            Self::AccountSelectionRequired => "account_selection_required",
            Self::InteractionRequired | Self::SignInIncomplete => "interaction_required",
            Self::NoLinkedAccount | Self::Cancelled => "access_denied",
        }
    }
}
