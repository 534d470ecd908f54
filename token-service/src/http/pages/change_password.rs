//! Another password, by the person who is signed in and knows the present one.

use actix_web::HttpResponse;

use super::authenticator::refused;
use super::browser::Browser;
use super::confirm;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::new_password::{self, Outcome};
use super::problem::Problem;
use super::purpose::{Admitted, Purpose};
use super::templates::ChangePasswordPage;
use domain::User;
use protocol::oauth::authorize::Due;
use protocol::sign_in::again;

/// `GET /auth/password`.
pub(super) async fn own(browser: Browser) -> Result<HttpResponse, PageFailure> {
    ask(&Purpose::Home(browser)).await
}

pub(super) async fn ask(purpose: &Purpose) -> Result<HttpResponse, PageFailure> {
    match purpose.admit(Due::NewPassword).await? {
        Some(Admitted { is_due, .. }) => show(purpose, is_due, None),
        None => Ok(purpose.go_on()),
    }
}

/// `POST /auth/password`. All sessions and grants of the person end. If the person had to set another password, the sign-in goes on
/// with a new session.
pub(super) async fn accept(form: Form<Purpose>) -> Result<HttpResponse, PageFailure> {
    let (purpose, browser) = (&form.of, form.of.browser());
    let Some(admitted) = purpose.admit(Due::NewPassword).await? else {
        return Ok(purpose.go_on());
    };
    let Admitted {
        id: from,
        session,
        is_due,
        ..
    } = admitted;
    let (username, version) = (&session.username, session.credentials_version);
    let present = form.field("password").to_owned().into();
    let checked = again::check(&browser.context(), &session, present, &browser.place()).await?;
    if let Err(refusal) = checked {
        let problem = refused(browser, username, refusal, "changing the password");
        return show(purpose, is_due, Some(problem));
    }
    let chosen = form.field("new_password").to_owned().into();
    let takes = |user: &User| user.still_has(version);
    let set = new_password::set(
        browser,
        username,
        chosen,
        "with the present password",
        takes,
    );
    let hash = match set.await? {
        Outcome::Set(hash) => hash,
        Outcome::Refused(problem) => return show(purpose, is_due, Some(problem)),
        Outcome::Over => return Ok(purpose.go_on()),
    };
    let (context, place) = (browser.context(), browser.place());
    let mut response = new_password::done(browser).await;
    if is_due {
        response = purpose.go_on();
        if let Some(id) = again::go_on(&context, &from, &session, &hash).await? {
            response = with_cookie(response, &browser.cookies.set_session(&id));
            if let Some(journey) = purpose.journey() {
                response = confirm::carry_over(response, journey, &from, &id);
            }
        }
    }
    // Others who guess the new password do not delay the person in this browser.
    let Some(user) = browser.service.store.user(username.clone()).await? else {
        return Ok(response);
    };
    let device = place.remember(&context, &user.username, user.credentials_version)?;
    Ok(browser.cookies.with_device(response, device.as_ref()))
}

fn show(
    purpose: &Purpose,
    is_due: bool,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    purpose.show(problem, |flow| ChangePasswordPage {
        frame: flow.frame,
        flow,
        is_due,
        problem,
    })
}
