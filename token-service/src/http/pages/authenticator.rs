//! Set-up of an authenticator app: QR code, first code, recovery codes.

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use fast_qr::convert::svg::SvgBuilder;
use fast_qr::qr::QRBuilder;

use super::browser::Browser;
use super::browser_token::BrowserToken;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::response;
use super::templates::{AuthenticatorPage, Problem, RecoveryCodesPage};
use crate::audit_log::Entry;
use crate::http::paths;
use domain::AuditAction;
use protocol::sign_in::Place;
use protocol::sign_in::authenticator::{self, Acceptance, Offer, SetUpOutcome};

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
pub(super) async fn accept(form: Form) -> Result<HttpResponse, PageFailure> {
    let browser = &form.browser;
    let Some(id) = browser.session_id() else {
        return Ok(not_signed_in());
    };
    let sealed = form.field("offer");
    let acceptance = Acceptance {
        sealed,
        password: form.field("password").to_owned().into(),
        code: form.field("code"),
    };
    let context = browser.context();
    let devices = browser.cookies.devices(&browser.http);
    let place = Place {
        address: browser.address(),
        devices: &devices,
    };
    let problem = match authenticator::accept(&context, &id, acceptance, place).await? {
        SetUpOutcome::Done {
            id,
            username,
            recovery_codes,
            device,
        } => {
            let entry = Entry::new(AuditAction::SecondFactorSetUp).by_user(username.as_str());
            browser.record(entry);
            let page = RecoveryCodesPage {
                texts: browser.texts(),
                service: browser.service_name(),
                username: username.as_str(),
                codes: &recovery_codes,
            };
            let response = response::page(StatusCode::OK, &page, None);
            let response = with_cookie(response, &browser.cookies.set_session(&id));
            return Ok(match &device {
                Some(device) => with_cookie(response, &browser.cookies.set_devices(device)),
                None => response,
            });
        }
        SetUpOutcome::PasswordRefused(username) => {
            let entry = Entry::new(AuditAction::SignInRefused).by_user(username.as_str());
            browser.record(entry.detail("setting up a second factor"));
            Problem::PasswordWrong
        }
        SetUpOutcome::CodeWrong => Problem::CodeWrong,
        SetUpOutcome::CodeUsed => Problem::CodeUsed,
        SetUpOutcome::Wait(username, wait) => {
            let entry = Entry::new(AuditAction::SignInThrottled).by_user(username.as_str());
            let entry = entry.detail("setting up a second factor");
            browser.record(entry);
            Problem::Wait(wait)
        }
        SetUpOutcome::NotOffered => return Ok(not_signed_in()),
    };
    match authenticator::offered(&context, &id, sealed).await? {
        Some(offer) => show(browser, &offer, Some(problem)),
        None => Ok(not_signed_in()),
    }
}

fn show(
    browser: &Browser,
    offer: &Offer,
    problem: Option<Problem>,
) -> Result<HttpResponse, PageFailure> {
    let csrf = BrowserToken::of(browser)?;
    let picture = QRBuilder::new(offer.url.as_str())
        .build()
        .map_err(|error| PageFailure::Internal(format!("no QR code: {error:?}")))?;
    let page = AuthenticatorPage {
        texts: browser.texts(),
        service: browser.service_name(),
        picture: SvgBuilder::default().to_str(&picture),
        url: &offer.url,
        secret: &offer.secret,
        offer: &offer.sealed,
        csrf: csrf.text(),
        problem,
    };
    let status = problem.map_or(StatusCode::OK, Problem::status);
    let mut response = response::page(status, &page, None);
    if let Some(wait) = problem.and_then(Problem::wait) {
        let seconds = header::HeaderValue::from(wait.as_secs());
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    Ok(csrf.keep(response))
}

/// Redirects to the home page, which tells the user what to do.
fn not_signed_in() -> HttpResponse {
    response::redirect(StatusCode::SEE_OTHER, paths::HOME)
}
