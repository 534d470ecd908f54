//! Why an authorization request is refused: one variant per reason.

use std::borrow::Cow;

use super::destination::Destination;
use crate::oauth::error::repeated;
use crate::oauth::parameters::ParameterError;

/// Why an authorization request is refused, and where that may be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizeError {
    /// There is nowhere to redirect to: a page tells the person (RFC 6749 §4.1.2.1, D-5).
    Unsafe(UnsafeRequest),
    /// The client is told by redirect.
    Redirect(Destination, RedirectError),
}

impl From<UnsafeRequest> for AuthorizeError {
    fn from(reason: UnsafeRequest) -> Self {
        Self::Unsafe(reason)
    }
}

/// A request without a known client and a redirect URI that this client registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsafeRequest {
    /// The query is not `application/x-www-form-urlencoded` in UTF-8.
    Unreadable(ParameterError),
    /// No `client_id`.
    ClientIdMissing,
    /// `client_id` more than once.
    ClientIdRepeated,
    /// No enabled client of the current flows has this `client_id`.
    ClientUnknown,
    /// The client's integration type has no browser step (spec §1).
    ClientUnauthorized,
    /// No `redirect_uri` (spec §4.1).
    RedirectUriMissing,
    /// `redirect_uri` more than once.
    RedirectUriRepeated,
    /// The client did not register this `redirect_uri`.
    RedirectUriUnregistered,
    /// Longer than the pages of a sign-in can carry on.
    TooLarge,
}

impl UnsafeRequest {
    /// What the application's developers should change (D-5).
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(ParameterError::NotUtf8) => "The query must be percent-encoded UTF-8.",
            Self::Unreadable(_) => {
                "Each percent sign in the query must be followed by two hexadecimal digits."
            }
            Self::ClientIdMissing => "Send the parameter client_id with the registered Client ID.",
            Self::ClientIdRepeated => "Send the parameter client_id once.",
            Self::ClientUnknown => {
                "Compare client_id with the registration: it must be an enabled Web Server or Installed \
                 Application of this server. The early-access server has registrations of its own."
            }
            Self::ClientUnauthorized => {
                "Only Web Server and Installed Applications use this endpoint (unauthorized_client). \
                 Other integrations ask the token endpoint directly."
            }
            Self::RedirectUriMissing => {
                "Send the parameter redirect_uri with a redirect URI that is registered for this client."
            }
            Self::RedirectUriRepeated => "Send the parameter redirect_uri once.",
            Self::TooLarge => {
                "The parameters of the request, percent-encoded, may have 12288 bytes together. Send a shorter state."
            }
            Self::RedirectUriUnregistered => {
                "redirect_uri must equal a registered redirect URI of this client character by character; \
                 only the port of a loopback URI that is registered with a wildcard may differ."
            }
        }
    }
}

/// Why the client gets an error at its redirect URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectError {
    /// A parameter other than `client_id` and `redirect_uri` more than once (D-17).
    ParameterRepeated(String),
    /// No `response_type`.
    ResponseTypeMissing,
    /// Another `response_type` than `code`.
    ResponseTypeUnsupported,
    /// An Installed Application sent no `code_challenge` (spec §4.1).
    ChallengeRequired,
    /// `code_challenge` is not 43 characters of base64url (RFC 7636 §4.2).
    ChallengeMalformed,
    /// `code_challenge` without `code_challenge_method`, which would mean `plain` (RFC 7636 §4.3).
    ChallengeMethodMissing,
    /// Another `code_challenge_method` than `S256` (RFC 7636 §4.4.1).
    ChallengeMethodUnsupported,
    /// `code_challenge_method` without `code_challenge`.
    ChallengeMissingForMethod,
    /// `scope` is malformed or exceeds the registration (D-9).
    ScopeNotPermitted,
    /// `prompt` has an unknown value, or `none` with others.
    PromptUnsupported,
    /// `max_age` is no number of seconds.
    MaxAgeMalformed,
    /// `prompt=none` without a complete sign-in (OpenID Connect Core §3.1.2.6).
    LoginRequired,
    /// `prompt=none` with several linked accounts (OpenID Connect Core §3.1.2.6).
    AccountSelectionRequired,
    /// `prompt=none`, and the person has to say that the client may go on (D-34, OpenID Connect Core §3.1.2.6).
    InteractionRequired,
    /// The user has no linked account (D-7).
    NoLinkedAccount,
    /// The person pressed cancel.
    Cancelled,
}

impl RedirectError {
    /// The value of `error` (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6).
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ParameterRepeated(_)
            | Self::ResponseTypeMissing
            | Self::ChallengeRequired
            | Self::ChallengeMalformed
            | Self::ChallengeMethodMissing
            | Self::ChallengeMethodUnsupported
            | Self::ChallengeMissingForMethod
            | Self::PromptUnsupported
            | Self::MaxAgeMalformed => "invalid_request",
            Self::ResponseTypeUnsupported => "unsupported_response_type",
            Self::ScopeNotPermitted => "invalid_scope",
            Self::LoginRequired => "login_required",
            Self::AccountSelectionRequired => "account_selection_required",
            Self::InteractionRequired => "interaction_required",
            Self::NoLinkedAccount | Self::Cancelled => "access_denied",
        }
    }

    /// What the integrator should change: ASCII without quotes and backslashes (RFC 6749 §4.1.2.1). Of the request it
    /// repeats names of parameters alone.
    #[must_use]
    pub fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::ParameterRepeated(name) => return repeated(name).into(),
            Self::ResponseTypeMissing => "response_type is missing; it must be code",
            Self::ResponseTypeUnsupported => "response_type must be code",
            Self::ChallengeRequired => {
                "An Installed Application must send code_challenge and code_challenge_method"
            }
            Self::ChallengeMalformed => {
                "code_challenge must be the SHA-256 of the code verifier in base64url without padding: \
                 43 characters"
            }
            Self::ChallengeMethodMissing => "code_challenge_method is missing; it must be S256",
            Self::ChallengeMethodUnsupported => "code_challenge_method must be S256",
            Self::ChallengeMissingForMethod => {
                "code_challenge_method was sent without code_challenge"
            }
            Self::ScopeNotPermitted => "scope exceeds what the client is registered for",
            Self::PromptUnsupported => {
                "prompt must be none, or a list of login, consent and select_account"
            }
            Self::MaxAgeMalformed => "max_age must be a whole number of seconds",
            Self::LoginRequired => "prompt=none was requested, but the user must sign in",
            Self::AccountSelectionRequired => {
                "prompt=none was requested, but the user must choose a linked account"
            }
            Self::InteractionRequired => {
                "prompt=none was requested, but the user must confirm: any app on a device can claim this redirect_uri"
            }
            Self::NoLinkedAccount => "The user has no linked account",
            Self::Cancelled => "The user cancelled the sign-in",
        })
    }
}
