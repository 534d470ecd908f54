//! A link by mail for a person who forgot the password. The answer, and the time that it takes, are the same for every name: the look-up
//! and the message follow in the background.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Data;

use super::browser::Browser;
use super::carried;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::{Carried as _, Form, REQUEST};
use super::frame::Frame;
use super::notice;
use super::problem::Problem;
use super::purpose::Purpose;
use super::templates::{ForgotPasswordPage, LinkAskedForPage};
use super::texts::Texts;
use crate::config::Mail;
use crate::http::{origin, paths};
use crate::mail::Mailer;
use crate::service::Service;
use crate::telemetry::audit_log::{Entry, Origin};
use domain::random::{self, RandomError};
use domain::{AuditAction, User, Username};
use protocol::oauth::parameters::Parameters;
use protocol::sign_in;
use protocol::sign_in::mailed_link::MailedLink;
use secrets::sealing::SealingError;
use store::StoreError;

/// Longest request that a cookie keeps, in bytes: browsers keep cookies of 4,096.
const MOST_KEPT: usize = 3_000;

/// `GET /auth/forgot-password`.
pub(super) async fn ask(browser: Browser) -> Result<HttpResponse, PageFailure> {
    mailer(&browser.service)?;
    let query = browser.http.query_string().to_owned();
    let parameters = Parameters::parse(query.as_bytes())?;
    let request = parameters.get(REQUEST).unwrap_or(paths::HOME);
    carried::keep(&browser.http, request);
    let purpose = Purpose::carried(browser, request).await?;
    show(&purpose, "", None)
}

/// `POST /auth/forgot-password`.
pub(super) async fn accept(form: Form<Purpose>) -> Result<HttpResponse, PageFailure> {
    let (purpose, browser) = (&form.of, form.of.browser());
    let (mailer, mail) = mailer(&browser.service)?;
    let (name, address) = (form.field("username"), browser.place().address);
    let wait = sign_in::ask_for_link(&browser.context(), name, address).await?;
    if let Some(wait) = wait {
        let entry = Entry::new(AuditAction::SignInThrottled);
        browser.record(entry.detail("links by mail"));
        return show(purpose, name, Some(Problem::Wait(wait)));
    }
    let asked = Asked {
        service: browser.service.clone(),
        name: clipped(name).to_owned(),
        texts: browser.texts(),
        asked: notice::Asked::of(browser),
        origin: origin::of(&browser.http),
    };
    // Later than the answers to the next requests: the work for a registered name would show in their time.
    let [wait] = random::bytes::<1>(&*browser.service.random)?;
    let wait = Duration::from_millis(u64::from(wait) * 4);
    let network = sign_in::widest_network(address);
    if !mailer.later(&network, wait, asked.answer()) {
        return Err(PageFailure::Unavailable("many messages wait".to_owned()));
    }
    // Without the name, which may be a password in the wrong field.
    browser.record(Entry::new(AuditAction::PasswordForgotten));
    let response = purpose.show(None, |flow| LinkAskedForPage {
        frame: flow.frame,
        flow,
        username: clipped(name),
        lifetime: mail.link_lifetime,
    })?;
    let request = purpose.journey().map(|journey| journey.continuation());
    Ok(match request.filter(|request| request.len() <= MOST_KEPT) {
        Some(request) => with_cookie(response, &browser.cookies.set_resume(request)),
        None => response,
    })
}

fn show(
    purpose: &Purpose,
    username: &str,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    purpose.show(problem, |flow| ForgotPasswordPage {
        frame: flow.frame,
        flow,
        username,
        problem,
    })
}

/// Without mail there is no such page.
fn mailer(service: &Service) -> Result<(&Mailer, &Mail), PageFailure> {
    let mailer = service.mailer.as_ref().zip(service.config.mail.as_ref());
    mailer.ok_or(PageFailure::NothingHere(None))
}

/// Longer than any username and any registered address. Nobody has the rest of a longer name.
const LONGEST_NAME: usize = 1_024;

/// What waits of a name that somebody typed.
fn clipped(name: &str) -> &str {
    match name.len() > LONGEST_NAME {
        true => "",
        false => name,
    }
}

/// A request for a link.
struct Asked {
    service: Data<Service>,
    /// The username as typed, or the e-mail address of a user of single sign-on.
    name: String,
    texts: &'static Texts,
    asked: notice::Asked,
    origin: Origin,
}

#[derive(Debug, thiserror::Error)]
enum AskedError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Sealing(#[from] SealingError),
}

impl Asked {
    async fn answer(self) {
        if let Err(error) = self.try_to_answer().await {
            tracing::error!(%error, "no link for a forgotten password could be made");
        }
    }

    async fn try_to_answer(&self) -> Result<(), AskedError> {
        let (Ok((mailer, mail)), Some(user)) = (mailer(&self.service), self.user().await?) else {
            return Ok(());
        };
        let Some((email, address)) = notice::address(&user) else {
            return Ok(());
        };
        let moment = self.service.moment();
        let context = self.service.context(&moment);
        let Some(counted) = sign_in::count_mailed_link(&context, email).await? else {
            let entry = Entry::new(AuditAction::SignInThrottled);
            let entry = entry.user(user.username.as_str());
            self.record(entry.detail("links by mail for one mailbox"));
            return Ok(());
        };
        let (texts, issuer) = (self.texts, context.settings.issuer.as_str());
        let has_password = user.password_hash.is_some();
        let (message, url) = if has_password {
            let link = MailedLink::new(&user, email, moment.now + mail.link_lifetime);
            let link: String = link.seal::<AskedError>(&context)?;
            let url = format!("{issuer}{}?{}={link}", paths::NEW_PASSWORD, paths::LINK);
            ((texts.link_subject, texts.link_message), url)
        } else {
            let message = (texts.no_password_subject, texts.no_password_message);
            (message, format!("{issuer}{}", paths::HOME))
        };
        let names: Vec<&str> = providers(&self.service, &user).collect();
        let (names, time) = (names.join(", "), texts.duration(mail.link_lifetime));
        let more = [("url", &*url), ("time", &time), ("provider", &names)];
        let frame = Frame::of(&self.service.config, texts);
        let (subject, text) = notice::letter(&frame, &user, message, &more, &self.asked);
        if !mailer.send(address, &subject, text).await {
            counted.take_back().await?;
        } else if has_password {
            let entry = Entry::new(AuditAction::PasswordLinkSent);
            self.record(entry.user(user.username.as_str()));
        }
        Ok(())
    }

    fn record(&self, entry: Entry) {
        self.service.record(&self.origin, entry);
    }

    /// The user who gets a message: an enabled one with a password, who gets a link, or with an identity at a provider. Others have
    /// not been invited yet.
    async fn user(&self) -> Result<Option<User>, StoreError> {
        let store = &self.service.store;
        let named = match Username::parse(&self.name) {
            Some(username) => store.user(username).await?,
            None => None,
        };
        let found = match named {
            Some(user) => Some(user),
            None => match store
                .single_sign_on_users(self.name.clone())
                .await?
                .as_slice()
            {
                [only] => store.user(only.clone()).await?,
                _ => None,
            },
        };
        Ok(found.filter(|user| {
            let signs_in =
                user.password_hash.is_some() || providers(&self.service, user).next().is_some();
            user.enabled && signs_in
        }))
    }
}

/// The names of the identity providers with which the user can sign in.
fn providers<'a>(service: &'a Service, user: &'a User) -> impl Iterator<Item = &'a str> {
    let providers = service.config.protocol.identity_providers.iter();
    let own = providers.filter(|provider| {
        let mut issuers = user.identities.iter().map(|linked| &linked.identity.issuer);
        provider.client_id.is_some() && issuers.any(|issuer| *issuer == provider.issuer)
    });
    own.map(|provider| &*provider.name)
}
