//! The forms that prove who the person is: password and one-time code.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::super::origin;
use super::authorize::show;
use super::cookies::{Cookies, with_cookie};
use super::failure::PageFailure;
use super::journey::Journey;
use super::templates::{Flow, Problem, SecondFactorPage, SignInPage};
use super::{confirm, form, response};
use crate::audit_log::Entry;
use crate::service::Service;
use domain::{AuditAction, SessionStage, Username};
use protocol::sign_in::device::DeviceCookie;
use protocol::sign_in::{self, PasswordOutcome, Place, SecondFactorOutcome, SessionId};

/// `POST /auth/sign-in`.
pub(super) async fn password(
    http: HttpRequest,
    payload: Payload,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let cookies = Cookies::of(&service.config.protocol.issuer);
    let body = form::read(&http, payload).await?;
    let fields = form::fields(&body, &http, cookies)?;
    let journey = form::journey(&fields, &http, &service, &service.registry())?;
    // Where the request names the person, nobody else can sign in, whatever the form says.
    let username = match journey.expected_user() {
        Some(expected) => expected.username.as_str(),
        None => fields.get("username").unwrap_or_default(),
    };
    let password = fields.get("password").unwrap_or_default().to_owned().into();
    let replaces = cookies.session(&http);
    let moment = service.moment();
    let context = moment.context();
    let devices = cookies.devices(&http);
    let place = Place {
        address: origin::address(&http),
        devices: &devices,
    };
    let outcome =
        sign_in::with_password(&context, username, password, replaces.as_ref(), place).await?;
    record(&service, &http, username, &outcome);
    let problem = match outcome {
        PasswordOutcome::Begun { id, device, .. } => {
            return Ok(go_on(&http, &service, &journey, &id, device.as_ref()));
        }
        PasswordOutcome::Refused => Problem::PasswordRefused,
        PasswordOutcome::Wait(wait) => Problem::Wait(wait),
    };
    again(&http, &service, &journey, problem, |flow, problem| {
        SignInPage {
            flow,
            username,
            problem,
        }
    })
}

/// `POST /auth/second-factor`.
pub(super) async fn second_factor(
    http: HttpRequest,
    payload: Payload,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let cookies = Cookies::of(&service.config.protocol.issuer);
    let body = form::read(&http, payload).await?;
    let fields = form::fields(&body, &http, cookies)?;
    let journey = form::journey(&fields, &http, &service, &service.registry())?;
    let code = fields.get("code").unwrap_or_default();
    let moment = service.moment();
    let context = moment.context();
    let devices = cookies.devices(&http);
    let place = Place {
        address: origin::address(&http),
        devices: &devices,
    };
    let outcome = match cookies.session(&http) {
        Some(id) => sign_in::with_second_factor(&context, &id, code, place).await?,
        None => SecondFactorOutcome::NotOwed,
    };
    let problem = match outcome {
        SecondFactorOutcome::SignedIn {
            id,
            username,
            by_recovery_code,
            device,
        } => {
            let entry = Entry::new(AuditAction::SignIn).by_user(username.as_str());
            let how = if by_recovery_code {
                "password, recovery code"
            } else {
                "password, one-time code"
            };
            service.record(&origin::of(&http), entry.detail(how));
            return Ok(go_on(&http, &service, &journey, &id, device.as_ref()));
        }
        // Signed in by now, or the time for it is over: the authorization endpoint knows what is next.
        SecondFactorOutcome::NotOwed => {
            return Ok(response::redirect(
                StatusCode::SEE_OTHER,
                &journey.continuation(),
            ));
        }
        SecondFactorOutcome::Wrong(username) => {
            let entry = Entry::new(AuditAction::SecondFactorRefused).by_user(username.as_str());
            service.record(&origin::of(&http), entry);
            Problem::CodeWrong
        }
        SecondFactorOutcome::Used(username) => {
            let entry = Entry::new(AuditAction::SecondFactorRefused).by_user(username.as_str());
            service.record(&origin::of(&http), entry.detail("used before"));
            Problem::CodeUsed
        }
        SecondFactorOutcome::Wait(username, wait) => {
            let entry = Entry::new(AuditAction::SignInThrottled).by_user(username.as_str());
            service.record(&origin::of(&http), entry.detail("second factor"));
            Problem::Wait(wait)
        }
    };
    again(&http, &service, &journey, problem, |flow, problem| {
        SecondFactorPage { flow, problem }
    })
}

/// The same form again, with what was wrong.
fn again<'a, Page: askama::Template>(
    http: &HttpRequest,
    service: &'a Service,
    journey: &'a Journey,
    problem: Problem,
    page: impl FnOnce(Flow<'a>, Option<Problem>) -> Page,
) -> Result<HttpResponse, PageFailure> {
    let mut response = show(http, service, journey, problem.status(), |flow| {
        page(flow, Some(problem))
    })?;
    if let Some(wait) = problem.wait() {
        let seconds = HeaderValue::from(wait.as_secs());
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    Ok(response)
}

fn record(service: &Service, http: &HttpRequest, username: &str, outcome: &PasswordOutcome) {
    let normal = Username::parse(username);
    let username = normal.as_ref().map_or(username, Username::as_str);
    let entry = match outcome {
        PasswordOutcome::Begun {
            stage: SessionStage::SignedIn,
            ..
        } => Entry::new(AuditAction::SignIn).by_user(username),
        // Signed in when the second factor is right.
        PasswordOutcome::Begun {
            stage: SessionStage::SecondFactorOwed,
            ..
        } => return,
        PasswordOutcome::Wait(_) | PasswordOutcome::Refused => {
            let entry = Entry::new(match outcome {
                PasswordOutcome::Wait(_) => AuditAction::SignInThrottled,
                _ => AuditAction::SignInRefused,
            });
            // What nobody registered may be a password in the wrong field.
            match service.registry().user(username) {
                Some(user) => entry.by_user(user.username.as_str()),
                None => entry.detail("unknown user"),
            }
        }
    };
    service.record(&origin::of(http), entry);
}

/// Goes on with the request. Who signs in for a client has confirmed it.
fn go_on(
    http: &HttpRequest,
    service: &Service,
    journey: &Journey,
    id: &SessionId,
    device: Option<&DeviceCookie>,
) -> HttpResponse {
    let cookies = Cookies::of(&service.config.protocol.issuer);
    let next = response::redirect(StatusCode::SEE_OTHER, &journey.continuation());
    let mut response = with_cookie(next, &cookies.set_session(id));
    if let Some(device) = device {
        response = with_cookie(response, &cookies.set_devices(device));
    }
    confirm::remember(response, http, service, journey, id)
}
