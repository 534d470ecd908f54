//! New recovery codes, for a person who is signed in with an authenticator app.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::authenticator::refused;
use super::browser::Browser;
use super::failure::PageFailure;
use super::form::Form;
use super::notice::{self, Changed};
use super::problem::Problem;
use super::provider;
use super::purpose::{Admitted, Purpose};
use super::response;
use super::templates::{NewRecoveryCodesPage, RecoveryCodesPage};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::{AuditAction, AuditEvent, Username};
use protocol::oauth::authorize::Due;
use protocol::sign_in::renewal::{self, Renewal, RenewalOutcome};
use protocol::sign_in::{self, CodeRefusal};

/// `GET /auth/recovery-codes`.
pub(super) async fn ask(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let purpose = Purpose::Home(browser);
    match admitted(&purpose, StatusCode::FOUND).await? {
        Ok(admitted) => show(&purpose, &admitted, None),
        Err(response) => Ok(response),
    }
}

/// `POST /auth/recovery-codes`.
pub(super) async fn accept(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let (password, code) = (
        form.field("password").to_owned().into(),
        form.field("code").to_owned(),
    );
    let purpose = Purpose::Home(form.of);
    let admitted = match admitted(&purpose, StatusCode::SEE_OTHER).await? {
        Ok(admitted) => admitted,
        Err(response) => return Ok(response),
    };
    let (browser, username) = (purpose.browser(), &admitted.live.session.username);
    let entry = Entry::new(AuditAction::RecoveryCodesMade).by_user(username.as_str());
    let events: Arc<[AuditEvent]> = [browser.event(entry)].into();
    let renewal = Renewal {
        notice: notice::of(browser, &admitted.live.user, &Changed::RecoveryCodes),
        password,
        code: &code,
        audit: Arc::clone(&events),
    };
    let (context, place) = (browser.context(), browser.place());
    let renewed = renewal::renew(&context, &admitted.live, renewal, &place);
    let problem = match renewed.await? {
        RenewalOutcome::Done(codes) => {
            browser.service.recorded(&events);
            browser.service.owed.notify_one();
            let page = RecoveryCodesPage {
                texts: browser.texts(),
                frame: browser.frame(),
                username: username.as_str(),
                is_set_up: false,
                codes: &codes,
                next: paths::HOME,
            };
            return Ok(response::page(StatusCode::OK, &page));
        }
        RenewalOutcome::Password(refusal) => {
            refused(browser, username, refusal, "making recovery codes")
        }
        RenewalOutcome::Code(refusal) => wrong_code(browser, username, refusal),
        RenewalOutcome::NotOffered => return Ok(purpose.go_on()),
    };
    show(&purpose, &admitted, Some(problem))
}

/// The person, if an app is set up and nothing is due; otherwise the way on. People who sign in with a provider have no password here: a
/// recent sign-in there takes its place.
async fn admitted(
    purpose: &Purpose,
    status: StatusCode,
) -> Result<Result<Admitted, HttpResponse>, PageFailure> {
    let browser = purpose.browser();
    let Some(admitted) = purpose.admit(Due::SetUpSecondFactor).await? else {
        return Ok(Err(purpose.go_on()));
    };
    let username = &admitted.live.session.username;
    let left = sign_in::recovery_codes_left(&browser.context(), username).await?;
    if left.is_none() {
        return Ok(Err(purpose.go_on()));
    }
    let recent = browser.service.config.protocol.lifetimes.recent_sign_in;
    Ok(
        match provider::again(purpose, &admitted.live.session, recent, status).await? {
            Some(response) => Err(response),
            None => Ok(admitted),
        },
    )
}

/// Records that a code was refused; what the page says.
fn wrong_code(browser: &Browser, username: &Username, refusal: CodeRefusal) -> Problem<'static> {
    let action = match refusal {
        CodeRefusal::Wrong | CodeRefusal::Used => AuditAction::SecondFactorRefused,
        CodeRefusal::Wait(_) => AuditAction::SignInThrottled,
    };
    let entry = Entry::new(action).by_user(username.as_str());
    browser.record(entry.detail("making recovery codes"));
    refusal.into()
}

fn show(
    purpose: &Purpose,
    admitted: &Admitted,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    purpose.show(problem, |flow| NewRecoveryCodesPage {
        frame: flow.frame,
        flow,
        username: admitted.live.session.username.as_str(),
        has_password: admitted.live.session.provider.is_none(),
        problem,
    })
}
