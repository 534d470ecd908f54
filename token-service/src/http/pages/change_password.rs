//! Another password, by the person who is signed in and knows the present one.

use actix_web::HttpResponse;

use super::authenticator::refused;
use super::failure::PageFailure;
use super::form::Form;
use super::new_password::{self, Outcome, Way};
use super::problem::Problem;
use super::purpose::{Admitted, Purpose};
use super::sign_in;
use super::templates::{ChangePasswordPage, StepView};
use crate::http::paths;
use domain::{User, Username};
use protocol::oauth::authorize::Due;
use protocol::sign_in::again;

/// `POST /auth/password`. All sessions and grants of the person end. The sign-in of this browser goes on with a new session.
pub(super) async fn accept(form: Form<Purpose>) -> Result<HttpResponse, PageFailure> {
    let (purpose, browser) = (&form.of, form.of.browser());
    let Some(admitted) = purpose.admit(Due::NewPassword).await? else {
        return Ok(purpose.go_on());
    };
    let Admitted { live, is_due } = admitted;
    let session = &live.session;
    let (username, version) = (&session.username, session.credentials_version);
    let present = form.field("password").to_owned().into();
    let checked = again::check(&browser.context(), session, present, &browser.place()).await?;
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
    let begun = again::go_on(&context, &live, &hash, &place);
    let begun = begun.await.unwrap_or_default();
    let response = match is_due {
        true => purpose.go_on(),
        false => {
            let stage = begun.as_ref().map(|begun| begun.stage);
            new_password::done(browser, username, stage).await
        }
    };
    Ok(match begun {
        Some(begun) => sign_in::goes_on(response, purpose, &live.id, &begun),
        None => response,
    })
}

/// `is_due`: the person must choose another password first.
pub(super) async fn show(
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
