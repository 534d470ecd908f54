//! The errors of the token endpoint. Inside, each reason has a variant; clients see only the codes of protocol.md §7.1.

use std::borrow::Cow;
use std::time::Duration;

use claims::dpop::{ProofRefusal, RefusedProof};
use strum::IntoStaticStr;

use super::account_selection::AccountError;
use super::assertion::AssertionError;
pub use super::error_code::ErrorCode;
use super::message::{printable, repeated, unregistered_scope};
use super::parameter::Parameter;
use super::parameters::{ParameterError, Parameters};
use crate::identity_provider::Unavailable;
use crate::token::KeyError;
use domain::random::RandomError;
use domain::{AuditAction, ClientId, CodeMismatch, GrantId, RotationRefusal, Scope};
use secrets::sealing::SealingError;
use store::StoreError;

/// `Retry-After` in seconds when the service is busy.
const RETRY_AFTER_SECONDS: u64 = 1;

/// Reason why the token endpoint refuses a request, with what the integrator has to change: ASCII without quotes and
/// backslashes (RFC 6749 §5.2). Repeats only parts of the request that are not secret, through [`printable`].
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr, thiserror::Error)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum TokenError {
    #[error("The content type must be application/x-www-form-urlencoded, in UTF-8")]
    ContentType,
    #[strum(serialize = "unreadable_form")]
    #[error("{}", match .0 {
        ParameterError::NotUtf8 => "The form is not UTF-8".into(),
        ParameterError::PercentEncoding => "A percent sign in the form is not followed by two hexadecimal digits".into(),
        ParameterError::Repeated(name) => repeated(name),
    })]
    Parameters(#[from] ParameterError),
    /// A parameter is in the URL, where servers and proxies log it (RFC 6749 §2.3.1).
    #[error("Send the parameters in the body, not in the URL")]
    ParameterInUrl,
    #[strum(serialize = "missing_parameter")]
    #[error("{} is missing", .0.name())]
    Missing(Parameter),
    /// `code_verifier` is malformed (RFC 7636 §4.1).
    #[error("code_verifier must be 43 to 128 characters out of A-Z a-z 0-9 - . _ and the tilde")]
    MalformedVerifier,
    /// `scope` is not a list of scope tokens (RFC 6749 §3.3).
    #[error("scope is not a list of scope tokens separated by single spaces")]
    MalformedScope,
    /// More than one method of client authentication (RFC 6749 §2.3).
    #[error("Use one way of client authentication")]
    SeveralAuthentications,
    #[error("client_id differs from the one in the Authorization header")]
    ClientIdDiffers,
    /// No Authorization header and no `client_id`.
    #[error(
        "Client authentication is missing: send Authorization: Basic with base64 of client_id:client_secret; an Installed \
         Application, which has no secret, sends client_id in the body"
    )]
    NoClient,
    #[strum(serialize = "malformed_basic")]
    #[error("The Authorization header must be Basic with base64 of client_id:client_secret")]
    BasicMalformed,
    /// No enabled client of the current flows has this id.
    #[error("Client ID or Client Secret is wrong")]
    UnknownClient,
    #[error("Client ID or Client Secret is wrong")]
    WrongSecret,
    /// A public client used the Authorization header (protocol.md §5.3).
    #[error(
        "An Installed Application sends client_id in the body, not in the Authorization header"
    )]
    PublicClientInHeader,
    /// The secret or client assertion is wrong, and this address sent too many wrong ones for this client. Not before this
    /// time would another one get its own error.
    #[error(
        "Client Secret or client assertion is wrong, and too many wrong ones came from this address; correct it"
    )]
    TooManyGuesses(Duration),
    /// `client_secret` is in the body; only the header may contain the secret (protocol.md §5.2).
    #[error("Send the Client Secret in the Authorization header (Basic), not in the body")]
    SecretInBody,
    /// A confidential client did not authenticate.
    #[error(
        "This client must authenticate with its Client Secret in the Authorization header (Basic)"
    )]
    SecretRequired,
    #[error(
        "grant_type must be authorization_code, refresh_token, client_credentials or \
         urn:ietf:params:oauth:grant-type:jwt-bearer"
    )]
    UnknownGrantType,
    #[error("This client's integration type may not use this grant_type")]
    GrantNotPermitted,
    /// The client is not registered for this part of the requested scope (D-9).
    #[error("{}", unregistered_scope(.0))]
    ScopeNotPermitted(Scope),
    /// The store does not know the code.
    #[error("The code is unknown: this server did not issue it to this client")]
    UnknownCode,
    /// The code exists but the request does not match it.
    #[error("{}", of_code(.0))]
    Code(CodeMismatch),
    #[error("The code was used before; its tokens are revoked")]
    CodeReplayed(GrantId),
    #[strum(serialize = "malformed_refresh_token")]
    #[error("The refresh token is unknown: this server did not issue it to this client")]
    RefreshToken,
    #[error("{}", of_refresh_token(.0))]
    Refresh(RotationRefusal),
    /// The refresh token was used before and its grace period is over. Its grant is now revoked.
    #[strum(serialize = "refresh_token_reused")]
    #[error("The refresh token was used before; the authorization is now revoked")]
    RefreshReused(GrantId),
    /// The token to be revoked was issued to another client (RFC 7009 §2.1).
    #[strum(serialize = "token_of_another_client")]
    #[error("The token was issued to another client")]
    TokenOfOtherClient,
    #[strum(serialize = "assertion_refused")]
    #[error("{0}")]
    Assertion(#[from] AssertionError),
    #[strum(serialize = "identity_provider_unavailable")]
    #[error("The identity provider that signs the assertion does not answer; try again")]
    IdentityProvider(#[from] Unavailable),
    /// The assertion with which the client authenticates is refused (D-46).
    #[strum(serialize = "client_assertion_refused")]
    #[error("{0}")]
    ClientAssertion(AssertionError),
    /// `client_assertion_type` is not that of RFC 7523 §2.2.
    #[error("client_assertion_type must be urn:ietf:params:oauth:client-assertion-type:jwt-bearer")]
    ClientAssertionType,
    /// A client with keys and without a secret did not authenticate.
    #[error("This client must authenticate with client_assertion, signed by one of its keys")]
    ClientAssertionRequired,
    #[error(
        "The gateway handed over a certificate of the client that the token service cannot read: {0}. Correct the configuration of \
         the gateway"
    )]
    CertificateUnreadable(&'static str),
    #[error(
        "The address that handed over a certificate is not in mutual_tls.gateways of the token service"
    )]
    CertificateUntrusted,
    /// A client with certificates, and without a secret and keys, showed no certificate (RFC 8705 §2.2).
    #[error(
        "This client must authenticate its connection with a registered certificate: use an endpoint of \
         mtls_endpoint_aliases in the metadata"
    )]
    CertificateRequired,
    /// The certificate of the connection is not registered for the client (RFC 8705 §2.2).
    #[error("The certificate of the connection is not registered for this client")]
    CertificateOther,
    /// The client gets only tokens that are bound to a certificate, and showed none (RFC 8705 §3.4).
    #[error(
        "This client gets only tokens that are bound to a certificate: send the request with a certificate to an endpoint of \
         mtls_endpoint_aliases in the metadata"
    )]
    CertificateToBind,
    /// The request does not name exactly one linked account.
    #[strum(serialize = "account_refused")]
    #[error("{0}")]
    Account(#[from] AccountError),
    /// The DPoP proof is refused, or missing (RFC 9449 §5).
    #[error("{}", .0.description)]
    Proof(RefusedProof),
    /// The user of the user-bound client was deleted or disabled.
    #[error("The bound user of this client is not available")]
    BoundUserGone,
    #[error(
        "This client revokes too many access tokens at once; try again after the time of Retry-After, or revoke the refresh \
         token"
    )]
    TooManyRevocations {
        client_id: ClientId,
        /// Time until the next revocation is allowed.
        wait: Duration,
    },
    /// The tokens would be revoked already, for this time yet: see [`wait_for_tokens`](domain::wait_for_tokens).
    #[error(
        "The client, user or account was disabled or removed a moment ago; try again after the time of Retry-After"
    )]
    TooEarly(Duration),
    #[strum(serialize = "store_failed")]
    #[error("The service is busy; try again")]
    Store(#[from] StoreError),
    #[strum(serialize = "no_randomness")]
    #[error("The service failed")]
    Random,
    #[strum(serialize = "signing_failed")]
    #[error("The service failed")]
    Signing,
    /// A code or pushed request could not be sealed.
    #[strum(serialize = "sealing_failed")]
    #[error("The service failed")]
    Sealing(#[from] SealingError),
}

impl TokenError {
    /// The value of `error` for the client.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::ContentType
            | Self::Parameters(_)
            | Self::ParameterInUrl
            | Self::Missing(_)
            | Self::MalformedVerifier
            | Self::MalformedScope
            | Self::SeveralAuthentications
            | Self::ClientIdDiffers
            | Self::CertificateUnreadable(_)
            | Self::CertificateUntrusted
            | Self::CertificateToBind
            | Self::ScopeNotPermitted(_)
            | Self::Code(CodeMismatch::ScopeExceeded(_))
            | Self::Refresh(RotationRefusal::ScopeExceeded(_) | RotationRefusal::ScopeDiffers) => {
                ErrorCode::InvalidRequest
            }
            Self::NoClient
            | Self::BasicMalformed
            | Self::UnknownClient
            | Self::WrongSecret
            | Self::PublicClientInHeader
            | Self::SecretInBody
            | Self::SecretRequired
            | Self::ClientAssertion(_)
            | Self::ClientAssertionType
            | Self::ClientAssertionRequired
            | Self::CertificateRequired
            | Self::CertificateOther => ErrorCode::InvalidClient,
            Self::UnknownGrantType
            | Self::GrantNotPermitted
            | Self::UnknownCode
            | Self::Code(_)
            | Self::CodeReplayed(_)
            | Self::RefreshToken
            | Self::Refresh(_)
            | Self::RefreshReused(_)
            | Self::TokenOfOtherClient
            | Self::Assertion(_)
            | Self::BoundUserGone => ErrorCode::InvalidGrant,
            Self::Account(error) => error.code(),
            Self::Proof(refused) if refused.refusal.wants_nonce() => ErrorCode::UseDpopNonce,
            Self::Proof(_) => ErrorCode::InvalidDpopProof,
            Self::TooManyRevocations { .. } | Self::TooManyGuesses(_) => ErrorCode::TooManyRequests,
            Self::TooEarly(_) | Self::Store(_) | Self::IdentityProvider(_) => {
                ErrorCode::TemporarilyUnavailable
            }
            Self::Random | Self::Signing | Self::Sealing(_) => ErrorCode::ServerError,
        }
    }

    pub(super) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::TooManyRevocations { wait, .. }
            | Self::TooManyGuesses(wait)
            | Self::TooEarly(wait) => {
                let whole = wait.as_secs();
                Some(
                    whole
                        .saturating_add(u64::from(wait.subsec_nanos() > 0))
                        .max(1),
                )
            }
            _ => (self.code() == ErrorCode::TemporarilyUnavailable).then_some(RETRY_AFTER_SECONDS),
        }
    }

    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Code(mismatch) => mismatch.reason(),
            Self::Refresh(refusal) => refusal.reason(),
            Self::ClientAssertion(AssertionError::Replayed) => "client_assertion_replayed",
            Self::ClientAssertion(AssertionError::Signature) => "wrong_client_assertion",
            Self::Proof(refused) => refused.refusal.name(),
            _ => self.into_str(),
        }
    }

    pub(super) const fn action(&self) -> AuditAction {
        match self {
            Self::RefreshReused(_) => AuditAction::RefreshTokenReused,
            Self::CodeReplayed(_) => AuditAction::CodeReplayed,
            _ => AuditAction::TokenRequestRefused,
        }
    }

    pub(super) const fn revoked_grant(&self) -> Option<GrantId> {
        match self {
            Self::CodeReplayed(grant_id) | Self::RefreshReused(grant_id) => Some(*grant_id),
            _ => None,
        }
    }

    /// True if the client presented something wrong in place of its secret or signature, which may be a guess.
    pub const fn is_guess(&self) -> bool {
        matches!(
            self,
            Self::WrongSecret | Self::ClientAssertion(AssertionError::Signature)
        )
    }

    pub(super) fn cause(&self) -> Option<String> {
        match self {
            Self::Store(error) => Some(error.to_string()),
            Self::Sealing(error) => Some(error.to_string()),
            Self::IdentityProvider(error) => Some(error.to_string()),
            _ => None,
        }
    }
}

const SECOND_FACTOR_MISSING: &str = "A second factor is required: the user must sign in again";

fn of_code(mismatch: &CodeMismatch) -> Cow<'static, str> {
    Cow::Borrowed(match mismatch {
        // The text of an unknown code, so that a client learns nothing about codes of other clients.
        CodeMismatch::Client => return TokenError::UnknownCode.to_string().into(),
        CodeMismatch::ScopeExceeded(excess) => {
            let excess = printable(excess.as_str());
            return format!("scope exceeds what was authorized: {excess}; without scope, the client gets all of that")
                .into();
        }
        CodeMismatch::Expired => "The code has expired",
        CodeMismatch::RedirectUri => {
            "redirect_uri differs from the one of the authorization request"
        }
        CodeMismatch::VerifierMissing => "code_verifier is missing",
        CodeMismatch::VerifierUnexpected => {
            "code_verifier was sent, but the authorization request had no code_challenge"
        }
        CodeMismatch::VerifierWrong => "code_verifier does not match the code_challenge",
        CodeMismatch::Key => "The code is bound to a key (dpop_jkt): send a DPoP proof of this key",
        CodeMismatch::ClientUnproven => {
            "This code was requested without PKCE: authenticate with the Client Secret"
        }
        CodeMismatch::ClientChanged => {
            "The client or its redirect_uri was disabled or removed after the authorization request"
        }
        CodeMismatch::SecondFactorMissing => SECOND_FACTOR_MISSING,
        CodeMismatch::Outdated => {
            "The sign-in behind the code has ended: its password, second factor or account has changed"
        }
    })
}

fn of_refresh_token(refusal: &RotationRefusal) -> Cow<'static, str> {
    Cow::Borrowed(match refusal {
        // The text of an unknown token, so that a client learns nothing about refresh tokens of other clients.
        RotationRefusal::OtherClient => return TokenError::RefreshToken.to_string().into(),
        RotationRefusal::ScopeExceeded(excess) => {
            let excess = printable(excess.as_str());
            return format!(
                "scope exceeds what was granted: {excess}; a refresh may only ask for less"
            )
            .into();
        }
        // This server issued the token, but the store has forgotten the grant.
        RotationRefusal::Unknown => {
            "The refresh token has expired, or its authorization was revoked"
        }
        RotationRefusal::OtherKey => {
            "The refresh token is bound to a key: send a DPoP proof of this key"
        }
        RotationRefusal::OtherCertificate => {
            "The refresh token is bound to a certificate: authenticate the connection with this certificate"
        }
        RotationRefusal::Expired => "The refresh token has expired",
        RotationRefusal::Revoked => "The authorization has been revoked",
        RotationRefusal::SecondFactorMissing => SECOND_FACTOR_MISSING,
        RotationRefusal::ScopeDiffers => "scope differs from the first use of this refresh token",
    })
}

/// The value of a required parameter.
///
/// # Errors
/// [`TokenError::Missing`] if the parameter is absent.
pub fn required<'form>(
    form: &'form Parameters<'_>,
    parameter: Parameter,
) -> Result<&'form str, TokenError> {
    form.get(parameter).ok_or(TokenError::Missing(parameter))
}

impl From<ProofRefusal> for TokenError {
    fn from(refusal: ProofRefusal) -> Self {
        Self::Proof(refusal.into())
    }
}

impl From<RefusedProof> for TokenError {
    fn from(refused: RefusedProof) -> Self {
        Self::Proof(refused)
    }
}

impl From<RandomError> for TokenError {
    fn from(_: RandomError) -> Self {
        Self::Random
    }
}

impl From<KeyError> for TokenError {
    fn from(_: KeyError) -> Self {
        Self::Signing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::grants::GrantType;

    #[test]
    fn an_unknown_grant_type_is_answered_with_all_known_ones() {
        let description = TokenError::UnknownGrantType.to_string();
        for grant_type in GrantType::ALL {
            assert!(description.contains(grant_type.name()), "{description}");
        }
    }

    #[test]
    fn a_scope_that_goes_too_far_is_named() {
        let excess = || Scope::parse("a.write b").unwrap();
        for error in [
            TokenError::ScopeNotPermitted(excess()),
            TokenError::Code(CodeMismatch::ScopeExceeded(excess())),
            TokenError::Refresh(RotationRefusal::ScopeExceeded(excess())),
        ] {
            let description = error.to_string();
            assert!(description.contains(": a.write b"), "{description}");
            assert_eq!(error.code(), ErrorCode::InvalidRequest);
        }
        let long = Scope::parse(&"x".repeat(1000)).unwrap();
        let description = TokenError::ScopeNotPermitted(long).to_string().len();
        assert!(description < 300, "{description}");
    }

    /// A client learns neither that a code or token is genuine nor whose it is, unless it is the client's own.
    #[test]
    fn codes_and_tokens_of_others_are_as_unknown_as_invented_ones() {
        let other = TokenError::Code(CodeMismatch::Client);
        assert_eq!(other.to_string(), TokenError::UnknownCode.to_string());
        let other = TokenError::Refresh(RotationRefusal::OtherClient);
        assert_eq!(other.to_string(), TokenError::RefreshToken.to_string());
        for (error, word) in [
            (TokenError::UnknownCode, "unknown"),
            (TokenError::Code(CodeMismatch::Expired), "expired"),
            (TokenError::RefreshToken, "unknown"),
            (TokenError::Refresh(RotationRefusal::Expired), "expired"),
            (TokenError::Refresh(RotationRefusal::Unknown), "expired"),
        ] {
            let description = error.to_string();
            assert!(description.contains(word), "{description}");
        }
    }
    #[test]
    fn rfc9110_s10_2_3_a_wait_is_told_in_whole_seconds_and_at_least_one() {
        for (milliseconds, told) in [(0, 1), (1, 1), (1000, 1), (1001, 2)] {
            let wait = Duration::from_millis(milliseconds);
            assert_eq!(TokenError::TooEarly(wait).retry_after(), Some(told));
        }
    }
}
