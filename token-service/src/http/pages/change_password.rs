//! Another password, by the person who is signed in and knows the present one.

use actix_web::HttpResponse;

use super::authenticator::refused;
use super::confirm;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::new_password::{self, Outcome, Way};
use super::problem::Problem;
use super::purpose::{Admitted, Purpose};
use super::templates::{ChangePasswordPage, StepView};
use crate::http::paths;
use domain::{SessionStage, User, Username};
use protocol::oauth::authorize::Due;
use protocol::sign_in::again;

pub(super) async fn ask(purpose: &Purpose) -> Result<HttpResponse, PageFailure> {
    match purpose.admit(Due::NewPassword).await? {
        Some(Admitted {
            is_due, session, ..
        }) => show(purpose, is_due, &session.username, None).await,
        None => Ok(purpose.go_on()),
    }
}

/// `POST /auth/password`. All sessions and grants of the person end. The sign-in of this browser goes on with a new session.
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
        return show(purpose, is_due, username, Some(problem)).await;
    }
    let chosen = form.field("new_password").to_owned().into();
    let takes = |user: &User| user.still_has(version);
    let way = Way {
        how: "with the present password",
        link: None,
    };
    let set = new_password::set(browser, username, chosen, way, takes);
    let hash = match set.await? {
        Outcome::Set(hash) => hash,
        Outcome::Refused(problem) => return show(purpose, is_due, username, Some(problem)).await,
        Outcome::Over => return Ok(purpose.go_on()),
    };
    let (context, place) = (browser.context(), browser.place());
    // Whatever fails now, the password is set.
    let begun = again::go_on(&context, &from, &session, &hash).await;
    let begun = begun.unwrap_or_default();
    let stage = begun.as_ref().map(|_| SessionStage::SignedIn);
    let mut response = match is_due {
        true => purpose.go_on(),
        false => new_password::done(browser, username, stage).await,
    };
    if let Some(id) = begun {
        response = with_cookie(response, &browser.cookies.set_session(&id));
        if let Some(journey) = purpose.journey() {
            response = confirm::carry_over(response, journey, &from, &id);
        }
    }
    // Others who guess the new password do not delay the person in this browser.
    let Some(user) = browser.service.store.user(username.clone()).await? else {
        return Ok(response);
    };
    let device = place.remember(&context, &user.username, user.credentials_version)?;
    Ok(browser.cookies.with_device(response, device.as_ref()))
}

async fn show(
    purpose: &Purpose,
    is_due: bool,
    username: &Username,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    let rule = new_password::rule(purpose.browser(), username).await?;
    purpose.show(problem, |flow| ChangePasswordPage {
        frame: flow.frame,
        // After it, nothing leads to this page again.
        flow: match purpose {
            Purpose::Password(_) => StepView {
                request: paths::HOME.to_owned(),
                ..flow
            },
            _ => flow,
        },
        is_due,
        username: username.as_str(),
        rule,
        problem,
    })
}
