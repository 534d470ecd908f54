//! The page with the signed-in user, and signing out.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::browser::Browser;
use super::browser_token::BrowserToken;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::response;
use super::templates::{HomePage, Person};
use crate::audit_log::Entry;
use crate::http::paths;
use domain::AuditAction;
use protocol::oauth::authorize::SignedIn;
use protocol::sign_in;

/// `GET /auth/`.
pub(super) async fn home(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let context = browser.context();
    let live = browser.live_session().await?;
    let signed_in = live.and_then(|(_, live)| SignedIn::of(live));
    let person = match &signed_in {
        Some(signed_in) => {
            let user = signed_in.user();
            let left = sign_in::recovery_codes_left(&context, &user.username).await?;
            Some(Person {
                username: user.username.as_str(),
                second_factor: left.is_some() || user.totp_secret_sealed.is_some(),
                recovery_codes_left: left,
            })
        }
        None => None,
    };
    let csrf = BrowserToken::of(&browser)?;
    let page = HomePage {
        texts: browser.texts(),
        service: browser.service_name(),
        person,
        csrf: csrf.text(),
    };
    Ok(csrf.keep(response::page(StatusCode::OK, &page, None)))
}

/// `POST /auth/sign-out`. Ends the session on the server too, so a copied cookie becomes useless.
pub(super) async fn sign_out(form: Form) -> Result<HttpResponse, PageFailure> {
    let browser = &form.browser;
    if let Some((_, session)) = browser.session().await? {
        let entry = Entry::new(AuditAction::SignOut).by_user(session.username.as_str());
        browser.record(entry);
    }
    if let Some(id) = browser.session_id() {
        sign_in::sign_out(&browser.context(), &id).await?;
    }
    Ok(with_cookie(
        response::redirect(StatusCode::SEE_OTHER, paths::HOME),
        &browser.cookies.remove_session(),
    ))
}
