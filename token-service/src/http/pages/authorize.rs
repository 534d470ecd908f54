//! The start of a request for a code: `GET /auth/authorize` (protocol.md §4.1) and the start pages of other flows.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header;

use super::confirm;
use super::due;
use super::failure::PageFailure;
use super::journey::Journey;
use super::looks::only_looks;
use super::provider;
use super::purpose::{Purpose, show};
use super::response;
use super::select_account;
use super::sign_in;
use super::templates::{ConfirmPage, NoAccountPage};
use protocol::oauth::authorize::{RedirectError, Step};

/// Shows the next step, or redirects to the client's redirect URI.
pub(super) async fn begin(journey: Journey) -> Result<HttpResponse, PageFailure> {
    let (id, session) = journey.browser.live_session().await?.unzip();
    let confirmation = confirm::confirmation(&journey, id.as_ref());
    match journey.next_step(session, confirmation) {
        Step::SignIn => ask_to_sign_in(&Purpose::Code(journey), id.is_some()).await,
        Step::Due(due) => due::show(&Purpose::Code(journey), due).await,
        Step::SelectAccount(signed_in) => select_account::show_choice(&journey, &signed_in, ""),
        Step::Confirm(signed_in, account) => show(&journey, None, |flow| ConfirmPage {
            frame: flow.frame,
            flow,
            username: signed_in.user().username.as_str(),
            account: &account,
            site: journey.browser.site_label(&account.site),
        }),
        Step::NoAccount(signed_in) => show(&journey, None, |flow| NoAccountPage {
            frame: flow.frame,
            flow,
            username: signed_in.user().username.as_str(),
            return_to: journey.error_address(&RedirectError::NoLinkedAccount),
        }),
        Step::Issue(..) if let Some(status) = only_looks(&journey.browser.http) => {
            let mut response = HttpResponse::build(status);
            Ok(response.insert_header(NO_STORE).finish())
        }
        Step::Issue(signed_in, account) => Ok(found(&journey.issue(&signed_in, &account).await?)),
        Step::Refuse(error) => Ok(found(&journey.error_address(&error))),
    }
}

/// The sign-in page, or the way to the identity provider that the request already says. Not if somebody is signed in, or if the request
/// asks for the credentials again: no link signs in somebody else without a page. Nor if the person signed out in this browser: the
/// provider would sign in the person again without a word (D-65).
async fn ask_to_sign_in(purpose: &Purpose, has_session: bool) -> Result<HttpResponse, PageFailure> {
    let journey = purpose.journey();
    let browser = purpose.browser();
    let is_signed_out = browser.cookies.is_signed_out(&browser.http);
    let at_once = journey.filter(|journey| !has_session && !is_signed_out && !journey.asks_again());
    let at_once = at_once.and_then(|journey| journey.provider_at_once(purpose.providers()));
    let providers = &purpose.browser().service.providers;
    // Of a provider that does not answer, the person would see nothing but an error of the browser.
    if let Some(provider) = at_once.filter(|provider| providers.answers(provider))
        && only_looks(&purpose.browser().http).is_none()
    {
        let oldest = purpose.oldest_sign_in();
        return provider::leave(purpose, provider, StatusCode::FOUND, oldest).await;
    }
    let hint = journey.and_then(Journey::login_hint);
    sign_in::ask(purpose, hint.unwrap_or_default(), None)
}

const NO_STORE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

/// A redirect that ends a GET.
fn found(location: &str) -> HttpResponse {
    response::redirect(StatusCode::FOUND, location)
}
