//! A link by mail for a person who forgot the password. The answer, and the time that it takes, are the same for every name: the look-up
//! and the message follow in the background.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Data;
use lettre::Address;

use super::browser::Browser;
use super::carried;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::{Carried as _, Form, REQUEST};
use super::frame::Frame;
use super::problem::Problem;
use super::purpose::Purpose;
use super::templates::{ForgotPasswordPage, LinkAskedForPage};
use super::texts::{self, Texts};
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
    let (_, mail) = mailer(&browser.service)?;
    let (name, address) = (form.field("username"), browser.place().address);
    let wait = sign_in::ask_for_link(&browser.context(), name, address).await?;
    if let Some(wait) = wait {
        let entry = Entry::new(AuditAction::SignInThrottled);
        browser.record(entry.detail("links by mail"));
        return show(purpose, name, Some(Problem::Wait(wait)));
    }
    // Without the name, which may be a password in the wrong field.
    browser.record(Entry::new(AuditAction::PasswordForgotten));
    let asked = Asked {
        service: browser.service.clone(),
        name: name.to_owned(),
        texts: browser.texts(),
        origin: origin::of(&browser.http),
    };
    later(&browser.service, asked.answer())?;
    let response = purpose.show(None, |flow| LinkAskedForPage {
        frame: flow.frame,
        flow,
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

fn later(
    service: &Service,
    task: impl Future<Output = ()> + Send + 'static,
) -> Result<(), PageFailure> {
    let (mailer, _) = mailer(service)?;
    match mailer.later(task) {
        true => Ok(()),
        false => Err(PageFailure::Unavailable("many messages wait".to_owned())),
    }
}

/// A request for a link.
struct Asked {
    service: Data<Service>,
    /// The username as typed, or the e-mail address of a user of single sign-on.
    name: String,
    texts: &'static Texts,
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
    #[expect(clippy::disallowed_methods, reason = "the wait is the purpose")]
    async fn answer(self) {
        // Not beside the answers to those who ask next: the work for a registered name would show in their time.
        if let Ok([wait]) = random::bytes::<1>(&*self.service.random) {
            tokio::time::sleep(Duration::from_millis(u64::from(wait) * 4)).await;
        }
        if let Err(error) = self.try_to_answer().await {
            tracing::error!(%error, "no link for a forgotten password could be made");
        }
    }

    async fn try_to_answer(&self) -> Result<(), AskedError> {
        let (Ok((mailer, mail)), Some(user)) = (mailer(&self.service), self.user().await?) else {
            return Ok(());
        };
        let Some((email, address)) = address(&user) else {
            return Ok(());
        };
        let moment = self.service.moment();
        let context = self.service.context(&moment);
        if !sign_in::may_get_link(&context, email).await? {
            return Ok(());
        }
        let link = MailedLink::new(&user, email, moment.now + mail.link_lifetime);
        let link: String = link.seal::<AskedError>(&context)?;
        let issuer = context.settings.issuer.as_str();
        let url = format!("{issuer}{}?{}={link}", paths::NEW_PASSWORD, paths::LINK);
        let time = self.texts.duration(mail.link_lifetime);
        let more = [("url", url.as_str()), ("time", &time)];
        let (subject, message) = (self.texts.link_subject, self.texts.link_message);
        let frame = Frame::of(&self.service.config, self.texts);
        let (subject, message) = letter(&frame, &user, subject, message, &more);
        if mailer.send(address, &subject, message).await {
            let entry = Entry::new(AuditAction::PasswordLinkSent);
            let entry = entry.user(user.username.as_str());
            self.service.record(&self.origin, entry);
        }
        Ok(())
    }

    /// The user who gets a link: an enabled one with a password. Who has none signs in otherwise, or has not been invited yet.
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
        Ok(found.filter(|user| user.enabled && user.password_hash.is_some()))
    }
}

/// The address of a user, as registered and as the mail server takes it.
fn address(user: &User) -> Option<(&str, Address)> {
    let email = user.email.as_deref()?;
    Some((email, email.parse().ok()?))
}

/// Subject and text of a message to `user`, with the values that every message may name, and `more`.
fn letter(
    frame: &Frame<'_>,
    user: &User,
    subject: &str,
    message: &str,
    more: &[(&str, &str)],
) -> (String, String) {
    let values = [
        ("service", frame.service),
        ("username", user.username.as_str()),
        ("host", frame.host),
    ];
    let values = [&values[..], more].concat();
    (
        texts::plain(subject, &values),
        texts::plain(message, &values),
    )
}

/// What changed, of which a message tells the person.
pub(super) enum Changed {
    Password,
    /// An authenticator app was set up.
    SecondFactor,
}

/// Tells `user` by mail, in the background, what was changed.
pub(super) fn tell_of_change(browser: &Browser, user: &User, changed: Changed) {
    let (Ok(_), Some((_, address))) = (mailer(&browser.service), address(user)) else {
        return;
    };
    let texts = browser.texts();
    let (subject, message) = match changed {
        Changed::Password => (texts.changed_subject, texts.changed_message),
        Changed::SecondFactor => (texts.set_up_subject, texts.set_up_message),
    };
    let (subject, message) = letter(&browser.frame(), user, subject, message, &[]);
    let service = browser.service.clone();
    // If the queue is full, the password is changed all the same.
    let _ = later(&browser.service, async move {
        if let Ok((mailer, _)) = mailer(&service) {
            mailer.send(address, &subject, message).await;
        }
    });
}
