//! `GET /auth/authorize` (spec §4.1).

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};

use super::super::paths;
use super::cookies::Cookies;
use super::csrf::BrowserToken;
use super::failure::PageFailure;
use super::response;
use super::templates::{Flow, SecondFactorPage, SelectAccountPage, SignInPage};
use crate::clock::Timestamp;
use crate::oauth::authorize::{
    AuthorizationRequest, AuthorizeError, SignedIn, Step, code_record, issue_code, next_step,
};
use crate::registry::LinkedAccount;
use crate::service::Service;
use crate::sign_in::session;

/// Shows the next step, or ends the request at the client's redirect URI.
pub(super) async fn authorize(
    http: HttpRequest,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let now = service.clock.now();
    let issuer = &service.config.issuer;
    let registry = service.registry();
    let request = AuthorizationRequest::validate(http.query_string().as_bytes(), &registry)
        .map_err(|error| PageFailure::refused_query(error, issuer))?;
    let session = match Cookies::of(issuer).session(&http) {
        Some(id) => session::live(&service, &id, now).await?,
        None => None,
    };
    match next_step(request.prompt(), session, &registry) {
        Step::SignIn => show(&http, &service, &request, StatusCode::OK, |flow| {
            SignInPage {
                flow,
                username: "",
                refused: false,
            }
        }),
        Step::SecondFactor => show(&http, &service, &request, StatusCode::OK, |flow| {
            SecondFactorPage {
                flow,
                error: None,
                other_user: sign_in_again(&request),
            }
        }),
        Step::SelectAccount(signed_in) => show(&http, &service, &request, StatusCode::OK, |flow| {
            SelectAccountPage {
                flow,
                username: signed_in.user().username.as_str(),
                accounts: &signed_in.user().accounts,
                other_user: sign_in_again(&request),
            }
        }),
        Step::Issue(signed_in, account) => {
            let location = issue(&service, &request, &signed_in, &account, now).await?;
            Ok(response::redirect(StatusCode::FOUND, &location))
        }
        Step::Refuse(error) => Err(PageFailure::refused_query(
            AuthorizeError::Redirect(request.destination().clone(), error),
            issuer,
        )),
    }
}

/// The address where `request` goes on after a step.
pub(super) fn continuation(request: &AuthorizationRequest) -> String {
    format!("{}?{}", paths::AUTHORIZE, request.continuation())
}

/// The address where `request` asks for the credentials of somebody else.
pub(super) fn sign_in_again(request: &AuthorizationRequest) -> String {
    format!("{}?{}", paths::AUTHORIZE, request.sign_in_again())
}

/// Issues a code; the answer is the address that delivers it.
pub(super) async fn issue(
    service: &Service,
    request: &AuthorizationRequest,
    signed_in: &SignedIn,
    account: &LinkedAccount,
    now: Timestamp,
) -> Result<String, PageFailure> {
    let expires_at = now + service.config.lifetimes.authorization_code;
    let record = code_record(request, signed_in, account, expires_at);
    let code = issue_code(record, service.store.as_ref(), service.random.as_ref()).await?;
    Ok(request
        .destination()
        .with_code(&code, &service.config.issuer))
}

/// A page of `request`, with the browser's CSRF token.
pub(super) fn show<'a, Page: askama::Template>(
    http: &HttpRequest,
    service: &Service,
    request: &'a AuthorizationRequest,
    status: StatusCode,
    page: impl FnOnce(Flow<'a>) -> Page,
) -> Result<HttpResponse, PageFailure> {
    let csrf = BrowserToken::of(http, service)?;
    let flow = Flow::new(request, csrf.text(), &service.config.issuer);
    let redirect_uri = request.destination().redirect_uri();
    Ok(csrf.keep(response::page(status, &page(flow), Some(redirect_uri))))
}
