//! `GET /auth/authorize` (protocol.md §4.1) and `GET /Logon` (protocol.md §4.5).

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};

use super::browser_token::BrowserToken;
use super::confirm;
use super::cookies::Cookies;
use super::failure::PageFailure;
use super::journey::{Journey, found};
use super::response;
use super::templates::{
    ConfirmPage, Flow, NoAccountPage, SecondFactorPage, SelectAccountPage, SignInPage,
};
use super::texts::Texts;
use crate::service::Service;
use protocol::oauth::authorize::{RedirectError, Step};
use protocol::oauth::parameters::Parameters;
use protocol::sign_in::session;

pub(super) async fn authorize(
    http: HttpRequest,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let registry = service.registry();
    let journey = Journey::current(http.query_string(), &service, &registry, StatusCode::FOUND)?;
    go_on(&http, &service, &journey, false).await
}

pub(super) async fn logon(
    http: HttpRequest,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let registry = service.registry();
    let query = http.query_string();
    let journey = Journey::legacy(query, &http, &registry, StatusCode::FOUND)?;
    let sign_in_again = Parameters::parse(query.as_bytes())
        .is_ok_and(|parameters| parameters.get("prompt") == Some("login"));
    go_on(&http, &service, &journey, sign_in_again).await
}

/// Shows the next step, or ends the request at the client's redirect URI.
async fn go_on(
    http: &HttpRequest,
    service: &Service,
    journey: &Journey,
    sign_in_again: bool,
) -> Result<HttpResponse, PageFailure> {
    let moment = service.moment();
    let (context, now) = (moment.context(), moment.now);
    let issuer = &service.config.protocol.issuer;
    let id = Cookies::of(issuer).session(http);
    let session = match &id {
        Some(id) => session::live(&context, id).await?,
        None => None,
    };
    let confirmation = confirm::confirmation(http, service, journey, id.as_ref());
    let registry = service.registry();
    match journey.next_step(session, sign_in_again, confirmation, &registry, now) {
        Step::SignIn => show(http, service, journey, StatusCode::OK, |flow| SignInPage {
            flow,
            username: journey.login_hint().unwrap_or_default(),
            problem: None,
        }),
        Step::SecondFactor => show(http, service, journey, StatusCode::OK, |flow| {
            SecondFactorPage {
                flow,
                problem: None,
            }
        }),
        Step::SelectAccount(signed_in) => show(http, service, journey, StatusCode::OK, |flow| {
            SelectAccountPage {
                flow,
                username: signed_in.user().username.as_str(),
                accounts: &signed_in.user().accounts,
            }
        }),
        Step::Confirm(signed_in, account) => {
            show(http, service, journey, StatusCode::OK, |flow| ConfirmPage {
                flow,
                username: signed_in.user().username.as_str(),
                account: &account,
            })
        }
        Step::NoAccount(signed_in) => show(http, service, journey, StatusCode::OK, |flow| {
            NoAccountPage {
                flow,
                username: signed_in.user().username.as_str(),
                return_to: journey.error_address(&RedirectError::NoLinkedAccount, issuer),
            }
        }),
        Step::Issue(signed_in, account) => {
            let location = journey
                .issue(http, service, &signed_in, &account, now)
                .await?;
            Ok(found(&location))
        }
        Step::Refuse(error) => Ok(found(&journey.error_address(&error, issuer))),
    }
}

/// A page of `journey`, with the browser's CSRF token.
pub(super) fn show<'a, Page: askama::Template>(
    http: &HttpRequest,
    service: &'a Service,
    journey: &'a Journey,
    status: StatusCode,
    page: impl FnOnce(Flow<'a>) -> Page,
) -> Result<HttpResponse, PageFailure> {
    let csrf = BrowserToken::of(http, service)?;
    let flow = Flow::new(journey, csrf.text(), &service.config, Texts::of(http));
    Ok(csrf.keep(response::page(
        status,
        &page(flow),
        Some(journey.redirect_uri()),
    )))
}
