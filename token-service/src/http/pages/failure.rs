//! Failures of pages and forms, and their error page.

use std::borrow::Cow;
use std::fmt;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};

use super::texts::Texts;
use crate::http::body::BodyError;
use crate::telemetry::visible::bounded;
use domain::random::RandomError;
use protocol::oauth;
use protocol::oauth::authorize::{IssueError, UnsafeRequest};
use protocol::oauth::parameters::ParameterError;
use protocol::provider_sign_in::DepartureError;
use protocol::sign_in::SignInError;
use registry::change::ChangeError;
use secrets::password::PasswordError;
use store::StoreError;

/// Reason why a page or form gets an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageFailure {
    /// The authorization request has no safe redirect URI (D-5).
    Request(UnsafeRequest),
    /// Redirects to the client's redirect URI with an error, given as a complete URL: 302 after a GET and in the legacy
    /// flow, else 303.
    ErrorAtClient(StatusCode, String),
    /// The sign-in ended during the request. Contains the URL that starts the sign-in again.
    SignInEnded(String),
    /// This host does not serve the flow; the text names the right host.
    WrongHost(String),
    /// There is no page at this path. Contains the endpoint that was probably meant.
    NothingHere(Option<String>),
    /// The browser sent no CSRF token in a cookie.
    NoCookies,
    Forgery,
    ContentType,
    /// The form is larger than 64 KiB (D-18).
    TooLarge,
    TooSlow,
    /// The connection broke while the form was read.
    Interrupted,
    Form(ParameterError),
    /// The user does not have the chosen linked account.
    Account,
    /// The link to set a password is unknown, used, replaced or too old.
    LinkOver,
    /// What an identity provider sent the browser back with does not belong to a sign-in of this browser, or no longer.
    ProviderAnswer,
    Method,
    /// The store is overloaded or failed, or too many passwords wait.
    Unavailable(String),
    Internal(String),
}

impl PageFailure {
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::Request(_)
            | Self::Interrupted
            | Self::Form(_)
            | Self::Account
            | Self::ProviderAnswer => StatusCode::BAD_REQUEST,
            Self::ErrorAtClient(status, _) => *status,
            Self::SignInEnded(_) => StatusCode::SEE_OTHER,
            Self::WrongHost(_) | Self::NothingHere(_) => StatusCode::NOT_FOUND,
            Self::LinkOver => StatusCode::GONE,
            Self::NoCookies | Self::Forgery => StatusCode::FORBIDDEN,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(super) const fn problem(&self, texts: &'static Texts) -> &'static str {
        match self {
            Self::Request(reason) => texts.unsafe_request(reason),
            Self::ErrorAtClient(..) => texts.sent_back,
            Self::SignInEnded(_) => texts.sign_in_ended,
            Self::WrongHost(_) | Self::NothingHere(_) => texts.nothing_here,
            Self::NoCookies => texts.no_cookies,
            Self::Forgery => texts.form_foreign,
            Self::ContentType | Self::Interrupted | Self::Form(_) => texts.form_unreadable,
            Self::TooLarge => texts.form_too_large,
            Self::TooSlow => texts.form_too_slow,
            Self::Account => texts.account_not_linked,
            Self::LinkOver => texts.link_over,
            Self::ProviderAnswer => texts.provider_answer,
            Self::Method => texts.wrong_method,
            Self::Unavailable(_) => texts.unavailable,
            Self::Internal(_) => texts.internal,
        }
    }

    pub(super) const fn advice(&self, texts: &'static Texts) -> &'static str {
        match self {
            Self::NoCookies | Self::Forgery => texts.allow_cookies,
            Self::Unavailable(_) => texts.wait_and_retry,
            Self::Request(_) => texts.tell_the_developers,
            Self::LinkOver => texts.ask_for_link,
            _ => texts.start_again,
        }
    }

    /// Details for the application's developers, in English like the rest of the protocol.
    pub(super) fn details(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Request(reason) => reason.to_string().into(),
            Self::ContentType => "Forms are application/x-www-form-urlencoded, in UTF-8.".into(),
            Self::WrongHost(words) => format!("{words}.").into(),
            Self::NothingHere(meant) => format!("Perhaps you mean {}.", meant.as_ref()?).into(),
            Self::TooLarge => "Forms have up to 64 KiB.".into(),
            Self::Form(ParameterError::Repeated(name)) => {
                format!("{}.", oauth::message::repeated(name)).into()
            }
            _ => return None,
        })
    }
}

impl fmt::Display for PageFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.problem(Texts::english()))
    }
}

impl ResponseError for PageFailure {
    fn status_code(&self) -> StatusCode {
        self.status()
    }

    /// Only the status; [`page`](super::error_page::page) makes the page, because the request is known there.
    fn error_response(&self) -> HttpResponse {
        match self {
            // The store logs its failures once, and not for each request.
            Self::Unavailable(reason) => tracing::debug!(reason, "try again"),
            Self::Internal(reason) => tracing::error!(reason, "a sign-in page failed"),
            Self::ErrorAtClient(..) => {}
            // The address has the query of the request, such as an e-mail address.
            Self::SignInEnded(_) => tracing::info!("the sign-in ended before its form came"),
            refused => {
                let reason = format!("{refused:?}");
                tracing::info!(reason = %bounded(&reason), "a sign-in page was refused");
            }
        }
        HttpResponse::new(self.status())
    }
}

impl From<DepartureError> for PageFailure {
    fn from(error: DepartureError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<ParameterError> for PageFailure {
    fn from(error: ParameterError) -> Self {
        Self::Form(error)
    }
}

impl From<BodyError> for PageFailure {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::TooLarge,
            BodyError::TooSlow => Self::TooSlow,
            BodyError::Broken => Self::Interrupted,
        }
    }
}

impl From<StoreError> for PageFailure {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<ChangeError> for PageFailure {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Overtaken | ChangeError::Store(_) => Self::Unavailable(error.to_string()),
            ChangeError::Protection(_) | ChangeError::Task(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<RandomError> for PageFailure {
    fn from(error: RandomError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<IssueError> for PageFailure {
    fn from(error: IssueError) -> Self {
        match error {
            IssueError::Store(error) => error.into(),
            IssueError::Random(error) => error.into(),
            IssueError::Sealing(error) => Self::Internal(error.to_string()),
            IssueError::RequestUsed => Self::Request(UnsafeRequest::RequestUriUnknown),
            IssueError::SignInEnded => Self::SignInEnded(crate::http::paths::HOME.to_owned()),
        }
    }
}

impl From<SignInError> for PageFailure {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::Store(error) => error.into(),
            SignInError::Password(PasswordError::Busy) => Self::Unavailable(error.to_string()),
            SignInError::Random(_)
            | SignInError::Password(PasswordError::Failed | PasswordError::TooLarge { .. })
            | SignInError::SecretSealed(..)
            | SignInError::SecretUnusable(_)
            | SignInError::SetUp(_) => Self::Internal(error.to_string()),
        }
    }
}
