//! What a person signs in for: an authorization request, or a legacy logon. Every page and form carries it as path
//! and query, and every step validates it again in full.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};

use super::failure::PageFailure;
use crate::audit_log::Entry;
use crate::http::{host, origin, paths};
use crate::service::Service;
use domain::clock::Timestamp;
use domain::{AuditAction, Client, LinkedAccount, RedirectUri, Registry, Session};
use protocol::legacy::logon::{ExpectedUser, Logon, LogonError, LogonRequest};
use protocol::oauth::authorize::{
    AuthorizationRequest, AuthorizeError, Confirmation, IssueError, Prompt, RedirectError,
    SignedIn, Step, code_record, issue_code, next_step,
};

/// A validated request.
pub(super) enum Journey {
    /// Of the authorization endpoint (protocol.md §4.1).
    Current(AuthorizationRequest),
    /// Of a legacy logon (protocol.md §4.5).
    Legacy(LogonRequest),
}

impl Journey {
    /// Reads path and query as a form carries them.
    pub(super) fn carried(
        text: &str,
        http: &HttpRequest,
        service: &Service,
        registry: &Registry,
    ) -> Result<Self, PageFailure> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let status = StatusCode::SEE_OTHER;
        if path == paths::LOGON {
            Self::legacy(query, http, registry, status)
        } else {
            Self::current(query, service, registry, status)
        }
    }

    /// Reads the query of the authorization endpoint. `status` is that of a redirect with an error.
    pub(super) fn current(
        query: &str,
        service: &Service,
        registry: &Registry,
        status: StatusCode,
    ) -> Result<Self, PageFailure> {
        AuthorizationRequest::validate(query.as_bytes(), registry)
            .map(Self::Current)
            .map_err(|error| match error {
                AuthorizeError::Unsafe(reason) => PageFailure::Request(reason),
                AuthorizeError::Redirect(destination, error) => PageFailure::ErrorAtClient(
                    status,
                    destination.with_error(&error, &service.config.protocol.issuer),
                ),
            })
    }

    /// Reads the query of a legacy logon.
    pub(super) fn legacy(
        query: &str,
        http: &HttpRequest,
        registry: &Registry,
        status: StatusCode,
    ) -> Result<Self, PageFailure> {
        let instance = registry
            .legacy_instance(host::of(http))
            .ok_or(PageFailure::UnknownHost)?;
        match LogonRequest::validate(query.as_bytes(), instance, registry) {
            Ok(Logon::Proceed(request)) => Ok(Self::Legacy(request)),
            Ok(Logon::Redirect(location)) => Err(PageFailure::ErrorAtClient(status, location)),
            Err(refusal) => Err(PageFailure::Logon(refusal)),
        }
    }

    /// The client.
    pub(super) fn client(&self) -> &Client {
        match self {
            Self::Current(request) => request.client(),
            Self::Legacy(request) => request.client(),
        }
    }

    /// Where the answer goes.
    pub(super) const fn redirect_uri(&self) -> &RedirectUri {
        match self {
            Self::Current(request) => request.destination().redirect_uri(),
            Self::Legacy(request) => request.redirect_uri(),
        }
    }

    /// The address where the request goes on after a step; forms carry it.
    pub(super) fn continuation(&self) -> String {
        match self {
            Self::Current(request) => format!("{}?{}", paths::AUTHORIZE, request.continuation()),
            Self::Legacy(request) => format!("{}?{}", paths::LOGON, request.continuation()),
        }
    }

    /// The address where the request asks for the credentials again, in spite of a live session.
    fn sign_in_again(&self) -> String {
        match self {
            Self::Current(request) => format!("{}?{}", paths::AUTHORIZE, request.sign_in_again()),
            Self::Legacy(request) => {
                format!("{}?{}&prompt=login", paths::LOGON, request.continuation())
            }
        }
    }

    /// The address where the request asks for the credentials of somebody else; `None` where only one person will do.
    pub(super) fn other_user(&self) -> Option<String> {
        match self {
            Self::Legacy(request) if request.expected_user().is_some() => None,
            Self::Current(_) | Self::Legacy(_) => Some(self.sign_in_again()),
        }
    }

    /// The answer when the person's sign-in ended before a code was issued.
    fn sign_in_ended(&self, issuer: &str) -> PageFailure {
        match self {
            Self::Current(request) if request.prompt() == Prompt::Never => {
                let location = self.error_address(&RedirectError::LoginRequired, issuer);
                PageFailure::ErrorAtClient(StatusCode::FOUND, location)
            }
            Self::Current(_) | Self::Legacy(_) => PageFailure::SignInEnded(self.sign_in_again()),
        }
    }

    /// The address that tells the client that the person cancelled.
    pub(super) fn cancel(&self, issuer: &str) -> String {
        match self {
            Self::Current(request) => request
                .destination()
                .with_error(&RedirectError::Cancelled, issuer),
            Self::Legacy(request) => request.with_error(LogonError::Cancelled),
        }
    }

    /// The person, if the request names one: nobody else may sign in.
    pub(super) const fn expected_user(&self) -> Option<&ExpectedUser> {
        match self {
            Self::Current(_) => None,
            Self::Legacy(request) => request.expected_user(),
        }
    }

    /// Whether the answer goes to a public client on the person's device (D-34).
    pub(super) fn is_native(&self) -> bool {
        self.client().secrets().is_empty() && self.redirect_uri().is_native()
    }

    /// The username that the person may mean to sign in with.
    pub(super) fn login_hint(&self) -> Option<&str> {
        match self {
            Self::Current(request) => request.login_hint(),
            Self::Legacy(_) => None,
        }
    }

    /// What the person has to do next; `sign_in_again` disregards the session.
    pub(super) fn next_step(
        &self,
        session: Option<Session>,
        sign_in_again: bool,
        confirmation: Confirmation,
        registry: &Registry,
        now: Timestamp,
    ) -> Step {
        match self {
            Self::Current(request) => {
                let session = session.filter(|session| request.accepts(session, now));
                next_step(request.prompt(), session, confirmation, registry)
            }
            Self::Legacy(request) => {
                let expected = request.expected_user();
                let session = session.filter(|session| {
                    !sign_in_again
                        && expected.is_none_or(|expected| expected.username == session.username)
                });
                next_step(Prompt::WhenNeeded, session, confirmation, registry)
            }
        }
    }

    /// The address that tells the client why there is no code.
    pub(super) fn error_address(&self, error: &RedirectError, issuer: &str) -> String {
        match self {
            Self::Current(request) => request.destination().with_error(error, issuer),
            Self::Legacy(request) => request.with_error(LogonError::NoLinkedAccount),
        }
    }

    /// Issues a code; the answer is the address that delivers it.
    pub(super) async fn issue(
        &self,
        http: &HttpRequest,
        service: &Service,
        signed_in: &SignedIn,
        account: &LinkedAccount,
        now: Timestamp,
    ) -> Result<String, PageFailure> {
        let (store, random) = (service.store.as_ref(), service.random.as_ref());
        let issuer = &service.config.protocol.issuer;
        let issued = match self {
            Self::Current(request) => {
                let expires_at = now + service.config.protocol.lifetimes.authorization_code;
                let record = code_record(request, signed_in, account, expires_at);
                let code = issue_code(record, store, random).await;
                code.map(|code| request.destination().with_code(&code, issuer))
            }
            Self::Legacy(request) => {
                request
                    .issue_code(signed_in, account, store, random, now)
                    .await
            }
        };
        let location = issued.map_err(|error| match error {
            IssueError::SignInEnded => self.sign_in_ended(issuer),
            error => error.into(),
        })?;
        let entry = Entry::new(AuditAction::CodeIssued)
            .by_user(signed_in.user().username.as_str())
            .client(self.client().client_id.as_str())
            .detail(format!("account {} at {}", account.user_id, account.site));
        service.record(&origin::of(http), entry);
        Ok(location)
    }
}

/// A redirect that ends a GET.
pub(super) fn found(location: &str) -> HttpResponse {
    super::response::redirect(StatusCode::FOUND, location)
}
