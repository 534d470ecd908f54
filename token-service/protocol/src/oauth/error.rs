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
use crate::token::KeyError;
use domain::random::RandomError;
use domain::{AuditAction, ClientId, CodeMismatch, GrantId, RotationRefusal, Scope};
use store::StoreError;

/// `Retry-After` in seconds when the service is busy.
const RETRY_AFTER_SECONDS: u64 = 1;

/// Reason why the token endpoint refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum TokenError {
    /// The content type is not `application/x-www-form-urlencoded` in UTF-8.
    ContentType,
    #[strum(serialize = "unreadable_form")]
    Parameters(ParameterError),
    /// A parameter is in the URL, where servers and proxies log it (RFC 6749 §2.3.1).
    ParameterInUrl,
    #[strum(serialize = "missing_parameter")]
    Missing(Parameter),
    /// `code_verifier` is malformed (RFC 7636 §4.1).
    MalformedVerifier,
    /// `scope` is not a list of scope tokens (RFC 6749 §3.3).
    MalformedScope,
    /// More than one method of client authentication (RFC 6749 §2.3).
    SeveralAuthentications,
    /// `client_id` differs from the Client ID in the Authorization header.
    ClientIdDiffers,
    /// No Authorization header and no `client_id`.
    NoClient,
    /// The Authorization header is not well-formed Basic.
    #[strum(serialize = "malformed_basic")]
    BasicMalformed,
    /// No enabled client of the current flows has this id.
    UnknownClient,
    WrongSecret,
    /// A public client used the Authorization header (protocol.md §5.3).
    PublicClientInHeader,
    /// The secret or client assertion is wrong, and this address sent too many wrong ones for this client. Not before this
    /// time would another one get its own error.
    TooManyGuesses(Duration),
    /// `client_secret` is in the body; only the header may contain the secret (protocol.md §5.2).
    SecretInBody,
    /// A confidential client did not authenticate.
    SecretRequired,
    /// This endpoint does not know the `grant_type`.
    UnknownGrantType,
    /// The client's integration type does not use this grant.
    GrantNotPermitted,
    /// The client is not registered for this part of the requested scope (D-9).
    ScopeNotPermitted(Scope),
    /// The store does not know the code.
    UnknownCode,
    /// The code exists but the request does not match it.
    Code(CodeMismatch),
    /// The code was used before. The tokens from its first use are now revoked.
    CodeReplayed(GrantId),
    #[strum(serialize = "malformed_refresh_token")]
    RefreshToken,
    Refresh(RotationRefusal),
    /// The refresh token was used before and its grace period is over. Its grant is now revoked.
    #[strum(serialize = "refresh_token_reused")]
    RefreshReused(GrantId),
    /// The token to be revoked was issued to another client (RFC 7009 §2.1).
    #[strum(serialize = "token_of_another_client")]
    TokenOfOtherClient,
    #[strum(serialize = "assertion_refused")]
    Assertion(AssertionError),
    /// The assertion with which the client authenticates is refused (D-46).
    #[strum(serialize = "client_assertion_refused")]
    ClientAssertion(AssertionError),
    /// `client_assertion_type` is not that of RFC 7523 §2.2.
    ClientAssertionType,
    /// A client with keys and without a secret did not authenticate.
    ClientAssertionRequired,
    /// The gateway sent something else than a certificate of the client, or several.
    CertificateUnreadable,
    /// An address outside `mutual_tls.gateways` handed over a certificate.
    CertificateUntrusted,
    /// A client with certificates, and without a secret and keys, showed no certificate (RFC 8705 §2.2).
    CertificateRequired,
    /// The certificate of the connection is not registered for the client (RFC 8705 §2.2).
    CertificateOther,
    /// The client gets only tokens that are bound to a certificate, and showed none (RFC 8705 §3.4).
    CertificateToBind,
    /// The request does not name exactly one linked account.
    #[strum(serialize = "account_refused")]
    Account(AccountError),
    /// The DPoP proof is refused, or missing (RFC 9449 §5).
    Proof(RefusedProof),
    /// The user of the user-bound client was deleted or disabled.
    BoundUserGone,
    /// The client exceeds its limit of revoked access tokens.
    TooManyRevocations {
        client_id: ClientId,
        /// Time until the next revocation is allowed.
        wait: Duration,
    },
    /// The tokens would be revoked already, for this time yet: see [`wait_for_tokens`](domain::wait_for_tokens).
    TooEarly(Duration),
    #[strum(serialize = "store_failed")]
    Store(StoreError),
    #[strum(serialize = "no_randomness")]
    Random,
    #[strum(serialize = "signing_failed")]
    Signing,
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
            | Self::CertificateUnreadable
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
            Self::TooEarly(_) | Self::Store(_) => ErrorCode::TemporarilyUnavailable,
            Self::Random | Self::Signing => ErrorCode::ServerError,
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
            _ => None,
        }
    }

    /// Tells the integrator what to change: ASCII without quotes and backslashes (RFC 6749 §5.2). Repeats only parts of
    /// the request that are not secret, through [`printable`](super::message::printable).
    pub fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Parameters(ParameterError::Repeated(name)) => return repeated(name).into(),
            Self::Missing(parameter) => return format!("{} is missing", parameter.name()).into(),
            Self::Assertion(error) | Self::ClientAssertion(error) => return error.description(),
            Self::ScopeNotPermitted(excess) => return unregistered_scope(excess).into(),
            Self::Code(CodeMismatch::ScopeExceeded(excess)) => {
                let excess = printable(excess.as_str());
                let description = format!(
                    "scope exceeds what was authorized: {excess}; without scope, the client gets all of that"
                );
                return description.into();
            }
            Self::Refresh(RotationRefusal::ScopeExceeded(excess)) => {
                let excess = printable(excess.as_str());
                let description = format!(
                    "scope exceeds what was granted: {excess}; a refresh may only ask for less"
                );
                return description.into();
            }
            Self::ContentType => {
                "The content type must be application/x-www-form-urlencoded, in UTF-8"
            }
            Self::Parameters(ParameterError::NotUtf8) => "The form is not UTF-8",
            Self::Parameters(ParameterError::PercentEncoding) => {
                "A percent sign in the form is not followed by two hexadecimal digits"
            }
            Self::ParameterInUrl => "Send the parameters in the body, not in the URL",
            Self::MalformedVerifier => {
                "code_verifier must be 43 to 128 characters out of A-Z a-z 0-9 - . _ and the tilde"
            }
            Self::MalformedScope => {
                "scope is not a list of scope tokens separated by single spaces"
            }
            Self::SeveralAuthentications => "Use one way of client authentication",
            Self::ClientIdDiffers => "client_id differs from the one in the Authorization header",
            Self::NoClient => {
                "Client authentication is missing: send Authorization: Basic with base64 of client_id:client_secret; \
                 an Installed Application, which has no secret, sends client_id in the body"
            }
            Self::BasicMalformed => {
                "The Authorization header must be Basic with base64 of client_id:client_secret"
            }
            Self::UnknownClient | Self::WrongSecret => "Client ID or Client Secret is wrong",
            Self::TooManyGuesses(_) => {
                "Client Secret or client assertion is wrong, and too many wrong ones came from this address; correct it"
            }
            Self::PublicClientInHeader => {
                "An Installed Application sends client_id in the body, not in the Authorization header"
            }
            Self::SecretInBody => {
                "Send the Client Secret in the Authorization header (Basic), not in the body"
            }
            Self::SecretRequired => {
                "This client must authenticate with its Client Secret in the Authorization header (Basic)"
            }
            Self::ClientAssertionType => {
                "client_assertion_type must be urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            }
            Self::ClientAssertionRequired => {
                "This client must authenticate with client_assertion, signed by one of its keys"
            }
            Self::CertificateUnreadable => {
                "The gateway sent something else than the one certificate of the client: its configuration is wrong"
            }
            Self::CertificateUntrusted => {
                "The address that handed over a certificate is not in mutual_tls.gateways of the token service"
            }
            Self::CertificateRequired => {
                "This client must authenticate its connection with a registered certificate: \
                 use an endpoint of mtls_endpoint_aliases in the metadata"
            }
            Self::CertificateOther => {
                "The certificate of the connection is not registered for this client"
            }
            Self::CertificateToBind => {
                "This client gets only tokens that are bound to a certificate: send the request with a certificate \
                 to an endpoint of mtls_endpoint_aliases in the metadata"
            }
            Self::UnknownGrantType => {
                "grant_type must be authorization_code, refresh_token, client_credentials or \
                 urn:ietf:params:oauth:grant-type:jwt-bearer"
            }
            Self::GrantNotPermitted => "This client's integration type may not use this grant_type",
            // One text, so that a client learns nothing about codes of other clients.
            Self::UnknownCode | Self::Code(CodeMismatch::Client) => {
                "The code is unknown: this server did not issue it to this client"
            }
            Self::CodeReplayed(_) => "The code was used before; its tokens are revoked",
            Self::Code(CodeMismatch::Expired) => "The code has expired",
            Self::Code(CodeMismatch::RedirectUri) => {
                "redirect_uri differs from the one of the authorization request"
            }
            Self::Code(CodeMismatch::VerifierMissing) => "code_verifier is missing",
            Self::Code(CodeMismatch::VerifierUnexpected) => {
                "code_verifier was sent, but the authorization request had no code_challenge"
            }
            Self::Code(CodeMismatch::VerifierWrong) => {
                "code_verifier does not match the code_challenge"
            }
            Self::Code(CodeMismatch::Key) => {
                "The code is bound to a key (dpop_jkt): send a DPoP proof of this key"
            }
            Self::Code(CodeMismatch::ClientUnproven) => {
                "This code was requested without PKCE: authenticate with the Client Secret"
            }
            Self::Code(CodeMismatch::ClientChanged) => {
                "The client or its redirect_uri was disabled or removed after the authorization request"
            }
            Self::Code(CodeMismatch::Outdated) => {
                "The sign-in behind the code has ended: its password, second factor or account has changed"
            }
            // One text, so that a client learns nothing about refresh tokens of other clients.
            Self::RefreshToken | Self::Refresh(RotationRefusal::OtherClient) => {
                "The refresh token is unknown: this server did not issue it to this client"
            }
            // Of this server, but the store has forgotten the grant.
            Self::Refresh(RotationRefusal::Unknown) => {
                "The refresh token has expired, or its authorization was revoked"
            }
            Self::Refresh(RotationRefusal::OtherKey) => {
                "The refresh token is bound to a key: send a DPoP proof of this key"
            }
            Self::Refresh(RotationRefusal::OtherCertificate) => {
                "The refresh token is bound to a certificate: authenticate the connection with this certificate"
            }
            Self::Refresh(RotationRefusal::Expired) => "The refresh token has expired",
            Self::Refresh(RotationRefusal::Revoked) => "The authorization has been revoked",
            Self::Refresh(RotationRefusal::ScopeDiffers) => {
                "scope differs from the first use of this refresh token"
            }
            Self::RefreshReused(_) => {
                "The refresh token was used before; the authorization is now revoked"
            }
            Self::TokenOfOtherClient => "The token was issued to another client",
            Self::Account(error) => error.description(),
            Self::Proof(refused) => return refused.description.clone(),
            Self::BoundUserGone => "The bound user of this client is not available",
            Self::TooManyRevocations { .. } => {
                "This client revokes too many access tokens at once; try again after the time of Retry-After, or revoke the refresh token"
            }
            Self::TooEarly(_) => {
                "The client, user or account was disabled or removed a moment ago; try again after the time of Retry-After"
            }
            Self::Store(_) => "The service is busy; try again",
            Self::Random | Self::Signing => "The service failed",
        })
    }
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

impl From<ParameterError> for TokenError {
    fn from(error: ParameterError) -> Self {
        Self::Parameters(error)
    }
}

impl From<AssertionError> for TokenError {
    fn from(error: AssertionError) -> Self {
        Self::Assertion(error)
    }
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

impl From<AccountError> for TokenError {
    fn from(error: AccountError) -> Self {
        Self::Account(error)
    }
}

impl From<StoreError> for TokenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
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
        let description = TokenError::UnknownGrantType.description();
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
            let description = error.description();
            assert!(description.contains(": a.write b"), "{description}");
            assert_eq!(error.code(), ErrorCode::InvalidRequest);
        }
        let long = Scope::parse(&"x".repeat(1000)).unwrap();
        let description = TokenError::ScopeNotPermitted(long).description().len();
        assert!(description < 300, "{description}");
    }

    /// A client learns neither that a code or token is genuine nor whose it is, unless it is the client's own.
    #[test]
    fn codes_and_tokens_of_others_are_as_unknown_as_invented_ones() {
        let other = TokenError::Code(CodeMismatch::Client);
        assert_eq!(other.description(), TokenError::UnknownCode.description());
        let other = TokenError::Refresh(RotationRefusal::OtherClient);
        assert_eq!(other.description(), TokenError::RefreshToken.description());
        for (error, word) in [
            (TokenError::UnknownCode, "unknown"),
            (TokenError::Code(CodeMismatch::Expired), "expired"),
            (TokenError::RefreshToken, "unknown"),
            (TokenError::Refresh(RotationRefusal::Expired), "expired"),
            (TokenError::Refresh(RotationRefusal::Unknown), "expired"),
        ] {
            let description = error.description();
            assert!(description.contains(word), "{description}");
        }
    }
}
