//! Who visits the own pages of a person.

use actix_web::HttpResponse;

use super::due;
use super::failure::PageFailure;
use super::purpose::Purpose;
use super::sign_in;
use super::templates::OTHER_USER;
use domain::Session;
use protocol::oauth::authorize::SignedIn;
use protocol::sign_in::SessionId;

#[expect(clippy::large_enum_variant, reason = "a visitor lives for one request")]
pub(super) enum Visitor {
    SignedIn(SessionId, SignedIn),
    /// The page that asks the person to sign in, or for what is due first.
    Asked(HttpResponse),
}

/// The person who is signed in with this browser, if nothing is due and the session `is_enough`.
pub(super) async fn visitor(
    purpose: &Purpose,
    is_enough: impl Fn(&Session) -> bool,
) -> Result<Visitor, PageFailure> {
    let browser = purpose.browser();
    let live = browser.live_session().await?;
    let live = live.map(|(id, live)| (id, browser.signed_in(live)));
    let page = match live {
        Some((id, Ok(signed_in))) if is_enough(signed_in.session()) => {
            return Ok(Visitor::SignedIn(id, signed_in));
        }
        Some((_, Ok(signed_in))) => sign_in::ask_again(purpose, signed_in.user()),
        Some((_, Err(due))) if browser.http.query_string() != OTHER_USER => {
            due::show(purpose, due).await
        }
        Some((_, Err(_))) | None => sign_in::ask(purpose, "", None),
    };
    page.map(Visitor::Asked)
}
