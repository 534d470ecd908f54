//! Another password, by the person who is signed in and knows the present one.

use actix_web::HttpResponse;

use super::authenticator::{not_signed_in, refused};
use super::browser::Browser;
use super::browser_token::page_with_token;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::new_password;
use super::problem::Problem;
use super::templates::ChangePasswordPage;
use domain::{Session, User};
use protocol::sign_in::again;

/// `GET /auth/password`.
pub(super) async fn ask(browser: Browser) -> Result<HttpResponse, PageFailure> {
    match session(&browser).await? {
        Some(_) => show(&browser, None),
        None => Ok(not_signed_in()),
    }
}

/// `POST /auth/password`. All sessions and grants of the person end.
pub(super) async fn accept(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let browser = &form.of;
    let Some(session) = session(browser).await? else {
        return Ok(not_signed_in());
    };
    let (username, version) = (&session.username, session.credentials_version);
    let present = form.field("password").to_owned().into();
    let checked = again::check(&browser.context(), &session, present, &browser.place()).await?;
    if let Err(refusal) = checked {
        let problem = refused(browser, username, refusal, "changing the password");
        return show(browser, Some(problem));
    }
    let Some(user) = browser.service.store.user(username.clone()).await? else {
        return Ok(not_signed_in());
    };
    let chosen = form.field("new_password").to_owned().into();
    if let Some(problem) = new_password::refusal(browser, &user, &chosen).await? {
        return show(browser, Some(problem));
    }
    let takes = |user: &User| user.still_has(version);
    let done =
        new_password::set(browser, &user, chosen, "with the present password", takes).await?;
    let Some(done) = done else {
        return Ok(not_signed_in());
    };
    // Others who guess the new password do not delay the person in this browser.
    let Some(user) = browser.service.store.user(username.clone()).await? else {
        return Ok(done);
    };
    let (context, place) = (browser.context(), browser.place());
    let device = place.remember(&context, &user.username, user.credentials_version)?;
    Ok(match &device {
        Some(device) => with_cookie(done, &browser.cookies.set_devices(device)),
        None => done,
    })
}

/// The session of the person who is signed in with this browser.
async fn session(browser: &Browser) -> Result<Option<Session>, PageFailure> {
    Ok(match browser.session_id() {
        Some(id) => again::signed_in(&browser.context(), &id).await?,
        None => None,
    })
}

fn show(browser: &Browser, problem: Option<Problem>) -> Result<HttpResponse, PageFailure> {
    page_with_token(browser, problem, |token| ChangePasswordPage {
        texts: browser.texts(),
        frame: browser.frame(),
        csrf: token.text(),
        problem,
    })
}
