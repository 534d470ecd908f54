//! Setting a password with a link: an operator's invitation, or a new start for a forgotten password, from an operator or by mail. The
//! page says nothing about the account.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::forgot_password::{self, Changed};
use super::form::{Carried as _, Form};
use super::journey::Journey;
use super::problem::Problem;
use super::response;
use super::templates::{NewPasswordPage, PasswordSetPage};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::object::ObjectKind;
use domain::registry_index::NamedKind;
use domain::{AuditAction, ObjectName, RegistryChange, RegistryOutcome, User, Username};
use protocol::oauth::parameters::Parameters;
use protocol::sign_in::mailed_link::MailedLink;
use registry::apply::Plan;
use secrets::password_rules;
use secrets::protection::{AtRest, Protection as _, ProtectionError};

/// Chosen passwords are hashed one after the other, outside the places of those who sign in: however often a link is sent at once,
/// it costs one hash.
static TURN: Mutex<()> = Mutex::const_new(());

/// Longest wait for this turn.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How often a change is planned again because others overtake it.
const MOST_PLANS: usize = 10;

/// `GET /auth/new-password`. Uses nothing up, because programs open the links of messages before people do.
pub(super) async fn ask(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let query = Parameters::parse_unrepeated(browser.http.query_string().as_bytes());
    let link = query.map(|(parameters, _)| parameters.into_owned()).ok();
    let link = link
        .as_ref()
        .and_then(|parameters| parameters.get(paths::LINK));
    let link = link.unwrap_or_default();
    Link::read(&browser, link).holder(&browser).await?;
    show(&browser, link, None)
}

/// `POST /auth/new-password`.
pub(super) async fn accept(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let browser = &form.of;
    let link = form.field(paths::LINK);
    let read = Link::read(browser, link);
    let username = read.holder(browser).await?.username;
    let password = form.field("password").to_owned().into();
    let takes = |user: &User| read.is_for(user, browser.context().now);
    match set(browser, &username, password, read.how(), takes).await? {
        Outcome::Set(_) => Ok(done(browser).await),
        Outcome::Refused(problem) => show(browser, link, Some(problem)),
        Outcome::Over => Err(PageFailure::LinkOver),
    }
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

    /// For the audit log.
    const fn how(&self) -> &'static str {
        match self {
            Self::Made(_) => "with a link",
            Self::Mailed(_) => "with a link by mail",
        }
    }
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
/// what rests on the password before. `how` is for the audit log.
pub(super) async fn set(
    browser: &Browser,
    username: &Username,
    password: Zeroizing<String>,
    how: &'static str,
    takes: impl Fn(&User) -> bool,
) -> Result<Outcome, PageFailure> {
    let service = &browser.service;
    let turn = tokio::time::timeout(LONGEST_WAIT, TURN.lock()).await;
    let _turn = turn.map_err(|_| PageFailure::Unavailable("many choose passwords".to_owned()))?;
    // Whoever had the turn before may have used the link.
    let known = service.store.user(username.clone()).await?;
    let Some(known) = known.filter(|user| takes(user)) else {
        return Ok(Outcome::Over);
    };
    let own = service.store.second_factor(username.clone()).await?;
    let lengths = service.config.passwords;
    let least = match known.totp_secret_sealed.is_some() || own.is_some() {
        true => lengths.with_second_factor,
        false => lengths.alone,
    };
    let name = browser.frame().service.to_owned();
    let hasher = service.clone();
    let hashed = move || -> Result<Result<String, Problem<'static>>, ProtectionError> {
        if let Err(weak) = password_rules::check(&password, &known, &name, least) {
            return Ok(Err(Problem::PasswordWeak(weak)));
        }
        let at_rest = AtRest(&hasher.encryption_key);
        if let Some(present) = &known.password_hash
            && at_rest.is_hash_of(present, &password)?
        {
            return Ok(Err(Problem::PasswordUnchanged));
        }
        at_rest.hash(&known.username, &password).map(Ok)
    };
    let hashed = tokio::task::spawn_blocking(hashed).await;
    let hash = match hashed
        .map_err(|error| PageFailure::Internal(error.to_string()))?
        .map_err(|error| PageFailure::Unavailable(error.to_string()))?
    {
        Ok(hash) => hash,
        Err(problem) => return Ok(Outcome::Refused(problem)),
    };
    let _registry = service.registry_turn().await;
    for _ in 0..MOST_PLANS {
        let name = ObjectName::new(ObjectKind::User, username.as_str());
        let stored = service.store.excerpt(vec![name]).await?;
        let before = stored.user(username).map(|user| &**user);
        let Some(before) = before.filter(|user| takes(user)) else {
            return Ok(Outcome::Over);
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
        let entry = Entry::new(AuditAction::PasswordSet).by_user(username.as_str());
        let entry = entry.detail(how);
        let change = RegistryChange {
            audit: [browser.event(entry)].into(),
            credentials: vec![(username.clone(), before.credentials_version)],
            ..plan.change
        };
        if service.change_registry(change).await? == RegistryOutcome::Changed {
            forgot_password::tell_of_change(browser, before, Changed::Password);
            return Ok(Outcome::Set(hash));
        }
    }
    let reason = "the user keeps changing".to_owned();
    Err(PageFailure::Unavailable(reason))
}

/// The page after [`set`], from which the person goes on with the request in which this browser asked for a link.
pub(super) async fn done(browser: &Browser) -> HttpResponse {
    let kept = browser.cookies.resume(&browser.http).unwrap_or_default();
    let journey = Journey::carried(Browser::of(&browser.http, &browser.service), kept).await;
    let page = PasswordSetPage {
        texts: browser.texts(),
        frame: browser.frame(),
        next: &match journey {
            Ok(journey) => journey.continuation(),
            Err(_) => paths::HOME.to_owned(),
        },
    };
    let response = response::page(StatusCode::OK, &page);
    with_cookie(response, &browser.cookies.remove_resume())
}

fn show(
    browser: &Browser,
    link: &str,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    page_with_token(browser, problem, |token| NewPasswordPage {
        texts: browser.texts(),
        frame: browser.frame(),
        csrf: token.text(),
        link,
        problem,
    })
}
