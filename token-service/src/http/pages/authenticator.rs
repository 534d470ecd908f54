//! Set-up of an authenticator app: QR code, first code, recovery codes.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use fast_qr::convert::svg::SvgBuilder;
use fast_qr::qr::QRBuilder;

use super::browser::Browser;
use super::failure::PageFailure;
use super::form::Form;
use super::notice::{self, Changed};
use super::problem::Problem;
use super::provider;
use super::purpose::{Admitted, Purpose};
use super::response;
use super::sign_in;
use super::templates::{AuthenticatorPage, RecoveryCodesPage};
use crate::telemetry::audit_log::Entry;
use domain::{AuditAction, AuditEvent, Username};
use protocol::oauth::authorize::Due;
use protocol::sign_in::again::PasswordRefusal;
use protocol::sign_in::authenticator::{self, Acceptance, Offer, SetUpOutcome, SetUpRefusal};
use protocol::sign_in::session::LiveSession;

/// Age up to which a sign-in at a provider takes the place of the password in the form: others may be using an unattended browser.
const JUST_NOW: Duration = Duration::from_mins(1);

/// `GET /auth/authenticator`.
pub(super) async fn offer(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let purpose = Purpose::Home(browser);
    match purpose.admit(Due::SetUpSecondFactor).await? {
        Some(admitted) => ask(&purpose, &admitted).await,
        None => Ok(purpose.go_on()),
    }
}

/// Where the person must have a second factor, the password of the sign-in counts for the set-up. Where an application asks for one, it
/// does not: somebody at an unattended browser could name such an application.
pub(super) async fn ask(
    purpose: &Purpose,
    admitted: &Admitted,
) -> Result<HttpResponse, PageFailure> {
    let (browser, live) = (purpose.browser(), &admitted.live);
    // People who sign in with a provider have no password here: a recent sign-in there takes its place.
    if let Some(response) =
        provider::again(purpose, &live.session, JUST_NOW, StatusCode::FOUND).await?
    {
        return Ok(response);
    }
    let rules = &browser.service.config.protocol.second_factor;
    let is_due_always = admitted.is_due && rules.require(&live.user, None);
    let counts = is_due_always || live.session.provider.is_some();
    let offer = authenticator::offer(&browser.context(), live, counts)?;
    show(purpose, admitted, &offer, None).await
}

/// `POST /auth/authenticator`.
pub(super) async fn accept(form: Form<Purpose>) -> Result<HttpResponse, PageFailure> {
    let (purpose, browser) = (&form.of, form.of.browser());
    let Some(admitted) = purpose.admit(Due::SetUpSecondFactor).await? else {
        return Ok(purpose.go_on());
    };
    let LiveSession { id, session, user } = &admitted.live;
    let recent = browser.service.config.protocol.lifetimes.recent_sign_in;
    if let Some(response) = provider::again(purpose, session, recent, StatusCode::SEE_OTHER).await?
    {
        return Ok(response);
    }
    let sealed = form.field("offer");
    let entry = Entry::new(AuditAction::SecondFactorSetUp).by_user(session.username.as_str());
    let events: Arc<[AuditEvent]> = [browser.event(entry)].into();
    let acceptance = Acceptance {
        sealed,
        notice: notice::of(browser, user, &Changed::SecondFactor),
        password: form.field("password").to_owned().into(),
        code: form.field("code"),
        audit: Arc::clone(&events),
    };
    let context = browser.context();
    match authenticator::accept(&context, &admitted.live, acceptance, &browser.place()).await? {
        SetUpOutcome::Done {
            begun,
            recovery_codes,
        } => {
            browser.service.recorded(&events);
            browser.service.owed.notify_one();
            let page = RecoveryCodesPage {
                texts: browser.texts(),
                frame: browser.frame(),
                username: begun.username.as_str(),
                is_set_up: true,
                codes: &recovery_codes,
                next: &purpose.continuation(),
            };
            let response = response::page(StatusCode::OK, &page);
            Ok(sign_in::goes_on(response, purpose, id, &begun))
        }
        SetUpOutcome::Refused { reason, offer } => {
            let problem = match reason {
                SetUpRefusal::Password(refusal) => refused(
                    browser,
                    &session.username,
                    refusal,
                    "setting up a second factor",
                ),
                SetUpRefusal::Code(refusal) => refusal.into(),
            };
            show(purpose, &admitted, &offer, Some(problem)).await
        }
        SetUpOutcome::NotOffered => Ok(purpose.go_on()),
    }
}

async fn show(
    purpose: &Purpose,
    admitted: &Admitted,
    offer: &Offer,
    problem: Option<Problem<'_>>,
) -> Result<HttpResponse, PageFailure> {
    let username = &admitted.live.session.username;
    let credentials = purpose
        .browser()
        .service
        .store
        .credentials(username.clone())
        .await?;
    let replaces = credentials.is_some_and(|known| known.totp_secret_sealed.is_some());
    let picture = QRBuilder::new(offer.url.as_str())
        .build()
        .map_err(|error| PageFailure::Internal(format!("no QR code: {error:?}")))?;
    purpose.show(problem, |flow| AuthenticatorPage {
        frame: flow.frame,
        is_due: admitted.is_due,
        username: username.as_str(),
        replaces,
        picture: SvgBuilder::default().to_str(&picture),
        url: &offer.url,
        secret: &offer.secret,
        offer: &offer.sealed,
        is_password_proven: offer.is_password_proven,
        flow,
        problem,
    })
}

/// Records that the password of a person who is signed in was refused before a change; what the page says.
pub(super) fn refused(
    browser: &Browser,
    username: &Username,
    refusal: PasswordRefusal,
    change: &'static str,
) -> Problem<'static> {
    let (action, problem) = match refusal {
        PasswordRefusal::Missing => return Problem::PasswordMissing,
        PasswordRefusal::Wrong => (AuditAction::SignInRefused, Problem::PasswordWrong),
        PasswordRefusal::Wait(wait) => (AuditAction::SignInThrottled, Problem::Wait(wait)),
    };
    let entry = Entry::new(action).by_user(username.as_str());
    browser.record(entry.detail(change));
    problem
}
