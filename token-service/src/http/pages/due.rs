//! The pages for what a person must do before a code is issued.

use actix_web::HttpResponse;

use super::failure::PageFailure;
use super::purpose::Purpose;
use super::templates::SecondFactorPage;
use super::{authenticator, change_password};
use protocol::oauth::authorize::Due;

pub(super) async fn show(purpose: &Purpose, due: Due) -> Result<HttpResponse, PageFailure> {
    match due {
        Due::SecondFactor => purpose.show(None, |flow| SecondFactorPage {
            frame: flow.frame,
            flow,
            recovery_code: false,
            problem: None,
        }),
        Due::NewPassword => change_password::ask(purpose).await,
        Due::SetUpSecondFactor => authenticator::ask(purpose).await,
    }
}
