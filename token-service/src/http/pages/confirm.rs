//! The question whether a public native client may go on with a live session (D-34, RFC 8252 §8.6).
//!
//! The answer is kept in a cookie: a tag for each client that the person has confirmed in this session, which only this
//! service can make. Signing in for a client confirms it as well.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::cookies::{Cookies, with_cookie};
use super::failure::PageFailure;
use super::journey::Journey;
use super::{form, response};
use crate::service::Service;
use domain::digest::Digest;
use protocol::oauth::authorize::{Confirmation, SignedIn};
use protocol::sign_in::{SessionId, session};

/// The most clients that one session remembers: the cookie stays below 1 KiB.
const MAX_CONFIRMED: usize = 20;

/// What the cookie says about the client of `journey` and the session `id`.
pub(super) fn confirmation(
    http: &HttpRequest,
    service: &Service,
    journey: &Journey,
    id: Option<&SessionId>,
) -> Confirmation {
    if !journey.is_native() {
        return Confirmation::NotNeeded;
    }
    let Some(id) = id else {
        return Confirmation::Needed;
    };
    let expected = tag(service, id, journey);
    let confirmed = Cookies::of(&service.config.protocol.issuer).confirmed(http);
    let is_confirmed = confirmed
        .split('.')
        .filter_map(Digest::from_base64url)
        .any(|tag| tag == expected);
    if is_confirmed {
        Confirmation::Given
    } else {
        Confirmation::Needed
    }
}

fn tag(service: &Service, id: &SessionId, journey: &Journey) -> Digest {
    let client_id = journey.client().client_id.as_str();
    let parts = [
        b"confirmed client".as_slice(),
        id.as_str().as_bytes(),
        client_id.as_bytes(),
    ];
    Digest::from_bytes(service.encryption_key.tag(&parts))
}

/// The response, with the client of `journey` confirmed for the session `id`.
pub(super) fn remember(
    response: HttpResponse,
    http: &HttpRequest,
    service: &Service,
    journey: &Journey,
    id: &SessionId,
) -> HttpResponse {
    if !journey.is_native() {
        return response;
    }
    let cookies = Cookies::of(&service.config.protocol.issuer);
    let newest = tag(service, id, journey).to_base64url();
    let earlier = cookies.confirmed(http).split('.').filter(|tag| {
        // What is no tag is not carried on.
        *tag != newest && Digest::from_base64url(tag).is_some()
    });
    let confirmed: Vec<&str> = std::iter::once(newest.as_str())
        .chain(earlier)
        .take(MAX_CONFIRMED)
        .collect();
    with_cookie(response, &cookies.set_confirmed(confirmed.join(".")))
}

/// `POST /auth/continue`: the person goes on to the client, which ends the request with a code.
pub(super) async fn go_on(
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
    let id = cookies.session(&http);
    let session = match &id {
        Some(id) => session::live(&context, id).await?,
        None => None,
    };
    let expected = journey.expected_user();
    let signed_in = session
        .filter(|session| expected.is_none_or(|user| user.username == session.username))
        .and_then(|session| SignedIn::of(session, &registry));
    let (Some(id), Some(signed_in)) = (id, signed_in) else {
        // The session ended while the page was open, or is another person's now.
        let next = journey.continuation();
        return Ok(response::redirect(StatusCode::SEE_OTHER, &next));
    };
    let location = match signed_in.user().accounts.as_slice() {
        [only] => {
            journey
                .issue(&http, &service, &signed_in, only, now)
                .await?
        }
        // An account was linked or unlinked while the page was open.
        _ => journey.continuation(),
    };
    let response = response::redirect(StatusCode::SEE_OTHER, &location);
    Ok(remember(response, &http, &service, &journey, &id))
}
