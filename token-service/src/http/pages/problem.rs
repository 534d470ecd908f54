//! What a page says about the form before.

use std::time::Duration;

use actix_web::http::StatusCode;

use super::texts::{self, Texts};
use protocol::sign_in::CodeRefusal;
use secrets::password_rules::Weak;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem<'a> {
    PasswordRefused,
    /// The password is wrong; the user is already known.
    PasswordWrong,
    PasswordMissing,
    /// The chosen password is refused.
    PasswordWeak(Weak),
    CodeWrong,
    /// The one-time code was right, but used before.
    CodeUsed,
    /// The recovery code is wrong, or was used before.
    RecoveryCodeWrong,
    /// There were too many attempts. The person must wait this long.
    Wait(Duration),
    /// The sign-in at the identity provider of this name.
    Provider(ProviderProblem, &'a str),
}

/// Why a sign-in at an identity provider did not lead back to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderProblem {
    /// The provider does not answer, or too slowly.
    Unavailable,
    /// The person cancelled there.
    Cancelled,
    /// The provider refused, or its answer cannot be trusted.
    Failed,
    /// The provider did not ask the person again, though the application wants a recent sign-in.
    NotRecent,
    /// The provider signed the person out during the sign-in.
    SignedOut,
    /// The request is for another person.
    OtherPerson,
    /// The request is too long to be carried to the provider.
    TooLong,
}

impl From<CodeRefusal> for Problem<'_> {
    fn from(refusal: CodeRefusal) -> Self {
        match refusal {
            CodeRefusal::Wrong => Self::CodeWrong,
            CodeRefusal::Used => Self::CodeUsed,
            CodeRefusal::Wait(wait) => Self::Wait(wait),
        }
    }
}

impl Problem<'_> {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::Wait(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::PasswordWeak(_) | Self::Provider(ProviderProblem::TooLong, _) => {
                StatusCode::BAD_REQUEST
            }
            Self::Provider(ProviderProblem::Unavailable, _) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::FORBIDDEN,
        }
    }

    pub(super) const fn wait(self) -> Option<Duration> {
        match self {
            Self::Wait(wait) => Some(wait),
            _ => None,
        }
    }

    /// True if a form with password and code shows the problem at the password.
    pub(super) const fn concerns_password(self) -> bool {
        match self {
            Self::PasswordRefused
            | Self::PasswordWrong
            | Self::PasswordMissing
            | Self::PasswordWeak(_)
            | Self::Wait(_) => true,
            Self::CodeWrong | Self::CodeUsed | Self::RecoveryCodeWrong | Self::Provider(..) => {
                false
            }
        }
    }

    pub(super) fn say(self, texts: &Texts) -> String {
        match self {
            Self::PasswordRefused => texts.password_refused.to_owned(),
            Self::PasswordWrong => texts.password_wrong.to_owned(),
            Self::PasswordMissing => texts.password_missing.to_owned(),
            Self::PasswordWeak(Weak::TooShort { least }) => {
                texts::plain(texts.password_short, &[("least", &least.to_string())])
            }
            Self::PasswordWeak(Weak::TooLong) => texts.password_long.to_owned(),
            Self::PasswordWeak(Weak::Username) => texts.password_is_name.to_owned(),
            Self::PasswordWeak(Weak::Unchanged) => texts.password_unchanged.to_owned(),
            Self::PasswordWeak(Weak::Common) => texts.password_common.to_owned(),
            Self::CodeWrong => texts.code_wrong.to_owned(),
            Self::CodeUsed => texts.code_used.to_owned(),
            Self::RecoveryCodeWrong => texts.recovery_code_wrong.to_owned(),
            Self::Provider(problem, name) => {
                let text = match problem {
                    ProviderProblem::Unavailable => texts.provider_unavailable,
                    ProviderProblem::Cancelled => texts.provider_cancelled,
                    ProviderProblem::Failed => texts.provider_failed,
                    ProviderProblem::NotRecent => texts.provider_not_recent,
                    ProviderProblem::SignedOut => texts.provider_signed_out,
                    ProviderProblem::OtherPerson => texts.provider_other_person,
                    ProviderProblem::TooLong => texts.provider_too_long,
                };
                texts::plain(text, &[("provider", name)])
            }
            Self::Wait(wait) => texts::plain(texts.wait, &[("time", &texts.duration(wait))]),
        }
    }
}
