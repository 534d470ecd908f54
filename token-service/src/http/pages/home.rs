//! The own page of a person: applications with access, sessions, credentials. Or the form to sign in; and signing out.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::cookies::with_cookie;
use super::failure::PageFailure;
use super::form::Form;
use super::own;
use super::purpose::Purpose;
use super::response;
use super::step;
use super::templates::HomePage;
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::{AuditAction, ClientId};
use protocol::oauth::authorize::{SignedIn, Step};
use protocol::oauth::parameters::Parameters;
use protocol::sign_in::{self, session};

pub(super) async fn home(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let purpose = Purpose::Home(browser);
    match purpose.next_step().await? {
        Step::OwnPage(signed_in) => show(purpose.browser(), &signed_in).await,
        step => step::show(&purpose, step).await,
    }
}

async fn show(browser: &Browser, signed_in: &SignedIn) -> Result<HttpResponse, PageFailure> {
    let user = signed_in.user();
    let left = sign_in::recovery_codes_left(&browser.context(), &user.username).await?;
    let query = Parameters::parse_unrepeated(browser.http.query_string().as_bytes()).ok();
    let from = query.as_ref().and_then(|(query, _)| query.get(paths::FROM));
    let from = from.and_then(ClientId::parse);
    let is_further_page = from.is_some();
    let mut applications = own::applications(browser, user, from).await?;
    // Nobody's link makes a person believe that no application has access.
    if is_further_page && applications.listed.is_empty() {
        applications = own::applications(browser, user, None).await?;
    }
    let sessions = own::sessions(browser, signed_in).await?;
    page_with_token(browser, None, |token| HomePage {
        texts: browser.texts(),
        frame: browser.frame(),
        csrf: token.text(),
        username: user.username.as_str(),
        at_provider: own::provider(browser, signed_in.session()),
        applications,
        sessions,
        identities: own::identities(browser, user),
        has_password: user.password_hash.is_some(),
        second_factor: left.is_some() || user.totp_secret_sealed.is_some(),
        recovery_codes_left: left,
    })
}

/// `POST /auth/sign-out`. Ends the session on the server too, so a copied cookie becomes useless.
pub(super) async fn sign_out(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let browser = &form.of;
    if let Some(id) = browser.session_id() {
        let context = browser.context();
        if let Some(session) = session::live(&context, &id).await? {
            let entry = Entry::new(AuditAction::SignOut).by_user(session.username.as_str());
            browser.record(entry);
        }
        sign_in::sign_out(&context, &id).await?;
    }
    let response = response::redirect(StatusCode::SEE_OTHER, paths::HOME);
    let response = with_cookie(response, &browser.cookies.remove_session());
    Ok(with_cookie(response, &browser.cookies.set_signed_out()))
}
