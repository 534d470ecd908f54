//! Setting a password with a link: an operator's invitation, or a new start for a forgotten password. The page says nothing about
//! the account.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::failure::PageFailure;
use super::form::Form;
use super::problem::Problem;
use super::response;
use super::templates::{NewPasswordPage, PasswordSetPage};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::digest::Digest;
use domain::object::ObjectKind;
use domain::registry_index::NamedKind;
use domain::{AuditAction, ObjectName, RegistryChange, RegistryOutcome, User};
use protocol::oauth::parameters::Parameters;
use registry::apply::Plan;
use secrets::password_rules;
use secrets::protection::{AtRest, Protection as _};

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
    holder(&browser, link).await?;
    show(&browser, link, None)
}

/// `POST /auth/new-password`.
pub(super) async fn accept(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let browser = &form.of;
    let link = form.field(paths::LINK);
    let user = holder(browser, link).await?;
    let password = form.field("password").to_owned().into();
    if let Some(problem) = refusal(browser, &user, &password).await? {
        return show(browser, link, Some(problem));
    }
    let digest = Digest::of(link.as_bytes());
    let takes = |user: &User| user.takes(&digest, browser.context().now);
    match set(browser, &user, password, "with a link", takes).await? {
        Some(_) => Ok(is_set(browser)),
        None => Err(PageFailure::LinkOver),
    }
}

/// What is wrong with a password that `user` chooses.
pub(super) async fn refusal(
    browser: &Browser,
    user: &User,
    password: &Zeroizing<String>,
) -> Result<Option<Problem>, PageFailure> {
    let own = browser.service.store.second_factor(user.username.clone());
    let has_second_factor = user.totp_secret_sealed.is_some() || own.await?.is_some();
    let lengths = browser.service.config.passwords;
    let least = match has_second_factor {
        true => lengths.with_second_factor,
        false => lengths.alone,
    };
    let checked = password_rules::check(password, user, browser.service_name(), least);
    Ok(checked.err().map(Problem::PasswordWeak))
}

/// Sets the password of `user`, if `takes` says yes to the stored user. The same transaction ends the link, and what rests on the
/// password before. Returns the hash of the password. `how` is for the audit log.
pub(super) async fn set(
    browser: &Browser,
    user: &User,
    password: Zeroizing<String>,
    how: &'static str,
    takes: impl Fn(&User) -> bool,
) -> Result<Option<String>, PageFailure> {
    let service = &browser.service;
    let turn = tokio::time::timeout(LONGEST_WAIT, TURN.lock()).await;
    let _turn = turn.map_err(|_| PageFailure::Unavailable("many choose passwords".to_owned()))?;
    // Whoever had the turn before may have used the link.
    let known = service.store.user(user.username.clone()).await?;
    if !known.is_some_and(|user| takes(&user)) {
        return Ok(None);
    }
    let (hasher, username) = (service.clone(), user.username.clone());
    let hashed = move || AtRest(&hasher.encryption_key).hash(&username, &password);
    let hashed = tokio::task::spawn_blocking(hashed).await;
    let hash = hashed
        .map_err(|error| PageFailure::Internal(error.to_string()))?
        .map_err(|error| PageFailure::Unavailable(error.to_string()))?;
    let username = &user.username;
    let _registry = service.registry_turn().await;
    for _ in 0..MOST_PLANS {
        let name = ObjectName::new(ObjectKind::User, username.as_str());
        let stored = service.store.excerpt(vec![name]).await?;
        let before = stored.user(username).map(|user| &**user);
        let Some(before) = before.filter(|user| takes(user)) else {
            return Ok(None);
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
            return Ok(Some(hash));
        }
    }
    let reason = "the user keeps changing".to_owned();
    Err(PageFailure::Unavailable(reason))
}

/// The page after [`set`].
pub(super) fn is_set(browser: &Browser) -> HttpResponse {
    let page = PasswordSetPage {
        texts: browser.texts(),
        frame: browser.frame(),
    };
    response::page(StatusCode::OK, &page)
}

/// The user whom the link lets set a password.
async fn holder(browser: &Browser, link: &str) -> Result<User, PageFailure> {
    let (store, digest) = (&browser.service.store, Digest::of(link.as_bytes()));
    let values = vec![digest.to_base64url()];
    for (_, username) in store.users_with(NamedKind::PasswordLink, values).await? {
        let user = store.user(username).await?;
        if let Some(user) = user.filter(|user| user.takes(&digest, browser.context().now)) {
            return Ok(user);
        }
    }
    Err(PageFailure::LinkOver)
}

fn show(
    browser: &Browser,
    link: &str,
    problem: Option<Problem>,
) -> Result<HttpResponse, PageFailure> {
    page_with_token(browser, problem, |token| NewPasswordPage {
        texts: browser.texts(),
        frame: browser.frame(),
        csrf: token.text(),
        link,
        problem,
    })
}
