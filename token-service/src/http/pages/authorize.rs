//! The start of a request for a code: `GET /auth/authorize` (protocol.md §4.1) and the start pages of other flows.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::confirm;
use super::failure::PageFailure;
use super::journey::Journey;
use super::response;
use super::select_account;
use super::show::show;
use super::templates::{ConfirmPage, NoAccountPage, SecondFactorPage, SignInPage};
use protocol::oauth::authorize::{RedirectError, Step};

/// Shows the next step, or redirects to the client's redirect URI.
pub(super) async fn begin(journey: Journey) -> Result<HttpResponse, PageFailure> {
    let (id, session) = journey.browser.live_session().await?.unzip();
    let confirmation = confirm::confirmation(&journey, id.as_ref());
    match journey.next_step(session, confirmation) {
        Step::SignIn => show(&journey, StatusCode::OK, |flow| SignInPage {
            flow,
            username: journey.login_hint().unwrap_or_default(),
            problem: None,
        }),
        Step::SecondFactor => show(&journey, StatusCode::OK, |flow| SecondFactorPage {
            flow,
            recovery_code: false,
            problem: None,
        }),
        Step::SelectAccount(signed_in) => select_account::show_choice(&journey, &signed_in, ""),
        Step::Confirm(signed_in, account) => show(&journey, StatusCode::OK, |flow| ConfirmPage {
            flow,
            username: signed_in.user().username.as_str(),
            account: &account,
            site: journey.browser.site_label(&account.site),
        }),
        Step::NoAccount(signed_in) => show(&journey, StatusCode::OK, |flow| NoAccountPage {
            flow,
            username: signed_in.user().username.as_str(),
            return_to: journey.error_address(&RedirectError::NoLinkedAccount),
        }),
        Step::Issue(signed_in, account) => Ok(found(&journey.issue(&signed_in, &account).await?)),
        Step::Refuse(error) => Ok(found(&journey.error_address(&error))),
    }
}

/// A redirect that ends a GET.
fn found(location: &str) -> HttpResponse {
    response::redirect(StatusCode::FOUND, location)
}
