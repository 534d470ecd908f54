//! A request for an authorization code, of any flow. Every page and form passes on its path and query, and every step
//! validates the whole request again.

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse};
use futures_util::future::LocalBoxFuture;

use super::browser::Browser;
use super::carried;
use super::failure::PageFailure;
use super::form::Carried;
use super::response;
use crate::branding::Asset;
use crate::http::origin;
use crate::service::Service;
use crate::telemetry::audit_log::Entry;
use domain::clock::Timestamp;
use domain::{AuditAction, LinkedAccount};
use protocol::flow::{BeginError, Flow};
use protocol::flows;
use protocol::identity_provider::IdentityProvider;
use protocol::oauth::authorize::{
    ClientConfirmation, CodeRequest, Goal, IssueError, Prompt, RedirectError, SignedIn, issue_code,
};

pub(super) struct Journey {
    pub(super) browser: Browser,
    flow: &'static dyn Flow,
    pub(super) request: Box<dyn CodeRequest>,
}

/// Reads the request from the URL, at the start of the journey.
impl FromRequest for Journey {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self, Error>>;

    fn from_request(http: &HttpRequest, _: &mut Payload) -> Self::Future {
        let service = Data::<Service>::extract(http).into_inner();
        let http = http.clone();
        Box::pin(async move {
            let browser = Browser::of(&http, &service?);
            let (path, query) = (http.path(), http.query_string());
            Ok(Self::begin(browser, path, query, StatusCode::FOUND).await?)
        })
    }
}

/// Reads path and query from a form field.
impl Carried for Journey {
    async fn carried(browser: Browser, request: &str) -> Result<Self, PageFailure> {
        let (path, query) = request.split_once('?').unwrap_or((request, ""));
        Self::begin(browser, path, query, StatusCode::SEE_OTHER).await
    }
}

/// The status of a redirect to the client's redirect URI: `status`, where the flow does not say which.
fn at_client(flow: &dyn Flow, status: StatusCode) -> StatusCode {
    match flow.redirects_with_302() {
        true => StatusCode::FOUND,
        false => status,
    }
}

impl Journey {
    /// `status` is the status of a redirect with an error, where the flow does not say which.
    async fn begin(
        browser: Browser,
        path: &str,
        query: &str,
        status: StatusCode,
    ) -> Result<Self, PageFailure> {
        let flow = flows::begun_at(path);
        let context = browser.context();
        let host = origin::host(&browser.http);
        let begun = flow.begin(&context, query.as_bytes(), host);
        let request = begun.await.map_err(|error| match error {
            BeginError::Unsafe(reason) => PageFailure::Request(reason),
            BeginError::Redirect(location) => {
                PageFailure::ErrorAtClient(at_client(flow, status), location)
            }
            BeginError::WrongHost(words) => PageFailure::WrongHost(words),
            BeginError::Store(error) => error.into(),
            BeginError::Failed(error) => error.into(),
        })?;
        let journey = Self {
            browser,
            flow,
            request,
        };
        if journey.request.is_pushed() {
            // For the language of the page, which the query of the first visit does not contain.
            carried::keep(&journey.browser.http, &journey.continuation());
        }
        Ok(journey)
    }

    pub(super) fn client_logo(&self) -> Option<&Asset> {
        let logos = &self.browser.service.config.branding.client_logos;
        logos.get(self.request.client().client_id.as_str())
    }

    /// What the client may do with a code of this request, in words.
    pub(super) fn may(&self) -> Vec<String> {
        let scope = self.request.scope();
        let texts = self.browser.scope_in_words(&scope);
        texts.into_iter().map(str::to_owned).collect()
    }

    /// URL of the next step, which forms contain.
    pub(super) fn continuation(&self) -> String {
        self.at(self.request.continuation())
    }

    /// URL that asks for the credentials again although a session is live.
    fn sign_in_again(&self) -> String {
        self.at(&self.request.sign_in_again())
    }

    fn at(&self, query: &str) -> String {
        format!("{}?{query}", self.flow.begins_at())
    }

    /// URL that asks for the credentials of another user; `None` if the request accepts only one user.
    pub(super) fn other_user(&self) -> Option<String> {
        match self.request.expected_user() {
            Some(_) => None,
            None => Some(self.sign_in_again()),
        }
    }

    /// The failure for a sign-in that ended before the service issued a code.
    fn sign_in_ended(&self) -> PageFailure {
        match self.request.prompt() {
            Prompt::Never => {
                let location = self.error_address(&RedirectError::LoginRequired);
                PageFailure::ErrorAtClient(StatusCode::FOUND, location)
            }
            Prompt::WhenNeeded | Prompt::Login => PageFailure::SignInEnded(self.sign_in_again()),
        }
    }

    /// The redirect URI with the error for a cancelled sign-in.
    pub(super) fn cancel(&self) -> String {
        self.error_address(&RedirectError::Cancelled)
    }

    /// True if the request asks for the credentials although a session may be live.
    pub(super) fn asks_again(&self) -> bool {
        self.request.prompt() == Prompt::Login
    }

    /// See [`CodeRequest::oldest_sign_in`].
    pub(super) fn oldest_sign_in(&self) -> Option<Timestamp> {
        let now = self.browser.context().now;
        match self.request.prompt() {
            Prompt::Login => Some(now),
            Prompt::WhenNeeded | Prompt::Never => self.request.oldest_sign_in(now),
        }
    }

    /// The provider to which the person is sent without a page: the only one of the application, or that of the e-mail address in the
    /// request.
    pub(super) fn provider_at_once<'a>(
        &self,
        mut offered: impl Iterator<Item = &'a IdentityProvider>,
    ) -> Option<&'a IdentityProvider> {
        if let [only] = self.request.client().identity_providers.as_slice() {
            return offered.find(|provider| provider.issuer == *only);
        }
        let expected = self.request.expected_user().map(|user| user.email.as_str());
        let email = expected.or(self.request.login_hint())?;
        offered.find(|provider| provider.has_email(email))
    }

    pub(super) fn goal(&self, confirmation: ClientConfirmation) -> Goal<'_> {
        Goal::Code(&*self.request, confirmation)
    }

    /// The live sign-in of the browser, if the request accepts it. While a page was open, the session may have ended or become
    /// too old, or another user may have signed in. The form may contain another request than the page had.
    pub(super) async fn signed_in(&self) -> Result<Option<SignedIn>, PageFailure> {
        let live = self.browser.live_session().await?;
        let goal = self.goal(ClientConfirmation::Given);
        Ok(self.browser.next_step(goal, live).signed_in())
    }

    pub(super) fn error_address(&self, error: &RedirectError) -> String {
        self.request.with_error(error, self.browser.issuer())
    }

    /// Redirects the browser from a form to `location`, the redirect URI with a code.
    pub(super) fn redirect(&self, location: &str) -> HttpResponse {
        response::redirect(at_client(self.flow, StatusCode::SEE_OTHER), location)
    }

    /// Redirects the browser to the request, which decides the next step again.
    pub(super) fn go_on(&self) -> HttpResponse {
        response::redirect(StatusCode::SEE_OTHER, &self.continuation())
    }

    /// Issues a code and returns the redirect URI with the code.
    pub(super) async fn issue(
        &self,
        signed_in: &SignedIn,
        account: &LinkedAccount,
    ) -> Result<String, PageFailure> {
        let context = self.browser.context();
        let issued = issue_code(&*self.request, &context, signed_in, account).await;
        let location = issued.map_err(|error| match error {
            IssueError::SignInEnded => self.sign_in_ended(),
            IssueError::RequestUsed => {
                let location = self.error_address(&RedirectError::RequestUriUsed);
                PageFailure::ErrorAtClient(StatusCode::SEE_OTHER, location)
            }
            error => error.into(),
        })?;
        let entry = Entry::new(AuditAction::CodeIssued)
            .by_user(signed_in.user().username.as_str())
            .client(self.request.client().client_id.as_str())
            .detail(format!("account {} at {}", account.user_id, account.site));
        self.browser.record(entry);
        Ok(location)
    }
}
