//! The pages of the steps of a sign-in, and the start of a request for a code: `GET /auth/authorize` (protocol.md §4.1) and the start
//! pages of other flows.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header;

use super::authenticator;
use super::change_password;
use super::confirm;
use super::failure::PageFailure;
use super::form::Form;
use super::journey::Journey;
use super::looks::only_looks;
use super::provider;
use super::purpose::{Admitted, Purpose};
use super::response;
use super::select_account;
use super::sign_in;
use super::templates::{ConfirmPage, NoAccountPage, SecondFactorPage};
use protocol::oauth::authorize::{Due, RedirectError, Step};

/// Shows the next step, or redirects to the client's redirect URI.
pub(super) async fn begin(journey: Journey) -> Result<HttpResponse, PageFailure> {
    let purpose = Purpose::Code(journey);
    show(&purpose, purpose.next_step().await?).await
}

/// The page of a step, or the redirect to the client's redirect URI.
pub(super) async fn show(purpose: &Purpose, step: Step) -> Result<HttpResponse, PageFailure> {
    match (step, purpose.journey()) {
        (Step::SignIn { has_session }, _) => ask_to_sign_in(purpose, has_session).await,
        (Step::SignInAgain(signed_in), _) => sign_in::ask_again(purpose, signed_in.user()),
        (Step::Due(Due::SecondFactor, _), _) => purpose.show(None, |flow| SecondFactorPage {
            frame: flow.frame,
            flow,
            recovery_code: false,
            problem: None,
        }),
        (Step::Due(Due::NewPassword, live), _) => {
            change_password::show(purpose, true, &live.session.username, None).await
        }
        (Step::Due(Due::SetUpSecondFactor, live), _) => {
            let is_due = true;
            authenticator::ask(purpose, &Admitted { live, is_due }).await
        }
        (Step::SelectAccount(signed_in), Some(journey)) => {
            select_account::show_choice(journey, &signed_in, "")
        }
        (Step::Confirm(signed_in, account), Some(journey)) => {
            purpose.show(None, |flow| ConfirmPage {
                frame: flow.frame,
                flow,
                username: signed_in.user().username.as_str(),
                account: &account,
                site: journey.browser.site_label(&account.site),
            })
        }
        (Step::NoAccount(signed_in), Some(journey)) => purpose.show(None, |flow| NoAccountPage {
            frame: flow.frame,
            flow,
            username: signed_in.user().username.as_str(),
            return_to: journey.error_address(&RedirectError::NoLinkedAccount),
        }),
        (Step::Issue(..), Some(journey))
            if let Some(status) = only_looks(&journey.browser.http) =>
        {
            let mut response = HttpResponse::build(status);
            Ok(response.insert_header(NO_STORE).finish())
        }
        (Step::Issue(signed_in, account), Some(journey)) => {
            Ok(found(&journey.issue(&signed_in, &account).await?))
        }
        (Step::Refuse(error), Some(journey)) => Ok(found(&journey.error_address(&error))),
        // Each own page shows itself.
        (Step::OwnPage(_), _) | (_, None) => Ok(purpose.go_on()),
    }
}

/// `POST /auth/continue`: the person confirms the client, which gets a code.
pub(super) async fn confirm(form: Form<Purpose>) -> Result<HttpResponse, PageFailure> {
    let Purpose::Code(journey) = &form.of else {
        return Ok(form.of.go_on());
    };
    let Some(signed_in) = journey.signed_in().await? else {
        return Ok(journey.go_on());
    };
    let response = match signed_in.user().accounts.as_slice() {
        [only] => {
            let location = journey.issue(&signed_in, only).await?;
            journey.redirect(&location)
        }
        // An account was linked or unlinked while the page was open.
        _ => journey.go_on(),
    };
    Ok(confirm::remember(response, journey, &signed_in.live().id))
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
    let hint = journey.and_then(|journey| journey.request.login_hint());
    sign_in::ask(purpose, hint.unwrap_or_default(), None)
}

const NO_STORE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

/// A redirect that ends a GET.
fn found(location: &str) -> HttpResponse {
    response::redirect(StatusCode::FOUND, location)
}
