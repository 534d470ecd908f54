//! The page with the signed-in user or the form to sign in, and signing out.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::cookies::with_cookie;
use super::due;
use super::failure::PageFailure;
use super::form::Form;
use super::purpose::Purpose;
use super::response;
use super::templates::{HomePage, OTHER_USER, SignInPage};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::AuditAction;
use protocol::oauth::authorize::SignedIn;
use protocol::sign_in;

pub(super) async fn home(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let live = browser.live_session().await?.map(|(_, live)| live);
    let is_other_user = browser.http.query_string() == OTHER_USER;
    match live.map(|live| browser.signed_in(live)) {
        Some(Ok(signed_in)) => show(&browser, &signed_in).await,
        Some(Err(due)) if !is_other_user => due::show(&Purpose::Home(browser), due).await,
        Some(Err(_)) | None => Purpose::Home(browser).show(None, |flow| SignInPage {
            frame: flow.frame,
            flow,
            username: "",
            problem: None,
        }),
    }
}

async fn show(browser: &Browser, signed_in: &SignedIn) -> Result<HttpResponse, PageFailure> {
    let user = signed_in.user();
    let left = sign_in::recovery_codes_left(&browser.context(), &user.username).await?;
    page_with_token(browser, None, |token| HomePage {
        texts: browser.texts(),
        frame: browser.frame(),
        csrf: token.text(),
        username: user.username.as_str(),
        second_factor: left.is_some() || user.totp_secret_sealed.is_some(),
        recovery_codes_left: left,
    })
}

/// `POST /auth/sign-out`. Ends the session on the server too, so a copied cookie becomes useless.
pub(super) async fn sign_out(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let browser = &form.of;
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
