//! Setting up an authenticator app: a picture to scan, the first code, and the recovery codes.

use actix_web::http::{StatusCode, header};
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use fast_qr::convert::svg::SvgBuilder;
use fast_qr::qr::QRBuilder;

use super::super::{origin, paths};
use super::browser_token::BrowserToken;
use super::cookies::{Cookies, with_cookie};
use super::failure::PageFailure;
use super::templates::{AuthenticatorPage, Problem, RecoveryCodesPage};
use super::texts::Texts;
use super::{form, response};
use crate::audit_log::Entry;
use crate::service::Service;
use domain::AuditAction;
use protocol::sign_in::Place;
use protocol::sign_in::authenticator::{self, Acceptance, Offer, SetUpOutcome};

/// `GET /auth/authenticator`.
pub(super) async fn offer(
    http: HttpRequest,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let moment = service.moment();
    let context = moment.context();
    let offer = match Cookies::of(&service.config.protocol.issuer).session(&http) {
        Some(id) => authenticator::offer(&context, &id).await?,
        None => None,
    };
    match offer {
        Some(offer) => show(&http, &service, &offer, None),
        None => Ok(not_signed_in()),
    }
}

/// `POST /auth/authenticator`.
pub(super) async fn accept(
    http: HttpRequest,
    payload: Payload,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let cookies = Cookies::of(&service.config.protocol.issuer);
    let body = form::read(&http, payload).await?;
    let fields = form::fields(&body, &http, cookies)?;
    let Some(id) = cookies.session(&http) else {
        return Ok(not_signed_in());
    };
    let sealed = fields.get("offer").unwrap_or_default();
    let acceptance = Acceptance {
        sealed,
        password: fields.get("password").unwrap_or_default().to_owned().into(),
        code: fields.get("code").unwrap_or_default(),
    };
    let moment = service.moment();
    let context = moment.context();
    let devices = cookies.devices(&http);
    let place = Place {
        address: origin::address(&http),
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
            service.record(&origin::of(&http), entry);
            let page = RecoveryCodesPage {
                texts: Texts::of(&http),
                service: &service.config.protocol.name,
                username: username.as_str(),
                codes: &recovery_codes,
            };
            let response = response::page(StatusCode::OK, &page, None);
            let response = with_cookie(response, &cookies.set_session(&id));
            return Ok(match &device {
                Some(device) => with_cookie(response, &cookies.set_devices(device)),
                None => response,
            });
        }
        SetUpOutcome::PasswordRefused(username) => {
            let entry = Entry::new(AuditAction::SignInRefused).by_user(username.as_str());
            service.record(
                &origin::of(&http),
                entry.detail("setting up a second factor"),
            );
            Problem::PasswordWrong
        }
        SetUpOutcome::CodeWrong => Problem::CodeWrong,
        SetUpOutcome::CodeUsed => Problem::CodeUsed,
        SetUpOutcome::Wait(username, wait) => {
            let entry = Entry::new(AuditAction::SignInThrottled).by_user(username.as_str());
            let entry = entry.detail("setting up a second factor");
            service.record(&origin::of(&http), entry);
            Problem::Wait(wait)
        }
        SetUpOutcome::NotOffered => return Ok(not_signed_in()),
    };
    match authenticator::offered(&context, &id, sealed).await? {
        Some(offer) => show(&http, &service, &offer, Some(problem)),
        None => Ok(not_signed_in()),
    }
}

fn show(
    http: &HttpRequest,
    service: &Service,
    offer: &Offer,
    problem: Option<Problem>,
) -> Result<HttpResponse, PageFailure> {
    let csrf = BrowserToken::of(http, service)?;
    let picture = QRBuilder::new(offer.url.as_str())
        .build()
        .map_err(|error| PageFailure::Internal(format!("no QR code: {error:?}")))?;
    let page = AuthenticatorPage {
        texts: Texts::of(http),
        service: &service.config.protocol.name,
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

/// The page there says what to do.
fn not_signed_in() -> HttpResponse {
    response::redirect(StatusCode::SEE_OTHER, paths::HOME)
}
