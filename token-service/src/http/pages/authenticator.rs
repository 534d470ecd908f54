//! Set-up of an authenticator app: QR code, first code, recovery codes.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use fast_qr::convert::svg::SvgBuilder;
use fast_qr::qr::QRBuilder;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::problem::Problem;
use super::response;
use super::templates::{AuthenticatorPage, RecoveryCodesPage};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::{AuditAction, AuditEvent, Username};
use protocol::sign_in::again::PasswordRefusal;
use protocol::sign_in::authenticator::{self, Acceptance, Offer, SetUpOutcome, SetUpRefusal};

/// `GET /auth/authenticator`.
pub(super) async fn offer(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let offer = match browser.session_id() {
        Some(id) => authenticator::offer(&browser.context(), &id).await?,
        None => None,
    };
    match offer {
        Some(offer) => show(&browser, &offer, None),
        None => Ok(not_signed_in()),
    }
}

/// `POST /auth/authenticator`.
pub(super) async fn accept(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let browser = &form.of;
    let Some((id, session)) = browser.session().await? else {
        return Ok(not_signed_in());
    };
    let sealed = form.field("offer");
    let entry = Entry::new(AuditAction::SecondFactorSetUp).by_user(session.username.as_str());
    let events: Arc<[AuditEvent]> = [browser.event(entry)].into();
    let acceptance = Acceptance {
        sealed,
        password: form.field("password").to_owned().into(),
        code: form.field("code"),
        audit: Arc::clone(&events),
    };
    let context = browser.context();
    match authenticator::accept(&context, &id, acceptance, &browser.place()).await? {
        SetUpOutcome::Done {
            id,
            username,
            recovery_codes,
            device,
        } => {
            browser.service.recorded(&events);
            let page = RecoveryCodesPage {
                texts: browser.texts(),
                frame: browser.frame(),
                username: username.as_str(),
                codes: &recovery_codes,
            };
            let response = response::page(StatusCode::OK, &page);
            let response = with_cookie(response, &browser.cookies.set_session(&id));
            Ok(match &device {
                Some(device) => with_cookie(response, &browser.cookies.set_devices(device)),
                None => response,
            })
        }
        SetUpOutcome::Refused {
            username,
            reason,
            offer,
        } => {
            let problem = match reason {
                SetUpRefusal::Password(refusal) => {
                    refused(browser, &username, refusal, "setting up a second factor")
                }
                SetUpRefusal::CodeWrong => Problem::CodeWrong,
                SetUpRefusal::CodeUsed => Problem::CodeUsed,
            };
            show(browser, &offer, Some(problem))
        }
        SetUpOutcome::NotOffered => Ok(not_signed_in()),
    }
}

fn show(
    browser: &Browser,
    offer: &Offer,
    problem: Option<Problem>,
) -> Result<HttpResponse, PageFailure> {
    let picture = QRBuilder::new(offer.url.as_str())
        .build()
        .map_err(|error| PageFailure::Internal(format!("no QR code: {error:?}")))?;
    page_with_token(browser, problem, |token| AuthenticatorPage {
        texts: browser.texts(),
        frame: browser.frame(),
        picture: SvgBuilder::default().to_str(&picture),
        url: &offer.url,
        secret: &offer.secret,
        offer: &offer.sealed,
        is_password_proven: offer.is_password_proven,
        csrf: token.text(),
        problem,
    })
}

/// Redirects to the home page, which asks for username and password.
pub(super) fn not_signed_in() -> HttpResponse {
    response::redirect(StatusCode::SEE_OTHER, paths::HOME)
}

/// Records that the password of a person who is signed in was refused before a change; what the page says.
pub(super) fn refused(
    browser: &Browser,
    username: &Username,
    refusal: PasswordRefusal,
    change: &'static str,
) -> Problem {
    let (action, problem) = match refusal {
        PasswordRefusal::Missing => return Problem::PasswordMissing,
        PasswordRefusal::Wrong => (AuditAction::SignInRefused, Problem::PasswordWrong),
        PasswordRefusal::Wait(wait) => (AuditAction::SignInThrottled, Problem::Wait(wait)),
    };
    let entry = Entry::new(action).by_user(username.as_str());
    browser.record(entry.detail(change));
    problem
}
