//! Setting a password with a link: an operator's invitation, or a new start for a forgotten password, from an operator or by mail. The
//! page names the user, because who has the link can set the password, and sign in with it.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use zeroize::Zeroizing;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::{Carried as _, Form};
use super::journey::Journey;
use super::notice::{self, Changed};
use super::problem::Problem;
use super::response;
use super::sign_in::{record, with_cookies};
use super::templates::{NewPasswordPage, PasswordRule, PasswordSetPage};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::object::ObjectKind;
use domain::registry_index::NamedKind;
use domain::{AuditAction, Credentials, ObjectName, SessionStage, User, Username};
use protocol::oauth::parameters::Parameters;
use protocol::sign_in::choice::{self, ChoiceOutcome};
use protocol::sign_in::mailed_link::MailedLink;
use protocol::sign_in::{self, SignInOutcome};
use registry::apply::Plan;
use registry::change::Edit;

/// `GET /auth/new-password`. Uses nothing up, because programs open the links of messages before people do.
pub(super) async fn ask(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let query = Parameters::parse_unrepeated(browser.http.query_string().as_bytes());
    let link = query.map(|(parameters, _)| parameters.into_owned()).ok();
    let link = link
        .as_ref()
        .and_then(|parameters| parameters.get(paths::LINK));
    let link = link.unwrap_or_default();
    let user = Link::read(&browser, link).holder(&browser).await?;
    show(&browser, link, &user, None).await
}

/// `POST /auth/new-password`.
pub(super) async fn accept(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let browser = &form.of;
    let link = form.field(paths::LINK);
    let read = Link::read(browser, link);
    let user = read.holder(browser).await?;
    let password = form.field("password").to_owned().into();
    let takes = |user: &User| read.is_for(user, browser.context().now);
    let hash = match set(browser, &user.username, password, read.way(), takes).await? {
        Outcome::Set(hash) => hash,
        Outcome::Refused(problem) => return show(browser, link, &user, Some(problem)).await,
        Outcome::Over => return Err(PageFailure::LinkOver),
    };
    let (context, place, replaces) = (browser.context(), browser.place(), browser.session_id());
    let username = &user.username;
    let begun = sign_in::with_new_password(&context, username, &hash, replaces.as_ref(), &place);
    let begun = begun.await;
    if let Ok(outcome) = &begun {
        record(browser, outcome, None);
    }
    // Whatever fails now, the password is set.
    let Ok(SignInOutcome::Begun(begun)) = begun else {
        return Ok(done(browser, username, None).await);
    };
    let response = done(browser, username, Some(begun.stage)).await;
    Ok(with_cookies(response, browser, &begun))
}

enum Link {
    /// An operator's, with the digest of its random bits.
    Made(Digest),
    Mailed(MailedLink),
}

impl Link {
    fn read(browser: &Browser, text: &str) -> Self {
        match MailedLink::open(&browser.context(), text) {
            Some(link) => Self::Mailed(link),
            None => Self::Made(Digest::of(text.as_bytes())),
        }
    }

    /// The user whom the link lets set a password.
    async fn holder(&self, browser: &Browser) -> Result<User, PageFailure> {
        let store = &browser.service.store;
        let names = match self {
            Self::Mailed(link) => vec![link.username.clone()],
            Self::Made(digest) => {
                let values = vec![digest.to_base64url()];
                let found = store.users_with(NamedKind::PasswordLink, values).await?;
                found.into_iter().map(|(_, username)| username).collect()
            }
        };
        for username in names {
            let user = store.user(username).await?;
            if let Some(user) = user.filter(|user| self.is_for(user, browser.context().now)) {
                return Ok(user);
            }
        }
        Err(PageFailure::LinkOver)
    }

    /// True if the link may set the password of `user`.
    fn is_for(&self, user: &User, now: Timestamp) -> bool {
        match self {
            Self::Made(digest) => user.takes(digest, now),
            Self::Mailed(link) => link.is_for(user, now),
        }
    }

    fn way(&self) -> Way {
        let (how, link) = match self {
            Self::Made(digest) => ("with a link", *digest),
            Self::Mailed(link) => ("with a link by mail", link.digest()),
        };
        Way {
            how,
            link: Some(link),
        }
    }
}

/// What lets a person set a password.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// For the audit log.
    pub(super) how: &'static str,
    /// The link; `None` with the present password.
    pub(super) link: Option<Digest>,
}

/// What became of a password that a person chose.
pub(super) enum Outcome {
    /// The hash of the password.
    Set(String),
    Refused(Problem<'static>),
    /// The person may not set it, or no longer.
    Over,
}

/// Sets the password of a user, if it keeps the rules, and `takes` says yes to the stored user. The same transaction ends the link, and
/// what rests on the password before.
pub(super) async fn set(
    browser: &Browser,
    username: &Username,
    password: Zeroizing<String>,
    way: Way,
    takes: impl Fn(&User) -> bool,
) -> Result<Outcome, PageFailure> {
    let service = &browser.service;
    let known = service.store.user(username.clone()).await?;
    let Some(known) = known.filter(|user| takes(user)) else {
        return Ok(Outcome::Over);
    };
    let least = least(browser, username).await?;
    let (context, place) = (browser.context(), browser.place());
    let chosen = choice::choose(&context, known, password, way.link, least, &place);
    let hash = match chosen.await? {
        ChoiceOutcome::Chosen(hash) => hash,
        ChoiceOutcome::Refused(weak) => {
            let entry = Entry::new(AuditAction::PasswordRefused).by_user(username.as_str());
            browser.record(entry.detail(format!("{}: {weak}", way.how)));
            return Ok(Outcome::Refused(Problem::PasswordWeak(weak)));
        }
        ChoiceOutcome::Wait(wait) => {
            let entry = Entry::new(AuditAction::SignInThrottled).by_user(username.as_str());
            browser.record(entry.detail("choosing a password"));
            return Ok(Outcome::Refused(Problem::Wait(wait)));
        }
    };
    let set = browser.change(async || {
        let name = ObjectName::new(ObjectKind::User, username.as_str());
        let stored = service.store.excerpt(vec![name]).await?;
        let before = stored.user(username).map(|user| &**user);
        let Some(before) = before.filter(|user| takes(user)) else {
            return Ok(Edit::nothing(Outcome::Over));
        };
        let mut plan = Plan::on(&stored);
        let user = User {
            password_hash: Some(hash.clone()),
            registered_password_digest: None,
            password_link: None,
            must_change_password: false,
            ..before.clone()
        };
        plan.put(user, Some(before));
        let changed = match could_sign_in(before) {
            true => Changed::Password,
            false => Changed::FirstPassword,
        };
        let entry = Entry::new(AuditAction::PasswordSet).by_user(username.as_str());
        let entry = entry.detail(way.how);
        let notice = notice::of(browser, before, &changed);
        plan.change.notices.extend(notice);
        let credentials = (username.clone(), before.credentials_version);
        plan.change.credentials.push(credentials);
        Ok(Edit::with(plan, [entry]).map(|_| Outcome::Set(hash.clone())))
    });
    set.await
}

/// True if a password of `user` ends what rests on earlier sign-ins.
const fn could_sign_in(user: &User) -> bool {
    user.password_hash.is_some() || !user.identities.is_empty()
}

/// Characters that a password of this user needs.
async fn least(browser: &Browser, username: &Username) -> Result<usize, PageFailure> {
    let credentials = browser.service.store.credentials(username.clone()).await?;
    let lengths = browser.service.config.passwords;
    let has_second_factor = |known: Credentials| known.totp_secret_sealed.is_some();
    Ok(match credentials.is_some_and(has_second_factor) {
        true => lengths.with_second_factor,
        false => lengths.alone,
    })
}

/// What a page says of the password that this user chooses.
pub(super) async fn rule(
    browser: &Browser,
    username: &Username,
) -> Result<PasswordRule, PageFailure> {
    let least = least(browser, username).await?;
    Ok(PasswordRule::new(browser.texts(), least))
}

/// The page after [`set`], from which the person goes on with the request in which this browser asked for a link. `stage`: how far the
/// person is signed in with the new password.
pub(super) async fn done(
    browser: &Browser,
    username: &Username,
    stage: Option<SessionStage>,
) -> HttpResponse {
    let kept = browser.cookies.resume(&browser.http).unwrap_or_default();
    let journey = Journey::carried(Browser::of(&browser.http, &browser.service), kept).await;
    let page = PasswordSetPage {
        texts: browser.texts(),
        frame: browser.frame(),
        username: username.as_str(),
        stage,
        next: &match journey {
            Ok(journey) => journey.continuation(),
            Err(_) => paths::HOME.to_owned(),
        },
    };
    let response = response::page(StatusCode::OK, &page);
    with_cookie(response, &browser.cookies.remove_resume())
}

async fn show(
    browser: &Browser,
    link: &str,
    user: &User,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    let rule = rule(browser, &user.username).await?;
    page_with_token(browser, problem, |token| NewPasswordPage {
        texts: browser.texts(),
        frame: browser.frame(),
        csrf: token.text(),
        link,
        username: user.username.as_str(),
        could_sign_in: could_sign_in(user),
        rule,
        problem,
    })
}
