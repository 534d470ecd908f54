//! The choice among several linked accounts (protocol.md §1, §4.1).

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::failure::PageFailure;
use super::form::StepForm;
use super::response;

/// `POST /auth/select-account`: issues a code for the chosen account.
pub(super) async fn select(step: StepForm) -> Result<HttpResponse, PageFailure> {
    let journey = &step.journey;
    let Some((_, signed_in)) = journey.signed_in().await? else {
        return Ok(journey.go_on());
    };
    let chosen = step.field("account").split_once(' ');
    let account = chosen
        .and_then(|(site, user_id)| signed_in.account(user_id, site))
        .ok_or(PageFailure::Account)?;
    let location = journey.issue(&signed_in, account).await?;
    Ok(response::redirect(StatusCode::SEE_OTHER, &location))
}
