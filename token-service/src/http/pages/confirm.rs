//! Asks whether a client on the person's device may use a live session (D-34, RFC 8252 §8.6).
//!
//! A cookie keeps the answer: one unforgeable tag for each client that the person confirmed in this session. Signing in
//! for a client confirms the client too.

use actix_web::HttpResponse;

use super::cookies::with_cookie;
use super::journey::Journey;
use super::tags;
use domain::digest::Digest;
use protocol::oauth::authorize::ClientConfirmation;
use protocol::sign_in::SessionId;

/// Maximum number of confirmed clients per session, so that the cookie stays below 1 KiB.
const MAX_CONFIRMED: usize = 20;

/// The state of the confirmation for the client of `journey` and the session `id`.
pub(super) fn confirmation(journey: &Journey, id: Option<&SessionId>) -> ClientConfirmation {
    if !journey.request.needs_confirmation() {
        return ClientConfirmation::NotNeeded;
    }
    let Some(id) = id else {
        return ClientConfirmation::Needed;
    };
    let expected = tag(id, journey);
    let browser = &journey.browser;
    let mut confirmed = tags::read(browser.cookies.confirmed(&browser.http));
    if confirmed.any(|tag| tag == expected) {
        ClientConfirmation::Given
    } else {
        ClientConfirmation::Needed
    }
}

fn tag(id: &SessionId, journey: &Journey) -> Digest {
    let client_id = journey.request.client().client_id.as_str();
    let parts = [
        b"confirmed client".as_slice(),
        id.as_str().as_bytes(),
        client_id.as_bytes(),
    ];
    Digest::from_bytes(journey.browser.service.encryption_key.tag(&parts))
}

/// Adds the confirmation of the client of `journey` for the session `id` to the response.
pub(super) fn remember(response: HttpResponse, journey: &Journey, id: &SessionId) -> HttpResponse {
    if !journey.request.needs_confirmation() {
        return response;
    }
    let browser = &journey.browser;
    let earlier = browser.cookies.confirmed(&browser.http);
    let confirmed = tags::with_newest(tag(id, journey), earlier, MAX_CONFIRMED);
    with_cookie(response, &browser.cookies.set_confirmed(confirmed))
}

/// Adds the confirmation to the response if the person has given it in the session `from`, which the session `to` goes on with.
pub(super) fn carry_over(
    response: HttpResponse,
    journey: &Journey,
    from: &SessionId,
    to: &SessionId,
) -> HttpResponse {
    match confirmation(journey, Some(from)) {
        ClientConfirmation::Given => remember(response, journey, to),
        ClientConfirmation::NotNeeded | ClientConfirmation::Needed => response,
    }
}
