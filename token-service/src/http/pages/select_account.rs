//! The choice among several linked accounts (protocol.md §1, §4.1).

use actix_web::http::StatusCode;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::cookies::Cookies;
use super::failure::PageFailure;
use super::{form, response};
use crate::service::Service;
use protocol::oauth::authorize::SignedIn;
use protocol::sign_in::session;

/// `POST /auth/select-account`: the chosen account ends the request with a code.
pub(super) async fn select(
    http: HttpRequest,
    payload: Payload,
    service: Data<Service>,
) -> Result<HttpResponse, PageFailure> {
    let cookies = Cookies::of(&service.config.protocol.issuer);
    let body = form::read(&http, payload).await?;
    let fields = form::fields(&body, &http, cookies)?;
    let registry = service.registry();
    let journey = form::journey(&fields, &http, &service, &registry)?;
    let moment = service.moment();
    let (context, now) = (moment.context(), moment.now);
    let session = match cookies.session(&http) {
        Some(id) => session::live(&context, &id).await?,
        None => None,
    };
    let expected = journey.expected_user();
    let signed_in = session
        .filter(|session| expected.is_none_or(|user| user.username == session.username))
        .and_then(|session| SignedIn::of(session, &registry));
    let Some(signed_in) = signed_in else {
        // The session ended while the page was open, or is another person's now.
        return Ok(response::redirect(
            StatusCode::SEE_OTHER,
            &journey.continuation(),
        ));
    };
    let account = fields
        .get("account")
        .and_then(|named| named.split_once(' '))
        .and_then(|(site, user_id)| signed_in.account(user_id, site))
        .ok_or(PageFailure::Account)?;
    let location = journey
        .issue(&http, &service, &signed_in, account, now)
        .await?;
    Ok(response::redirect(StatusCode::SEE_OTHER, &location))
}
