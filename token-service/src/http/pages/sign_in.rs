//! The forms that prove who the person is: password and one-time code.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::super::origin;
use super::authorize::show;
use super::cookies::{Cookies, with_cookie};
use super::failure::PageFailure;
use super::templates::{SecondFactorPage, SignInPage};
use super::{form, response};
use crate::audit::Entry;
use crate::service::Service;
use crate::sign_in::{self, PasswordOutcome, SecondFactorOutcome, SessionId};
use crate::store::{AuditAction, SessionStage};

/// `POST /auth/sign-in`.
pub(super) async fn password(
    http: HttpRequest,
    payload: Payload,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let cookies = Cookies::of(&service.config.issuer);
    let body = form::read(&http, payload).await?;
    let fields = form::fields(&body, &http, cookies)?;
    let journey = form::journey(&fields, &http, &service, &service.registry())?;
    // Where the request names the person, nobody else can sign in, whatever the form says.
    let username = journey
        .expected_user()
        .or(fields.get("username"))
        .unwrap_or_default();
    let password = fields.get("password").unwrap_or_default().to_owned();
    let replaces = cookies.session(&http);
    let now = service.clock.now();
    let outcome =
        sign_in::with_password(&service, username, password, replaces.as_ref(), now).await?;
    record(&service, &http, username, &outcome);
    match outcome {
        PasswordOutcome::Begun(id, _) => Ok(go_on(&journey.continuation(), cookies, &id)),
        PasswordOutcome::Refused => {
            show(&http, &service, &journey, StatusCode::FORBIDDEN, |flow| {
                SignInPage {
                    flow,
                    username,
                    refused: true,
                }
            })
        }
    }
}

/// `POST /auth/second-factor`.
pub(super) async fn second_factor(
    http: HttpRequest,
    payload: Payload,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let cookies = Cookies::of(&service.config.issuer);
    let body = form::read(&http, payload).await?;
    let fields = form::fields(&body, &http, cookies)?;
    let journey = form::journey(&fields, &http, &service, &service.registry())?;
    let code = fields.get("code").unwrap_or_default();
    let outcome = match cookies.session(&http) {
        Some(id) => sign_in::with_second_factor(&service, &id, code, service.clock.now()).await?,
        None => SecondFactorOutcome::NotOwed,
    };
    let error = match outcome {
        SecondFactorOutcome::SignedIn(id, username) => {
            let entry = Entry::new(AuditAction::SignIn).by_user(username.as_str());
            service.record(&origin::of(&http), entry.detail("password, one-time code"));
            return Ok(go_on(&journey.continuation(), cookies, &id));
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
            "This code is not right. Enter the one that your app shows now."
        }
        SecondFactorOutcome::Used(username) => {
            let entry = Entry::new(AuditAction::SecondFactorRefused).by_user(username.as_str());
            service.record(&origin::of(&http), entry.detail("used before"));
            "This code has been used. Wait until your app shows the next one."
        }
    };
    show(&http, &service, &journey, StatusCode::FORBIDDEN, |flow| {
        SecondFactorPage {
            flow,
            error: Some(error),
        }
    })
}

fn record(service: &Service, http: &HttpRequest, username: &str, outcome: &PasswordOutcome) {
    let entry = match outcome {
        PasswordOutcome::Begun(_, SessionStage::SignedIn) => {
            Entry::new(AuditAction::SignIn).by_user(username)
        }
        // Signed in when the second factor is right.
        PasswordOutcome::Begun(_, SessionStage::SecondFactorOwed) => return,
        PasswordOutcome::Refused => {
            let entry = Entry::new(AuditAction::SignInRefused);
            // What nobody registered may be a password in the wrong field.
            match service.registry().user(username) {
                Some(user) => entry.by_user(user.username.as_str()),
                None => entry.detail("unknown user"),
            }
        }
    };
    service.record(&origin::of(http), entry);
}

fn go_on(location: &str, cookies: Cookies, id: &SessionId) -> HttpResponse {
    with_cookie(
        response::redirect(StatusCode::SEE_OTHER, location),
        &cookies.set_session(id),
    )
}
