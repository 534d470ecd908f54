//! The way to another password: from the own page, and from programs that keep passwords.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::browser::Browser;
use super::change_password;
use super::failure::PageFailure;
use super::purpose::Purpose;
use super::response;
use super::step;
use crate::http::paths;
use protocol::oauth::authorize::Step;

/// `GET /auth/password`, to which the person comes back after the sign-in.
pub(super) async fn own(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let purpose = Purpose::Password(browser);
    match purpose.next_step().await? {
        // People who sign in only with a provider have no password.
        Step::OwnPage(signed_in) if signed_in.user().password_hash.is_none() => {
            Ok(response::redirect(StatusCode::FOUND, paths::HOME))
        }
        Step::OwnPage(signed_in) => {
            let username = &signed_in.session().username;
            change_password::show(&purpose, false, username, None).await
        }
        step => step::show(&purpose, step).await,
    }
}

/// `GET /.well-known/change-password`.
pub(super) async fn well_known() -> HttpResponse {
    response::redirect(StatusCode::FOUND, paths::PASSWORD)
}
