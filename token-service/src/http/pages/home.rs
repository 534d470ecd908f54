//! Who is signed in with this browser, and signing out.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::super::{origin, paths};
use super::browser_token::BrowserToken;
use super::cookies::{Cookies, with_cookie};
use super::failure::PageFailure;
use super::templates::{HomePage, Person};
use super::texts::Texts;
use super::{form, response};
use crate::audit_log::Entry;
use crate::service::Service;
use domain::AuditAction;
use protocol::oauth::authorize::SignedIn;
use protocol::sign_in::{self, authenticator, session};

/// `GET /auth/`.
pub(super) async fn home(
    http: HttpRequest,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let moment = service.moment();
    let context = moment.context();
    let session = match Cookies::of(&service.config.protocol.issuer).session(&http) {
        Some(id) => session::live(&context, &id).await?,
        None => None,
    };
    let signed_in = session.and_then(|session| SignedIn::of(session, &service.registry()));
    let person = match &signed_in {
        Some(signed_in) => {
            let user = signed_in.user();
            let left = authenticator::recovery_codes_left(&context, &user.username).await?;
            Some(Person {
                username: user.username.as_str(),
                second_factor: left.is_some() || user.totp_secret_sealed.is_some(),
                recovery_codes_left: left,
            })
        }
        None => None,
    };
    let csrf = BrowserToken::of(&http, &service)?;
    let page = HomePage {
        texts: Texts::of(&http),
        service: &service.config.protocol.name,
        person,
        csrf: csrf.text(),
    };
    Ok(csrf.keep(response::page(StatusCode::OK, &page, None)))
}

/// `POST /auth/sign-out`. The session is over on the server too: a copied cookie is worth nothing.
pub(super) async fn sign_out(
    http: HttpRequest,
    payload: Payload,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let cookies = Cookies::of(&service.config.protocol.issuer);
    let body = form::read(&http, payload).await?;
    form::fields(&body, &http, cookies)?;
    if let Some(id) = cookies.session(&http) {
        let moment = service.moment();
        let context = moment.context();
        if let Some(session) = session::live(&context, &id).await? {
            let entry = Entry::new(AuditAction::SignOut).by_user(session.username.as_str());
            service.record(&origin::of(&http), entry);
        }
        sign_in::sign_out(&context, &id).await?;
    }
    Ok(with_cookie(
        response::redirect(StatusCode::SEE_OTHER, paths::HOME),
        &cookies.remove_session(),
    ))
}
