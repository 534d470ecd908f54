//! The page with the signed-in user or the form to sign in, and signing out.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::purpose::Purpose;
use super::response;
use super::templates::{HomePage, OTHER_USER, SecondFactorPage, SignInPage};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::{AuditAction, SessionStage};
use protocol::oauth::authorize::SignedIn;
use protocol::sign_in;

pub(super) async fn home(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let live = browser.live_session().await?.map(|(_, live)| live);
    let is_factor_owed = live
        .as_ref()
        .is_some_and(|live| live.session.stage == SessionStage::SecondFactorOwed);
    if let Some(signed_in) = live.and_then(SignedIn::of) {
        return show(&browser, &signed_in).await;
    }
    let is_other_user = browser.http.query_string() == OTHER_USER;
    let purpose = Purpose::Home(browser);
    if is_factor_owed && !is_other_user {
        purpose.show(None, |flow| SecondFactorPage {
            frame: flow.frame,
            flow,
            recovery_code: false,
            problem: None,
        })
    } else {
        purpose.show(None, |flow| SignInPage {
            frame: flow.frame,
            flow,
            username: "",
            problem: None,
        })
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
