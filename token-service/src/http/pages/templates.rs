//! The pages' data. The texts are in `templates/`.

use std::borrow::Cow;
use std::time::Duration;

use askama::Template;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use url::form_urlencoded::{self, Serializer};

use super::super::paths;
use super::browser::Browser;
use super::browser_token::BrowserToken;
use super::destination::in_words;
use super::ending::Ending;
use super::form;
use super::frame::Frame;
use super::journey::Journey;
use super::offer::Offer;
use super::own::{Application, Applications, OwnIdentity, OwnSession};
use super::problem::Problem;
use super::texts::{self, Texts};
use crate::branding::Asset;
use domain::{LinkedAccount, SessionStage, UnfinishedSignIns};

/// The query of the home page that asks for another user while the second factor is missing.
pub(super) const OTHER_USER: &str = "prompt=login";

/// The common data of all pages of a sign-in and of the steps after it.
pub(super) struct StepView<'a> {
    pub texts: &'static Texts,
    pub frame: Frame<'a>,
    /// The logo of the application.
    pub logo: Option<&'a Asset>,
    /// The application, or this service if the person signs in on the home page.
    pub client: &'a str,
    /// The target of the redirect, in words; `None` on the home page.
    pub destination: Option<String>,
    /// The request's path and query, for the hidden field.
    pub request: String,
    pub csrf: String,
    /// True if the browser has sent no cookie yet, so that it may accept none.
    pub is_first: bool,
    /// The redirect URI with the error for a cancelled sign-in.
    pub cancel: Option<String>,
    pub other_user: Option<String>,
    /// The e-mail address by which the request names the user.
    pub expected_user: Option<&'a str>,
    /// True if the person can ask for a link by mail.
    pub has_mail: bool,
    /// True if the person is signed in, but has to prove it before a change.
    pub again: bool,
    /// What the application may do, in words.
    pub may: Vec<String>,
}

impl<'a> StepView<'a> {
    pub(super) fn of_journey(journey: &'a Journey, token: &BrowserToken) -> Self {
        let texts = journey.browser.texts();
        Self {
            texts,
            frame: journey.browser.frame(),
            logo: journey.client_logo(),
            client: &journey.request.client().name,
            destination: Some(in_words(
                journey.request.redirect_uri().as_str(),
                journey.request.client(),
                texts,
            )),
            request: journey.continuation(),
            csrf: token.text(),
            is_first: token.is_new(),
            cancel: Some(journey.cancel()),
            other_user: journey.other_user(),
            expected_user: journey
                .request
                .expected_user()
                .map(|user| user.email.as_str()),
            has_mail: journey.browser.service.mailer.is_some(),
            again: false,
            may: journey.may(),
        }
    }

    pub(super) fn of_home(browser: &'a Browser, token: &BrowserToken) -> Self {
        let frame = browser.frame();
        Self {
            texts: browser.texts(),
            frame,
            logo: None,
            client: frame.service,
            destination: None,
            request: paths::HOME.to_owned(),
            csrf: token.text(),
            is_first: token.is_new(),
            cancel: None,
            other_user: Some(format!("{}?{OTHER_USER}", paths::HOME)),
            expected_user: None,
            has_mail: browser.service.mailer.is_some(),
            again: false,
            may: Vec::new(),
        }
    }

    pub(super) fn of_end(browser: &'a Browser, token: &BrowserToken, ending: &Ending) -> Self {
        Self {
            request: ending.address(),
            again: true,
            ..Self::of_home(browser, token)
        }
    }

    /// The text on the button of a provider, as HTML.
    fn sign_in_with(&self, provider: &str) -> String {
        texts::isolated(self.texts.sign_in_with, &[("provider", provider)])
    }

    /// Where the person asks for a link by mail.
    fn forgot_password(&self) -> String {
        let request = percent_encode(self.request.as_bytes(), NON_ALPHANUMERIC);
        format!("{}?{}={request}", paths::FORGOT_PASSWORD, form::REQUEST)
    }

    /// By which a browser keeps a new password of this user: as on the page that asks for the password.
    fn account<'b>(&'b self, username: &'b str) -> &'b str {
        self.expected_user.unwrap_or(username)
    }

    fn destination(&self) -> &str {
        self.destination.as_deref().unwrap_or_default()
    }

    /// A text with the values of this request, as HTML.
    fn html(&self, text: &str) -> String {
        texts::html(
            text,
            &[("client", self.client), ("destination", self.destination())],
        )
    }

    /// Like [`Self::html`], without emphasis.
    fn isolated(&self, text: &str) -> String {
        texts::isolated(text, &[("client", self.client)])
    }

    /// Like [`Self::html`], without markup.
    fn plain(&self, text: &str) -> String {
        texts::plain(text, &[("client", self.client)])
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    pub username: &'a str,
    pub problem: Option<Problem<'a>>,
    pub offer: Offer<'a>,
}

impl SignInPage<'_> {
    /// Where people with such a username sign in, as HTML.
    fn company(&self) -> Option<String> {
        let (provider, domain) = self.offer.company?;
        let values = [("domain", domain), ("provider", &provider.name)];
        Some(texts::html(self.flow.texts.company_signs_in, &values))
    }

    /// True if the problem is in the fields, and not at a provider.
    fn is_invalid(&self) -> bool {
        self.problem.is_some_and(Problem::concerns_password)
    }
}

/// A person who forgot the password asks for a link by mail.
#[derive(Template)]
#[template(path = "forgot_password.html")]
pub(super) struct ForgotPasswordPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    pub username: &'a str,
    pub problem: Option<Problem<'a>>,
}

/// The answer, which is the same whatever the person typed.
#[derive(Template)]
#[template(path = "link_asked_for.html")]
pub(super) struct LinkAskedForPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    /// As typed.
    pub username: &'a str,
    pub lifetime: Duration,
}

impl LinkAskedForPage<'_> {
    /// What the person typed, so that a slip of the fingers is seen.
    fn name(&self) -> Option<String> {
        let values = [("username", self.username)];
        let text = self.flow.texts.link_asked_for_name;
        (!self.username.is_empty()).then(|| texts::html(text, &values))
    }

    fn why(&self) -> String {
        let time = self.flow.texts.duration(self.lifetime);
        texts::plain(self.flow.texts.link_asked_for_why, &[("time", &time)])
    }
}

#[derive(Template)]
#[template(path = "second_factor.html")]
pub(super) struct SecondFactorPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    /// True if the person sent the form for recovery codes, which then stays open.
    pub recovery_code: bool,
    pub problem: Option<Problem<'a>>,
}

/// The number of recovery codes that are left after a sign-in with a recovery code.
#[derive(Template)]
#[template(path = "recovery_code_used.html")]
pub(super) struct RecoveryCodeUsedPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    pub left: usize,
}

/// Somebody gave the right password without the second factor since the person's last sign-in.
#[derive(Template)]
#[template(path = "password_alone.html")]
pub(super) struct PasswordAlonePage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    pub unfinished: &'a UnfinishedSignIns,
    /// After a sign-in with a recovery code.
    pub recovery_codes_left: Option<usize>,
}

impl PasswordAlonePage<'_> {
    /// The listed ones, newest first.
    fn list(&self) -> Vec<String> {
        let texts = self.flow.texts;
        let listed = self.unfinished.newest.iter().rev().map(|one| {
            let at = texts.moment(one.at);
            let network = match one.network.as_str() {
                "" => texts.unknown_network,
                network => network,
            };
            let entry = texts.password_alone_entry.replace("{time}", &at.html());
            texts::html(&entry, &[("network", network)])
        });
        listed.collect()
    }

    fn earlier(&self) -> Option<String> {
        let count = self.unfinished.earlier.to_string();
        let text = self.flow.texts.password_alone_earlier;
        (self.unfinished.earlier > 0).then(|| texts::plain(text, &[("count", &count)]))
    }

    fn codes_left(&self) -> Option<String> {
        let left = self.recovery_codes_left;
        left.map(|left| self.flow.texts.codes_left(left))
    }

    fn advice(&self) -> String {
        let values = [("service", self.frame.service)];
        texts::html(self.flow.texts.password_alone_advice, &values)
    }
}

/// The question whether a client on the person's device may use the only linked account (D-34).
#[derive(Template)]
#[template(path = "confirm.html")]
pub(super) struct ConfirmPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    pub username: &'a str,
    pub account: &'a LinkedAccount,
    /// The site of the account in words.
    pub site: &'a str,
}

impl ConfirmPage<'_> {
    fn title(&self) -> String {
        texts::plain(self.flow.texts.confirm, &self.names())
    }

    fn heading(&self) -> String {
        texts::isolated(self.flow.texts.confirm, &self.names())
    }

    const fn names(&self) -> [(&'static str, &str); 2] {
        [("username", self.username), ("client", self.flow.client)]
    }

    fn why(&self) -> String {
        let values = [
            ("client", self.flow.client),
            ("account", &self.account.username),
            ("site", self.site),
            ("destination", self.flow.destination()),
        ];
        texts::html(self.flow.texts.confirm_why, &values)
    }
}

/// An identity provider has signed in a person to whom no user is linked.
#[derive(Template)]
#[template(path = "not_linked.html")]
pub(super) struct NotLinkedPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    /// The name of the provider.
    pub provider: &'a str,
    /// Under which the operator finds the identity in the log.
    pub request_id: String,
    pub time: String,
}

impl NotLinkedPage<'_> {
    fn why(&self) -> String {
        let values = [
            ("provider", self.provider),
            ("service", self.frame.service),
            ("request", &self.request_id),
        ];
        // Exact, because operators look for it.
        let time = format!("<time>{}</time>", self.time);
        let text = self.flow.texts.not_linked_why.replace("{time}", &time);
        texts::html(&text, &values)
    }
}

/// The person has no linked account (D-7).
#[derive(Template)]
#[template(path = "no_account.html")]
pub(super) struct NoAccountPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    pub username: &'a str,
    /// The redirect URI with the error.
    pub return_to: String,
}

impl NoAccountPage<'_> {
    fn why(&self) -> String {
        let values = [("username", self.username), ("client", self.flow.client)];
        texts::html(self.flow.texts.no_account_why, &values)
    }
}

#[derive(Template)]
#[template(path = "select_account.html")]
pub(super) struct SelectAccountPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    pub username: &'a str,
    pub accounts: Vec<OfferedAccount<'a>>,
    /// Number of all linked accounts.
    pub linked: usize,
    /// The filter as the person typed it; empty for none.
    pub filter: &'a str,
}

pub(super) struct OfferedAccount<'a> {
    pub account: &'a LinkedAccount,
    /// The site in words.
    pub label: &'a str,
}

/// Number of accounts from which the page has a filter: more than a phone shows at once.
const FILTER_FROM: usize = 8;

impl SelectAccountPage<'_> {
    const fn has_filter(&self) -> bool {
        self.linked >= FILTER_FROM
    }

    /// How many accounts the filter leaves; `None` without a filter.
    fn shown(&self) -> Option<String> {
        let (shown, linked) = (self.accounts.len().to_string(), self.linked.to_string());
        let values = [("shown", shown.as_str()), ("linked", linked.as_str())];
        let text = self.flow.texts.accounts_shown;
        (!self.filter.is_empty()).then(|| texts::plain(text, &values))
    }

    fn why(&self) -> String {
        let values = [
            ("username", self.username),
            ("client", self.flow.client),
            ("destination", self.flow.destination()),
        ];
        texts::html(self.flow.texts.choose_account_why, &values)
    }
}

#[derive(Template)]
#[template(path = "home.html")]
pub(super) struct HomePage<'a> {
    pub texts: &'static Texts,
    pub frame: Frame<'a>,
    pub csrf: String,
    pub username: &'a str,
    /// Name of the identity provider at which the person stays signed in.
    pub at_provider: Option<&'a str>,
    pub applications: Applications,
    pub sessions: Vec<OwnSession>,
    pub identities: Vec<OwnIdentity>,
    pub has_password: bool,
    pub second_factor: bool,
    /// Number of unused recovery codes, if the user set up the authenticator app.
    pub recovery_codes_left: Option<usize>,
}

/// Number of entries up to which a list shows the details of all.
const FEW: usize = 4;

impl HomePage<'_> {
    const fn shows_all(&self, entries: usize) -> bool {
        entries <= FEW
    }

    /// The address of the page that ends the access of `application`.
    fn end(&self, application: &Application) -> String {
        Ending::Application(application.client_id.clone()).address()
    }

    fn others(&self) -> Option<String> {
        let others = self.sessions.iter().any(|session| !session.is_own);
        others.then(|| Ending::OtherSessions.address())
    }

    /// The address of the next page of applications.
    fn more(&self) -> Option<String> {
        let next = self.applications.next.as_ref()?;
        let mut query = Serializer::new(String::new());
        let query = query.append_pair(paths::FROM, next.as_str()).finish();
        Some(format!("{}?{query}", paths::HOME))
    }

    fn bound(&self) -> String {
        texts::isolated_list(self.texts.bound_applications, &self.applications.bound)
    }

    fn codes_left(&self) -> Option<String> {
        let left = self.recovery_codes_left?;
        Some(self.texts.codes_left(left))
    }
}

/// The question whether something shall end.
#[derive(Template)]
#[template(path = "end.html")]
pub(super) struct EndPage<'a> {
    pub texts: &'static Texts,
    pub frame: Frame<'a>,
    pub csrf: String,
    pub field: (&'static str, String),
    pub ending: &'a Ending,
    /// The application, the browser or the identity provider; empty for all other browsers.
    pub what: String,
    pub has_password: bool,
}

impl EndPage<'_> {
    fn title(&self) -> &'static str {
        match self.ending {
            Ending::Application(_) => self.texts.end_access,
            Ending::Session(_) => self.texts.end_session,
            Ending::OtherSessions => self.texts.end_other_sessions,
            Ending::Identity(_) => self.texts.unlink,
        }
    }

    fn why(&self) -> String {
        let text = match self.ending {
            Ending::Application(_) => self.texts.end_access_why,
            Ending::Session(_) => self.texts.end_session_why,
            Ending::OtherSessions => self.texts.end_other_sessions_why,
            Ending::Identity(_) => self.texts.unlink_why,
        };
        texts::html(text, &[("what", &self.what)])
    }

    /// What the person should do too.
    const fn advice(&self) -> Option<&'static str> {
        match (self.ending, self.has_password) {
            (Ending::Session(_), true) => Some(self.texts.browser_unknown),
            (Ending::Session(_), false) => Some(self.texts.browser_unknown_no_password),
            (Ending::OtherSessions, true) => Some(self.texts.password_known),
            _ => None,
        }
    }
}

/// Something has ended.
#[derive(Template)]
#[template(path = "ended.html")]
pub(super) struct EndedPage<'a> {
    pub texts: &'static Texts,
    pub frame: Frame<'a>,
    pub ending: &'a Ending,
    pub what: String,
}

impl EndedPage<'_> {
    const fn title(&self) -> &'static str {
        match self.ending {
            Ending::Application(_) => self.texts.access_has_ended,
            Ending::Session(_) => self.texts.session_has_ended,
            Ending::OtherSessions => self.texts.other_sessions_have_ended,
            Ending::Identity(_) => self.texts.has_been_unlinked,
        }
    }

    fn why(&self) -> String {
        let text = match self.ending {
            Ending::Application(_) => self.texts.access_ended,
            Ending::Session(_) => self.texts.session_ended,
            Ending::OtherSessions => self.texts.other_sessions_ended,
            Ending::Identity(_) => self.texts.unlinked,
        };
        texts::html(text, &[("what", &self.what)])
    }
}

/// The offer of a secret for an authenticator app.
#[derive(Template)]
#[template(path = "authenticator.html")]
pub(super) struct AuthenticatorPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    /// True if the person must set up a second factor to go on.
    pub is_due: bool,
    pub username: &'a str,
    /// True if the app takes the place of another one.
    pub replaces: bool,
    /// QR code as SVG.
    pub picture: String,
    /// The `otpauth` URL of the QR code.
    pub url: &'a str,
    /// BASE32.
    pub secret: &'a str,
    pub offer: &'a str,
    /// True if the form does not ask for the password.
    pub is_password_proven: bool,
    pub problem: Option<Problem<'a>>,
}

impl AuthenticatorPage<'_> {
    const fn title(&self) -> &'static str {
        match self.replaces {
            true => self.flow.texts.replace_app,
            false => self.flow.texts.set_up_app,
        }
    }

    fn code_problem(&self) -> Option<Problem<'_>> {
        self.problem.filter(|problem| !problem.concerns_password())
    }

    fn password_problem(&self) -> Option<Problem<'_>> {
        self.problem.filter(|problem| problem.concerns_password())
    }

    /// The secret in groups of eight characters, for easier copying. Its 32 letters make four groups, which fit in one
    /// or two lines.
    fn groups(&self) -> Vec<&str> {
        self.secret
            .as_bytes()
            .chunks(8)
            .filter_map(|group| std::str::from_utf8(group).ok())
            .collect()
    }
}

/// What a chosen password needs.
pub(super) struct PasswordRule {
    /// Characters, at least.
    least: usize,
    text: String,
}

impl PasswordRule {
    pub(super) fn new(texts: &Texts, least: usize) -> Self {
        let values = [("least", &*least.to_string())];
        let text = texts::plain(texts.password_rule, &values);
        Self { least, text }
    }
}

/// A person chooses a password, with a link.
#[derive(Template)]
#[template(path = "new_password.html")]
pub(super) struct NewPasswordPage<'a> {
    pub texts: &'static Texts,
    pub frame: Frame<'a>,
    pub csrf: String,
    /// Random bits of the link, as the person's browser sent them.
    pub link: &'a str,
    pub username: &'a str,
    /// True if the password changes what rests on earlier sign-ins.
    pub could_sign_in: bool,
    pub rule: PasswordRule,
    pub problem: Option<Problem<'a>>,
}

/// A person who is signed in changes the password.
#[derive(Template)]
#[template(path = "change_password.html")]
pub(super) struct ChangePasswordPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    /// True if the person must set another password to go on.
    pub is_due: bool,
    pub username: &'a str,
    pub rule: PasswordRule,
    pub problem: Option<Problem<'a>>,
}

impl ChangePasswordPage<'_> {
    fn new_problem(&self) -> Option<Problem<'_>> {
        self.problem
            .filter(|problem| matches!(problem, Problem::PasswordWeak(_)))
    }

    fn present_problem(&self) -> Option<Problem<'_>> {
        self.problem.filter(|_| self.new_problem().is_none())
    }
}

/// The password is set.
#[derive(Template)]
#[template(path = "password_set.html")]
pub(super) struct PasswordSetPage<'a> {
    pub texts: &'static Texts,
    pub frame: Frame<'a>,
    pub username: &'a str,
    /// How far the person is signed in with the new password.
    pub stage: Option<SessionStage>,
    /// URL of the next step.
    pub next: &'a str,
}

impl PasswordSetPage<'_> {
    fn why(&self) -> String {
        let text = match self.stage {
            Some(SessionStage::SignedIn) => self.texts.password_set_signed_in,
            Some(SessionStage::SecondFactorOwed) => self.texts.password_set_code,
            None => self.texts.password_set_why,
        };
        texts::html(text, &[("username", self.username)])
    }

    const fn button(&self) -> &'static str {
        match self.stage {
            Some(_) => self.texts.go_on,
            None => self.texts.sign_in,
        }
    }

    fn fields(&self) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        fields(self.next)
    }
}

/// The query of the next step. A form replaces the query of its `action`.
fn fields(next: &str) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let query = next.split_once('?').map_or("", |(_, query)| query);
    form_urlencoded::parse(query.as_bytes()).collect()
}

/// The new recovery codes, which pages show only once.
#[derive(Template)]
#[template(path = "recovery_codes.html")]
pub(super) struct RecoveryCodesPage<'a> {
    pub texts: &'static Texts,
    pub frame: Frame<'a>,
    pub username: &'a str,
    /// True after the set-up of an app, which stays with new codes.
    pub is_set_up: bool,
    pub codes: &'a [String],
    /// URL of the next step.
    pub next: &'a str,
}

impl RecoveryCodesPage<'_> {
    const fn why(&self) -> &'static str {
        match self.is_set_up {
            true => self.texts.app_is_set_up,
            false => self.texts.earlier_codes_ended,
        }
    }

    fn fields(&self) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        fields(self.next)
    }

    /// A text file as a data URL in the download link, so that the codes are not sent a second time and no script is
    /// needed.
    fn file(&self) -> String {
        let values = [("service", self.frame.service), ("username", self.username)];
        let mut text = texts::plain(self.texts.recovery_codes_of, &values);
        text.push_str("\r\n\r\n");
        for code in self.codes {
            text.push_str(code);
            text.push_str("\r\n");
        }
        let text = percent_encode(text.as_bytes(), NON_ALPHANUMERIC);
        format!("data:text/plain;charset=utf-8,{text}")
    }
}

/// A person asks for new recovery codes.
#[derive(Template)]
#[template(path = "new_recovery_codes.html")]
pub(super) struct NewRecoveryCodesPage<'a> {
    pub frame: Frame<'a>,
    pub flow: StepView<'a>,
    pub username: &'a str,
    pub has_password: bool,
    pub problem: Option<Problem<'a>>,
}

impl NewRecoveryCodesPage<'_> {
    fn code_problem(&self) -> Option<Problem<'_>> {
        let concerns_code =
            |problem: &Problem<'_>| !self.has_password || !problem.concerns_password();
        self.problem.filter(concerns_code)
    }

    fn password_problem(&self) -> Option<Problem<'_>> {
        self.problem.filter(|_| self.code_problem().is_none())
    }
}

#[derive(Template)]
#[template(path = "error.html")]
pub(super) struct ErrorPage<'a> {
    pub texts: &'static Texts,
    pub frame: Frame<'a>,
    pub problem: &'static str,
    pub advice: &'static str,
    pub details: Option<Cow<'static, str>>,
    /// The redirect URI as sent, if it is not registered.
    pub received: Option<String>,
    /// Id by which operators find the request in the log.
    pub request_id: Option<String>,
    /// RFC 3339.
    pub time: String,
    /// The client's name, or its Client ID as sent.
    pub client: Option<String>,
    /// The redirect URI with the error for a cancelled sign-in; the client's home page if there is none to trust.
    pub back: Option<String>,
}

impl ErrorPage<'_> {
    fn return_to(&self) -> String {
        let client = self.client.as_deref().unwrap_or_default();
        texts::plain(self.texts.return_to, &[("client", client)])
    }

    fn home(&self) -> String {
        texts::plain(self.texts.to_home, &[("service", self.frame.service)])
    }
}
