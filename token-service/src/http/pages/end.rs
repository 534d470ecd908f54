//! Ending the access of an application, or sessions of other browsers. A page asks first, and needs a recent sign-in.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use super::browser::Browser;
use super::browser_token::page_with_token;
use super::ending::Ending;
use super::failure::PageFailure;
use super::form::Form;
use super::notice::{self, Changed};
use super::own;
use super::purpose::Purpose;
use super::response;
use super::step;
use super::templates::{EndPage, EndedPage};
use crate::http::paths;
use crate::telemetry::audit_log::Entry;
use domain::digest::Digest;
use domain::{AuditAction, AuditEvent, EndingSessions, Owner, User};
use protocol::oauth::authorize::{SignedIn, Step};
use registry::change::Edit;
use registry::identities;

/// `GET /auth/end`.
pub(super) async fn ask(browser: Browser) -> Result<HttpResponse, PageFailure> {
    let http = &browser.http;
    let address = format!("{}?{}", http.path(), http.query_string());
    let Some(ending) = Ending::of_address(&address) else {
        return Ok(to_home());
    };
    let purpose = Purpose::End(browser, ending.clone());
    let signed_in = match purpose.next_step().await? {
        Step::OwnPage(signed_in) => signed_in,
        step => return step::show(&purpose, step).await,
    };
    let browser = purpose.browser();
    let Some(what) = name_of(browser, &signed_in, &ending).await? else {
        return Ok(to_home());
    };
    page_with_token(browser, None, |token| EndPage {
        texts: browser.texts(),
        frame: browser.frame(),
        csrf: token.text(),
        field: ending.field(),
        ending: &ending,
        what,
        has_password: signed_in.user().password_hash.is_some(),
    })
}

/// `POST /auth/end`.
pub(super) async fn accept(form: Form<Browser>) -> Result<HttpResponse, PageFailure> {
    let Some(ending) = Ending::of_fields(|name| form.field(name)) else {
        return Ok(to_home());
    };
    let purpose = Purpose::End(form.of, ending.clone());
    let browser = purpose.browser();
    // Not recent any more: the page asks, and the person presses the button again.
    let Step::OwnPage(signed_in) = purpose.next_step().await? else {
        return Ok(purpose.go_on());
    };
    let Some(what) = name_of(browser, &signed_in, &ending).await? else {
        return Ok(to_home());
    };
    if !carry_out(browser, &signed_in, &ending).await? {
        return Ok(to_home());
    }
    let page = EndedPage {
        texts: browser.texts(),
        frame: browser.frame(),
        ending: &ending,
        what,
    };
    Ok(response::page(StatusCode::OK, &page))
}

/// The person has no such thing, or no longer.
fn to_home() -> HttpResponse {
    response::redirect(StatusCode::SEE_OTHER, paths::HOME)
}

/// What ends, in words; `None` if the person has no such thing.
async fn name_of(
    browser: &Browser,
    signed_in: &SignedIn,
    ending: &Ending,
) -> Result<Option<String>, PageFailure> {
    let user = signed_in.user();
    match ending {
        Ending::Application(client_id) => own::name_of_application(browser, user, client_id).await,
        Ending::Session(digest) => {
            let sessions = own::sessions(browser, signed_in).await?;
            let mut others = sessions.into_iter().filter(|session| !session.is_own);
            let text = digest.to_base64url();
            let found = others.find(|session| session.id == text);
            Ok(found.map(|one| format!("{}, {}, {}", one.browser, one.network, one.since)))
        }
        Ending::OtherSessions => Ok(Some(String::new())),
        Ending::Identity(digest) => {
            let identity = own::identity(user, digest);
            let name = identity.map(|identity| own::name_of_provider(browser, &identity.issuer));
            Ok(name.map(str::to_owned))
        }
    }
}

/// False if there is nothing to end any more, or if it must not end.
async fn carry_out(
    browser: &Browser,
    signed_in: &SignedIn,
    ending: &Ending,
) -> Result<bool, PageFailure> {
    let user = signed_in.user();
    let (service, username) = (&browser.service, user.username.clone());
    let entry = |action| Entry::new(action).by_user(username.as_str());
    let (which, what) = match ending {
        Ending::Application(client_id) => {
            let entry = entry(AuditAction::AccessEnded).client(client_id.as_str());
            let events: Arc<[AuditEvent]> = [browser.event(entry)].into();
            let owner = Owner::UserAtClient {
                username,
                client_id: client_id.clone(),
            };
            let now = service.clock.now();
            service
                .store
                .revoke_all(owner, Arc::clone(&events), now)
                .await?;
            service.recorded(&events);
            // A token that is issued in the same second is revoked too: not one that the person authorizes next.
            service.until_after(now).await;
            return Ok(true);
        }
        Ending::Session(other) => (EndingSessions::One(*other), "one"),
        Ending::OtherSessions => (
            EndingSessions::Others(signed_in.live().id.digest()),
            "all others",
        ),
        Ending::Identity(digest) => return unlink(browser, user, digest).await,
    };
    let entry = entry(AuditAction::SessionsEnded).detail(what);
    let events: Arc<[AuditEvent]> = [browser.event(entry)].into();
    let ended =
        service
            .store
            .end_sessions(username, which, Arc::clone(&events), service.clock.now());
    ended.await?;
    service.recorded(&events);
    Ok(true)
}

/// Unlinks an identity, unless it is the only way to sign in or would be linked again. The transaction ends the sign-ins with it.
async fn unlink(browser: &Browser, user: &User, digest: &Digest) -> Result<bool, PageFailure> {
    let Some(identity) = own::identity(user, digest) else {
        return Ok(false);
    };
    let (store, settings) = (&*browser.service.store, &browser.service.config.protocol);
    let counts = |user: &User| own::password_counts(browser, user);
    let tell = |user: &User| {
        let entry = Entry::new(AuditAction::IdentityUnlinked).by_user(user.username.as_str());
        let entry = entry.detail(identity.to_string());
        let name = own::name_of_provider(browser, &identity.issuer);
        let notice = notice::of(browser, user, &Changed::IdentityUnlinked(name));
        (entry, notice)
    };
    let unlinked = browser.change(async || {
        let planned = identities::unlink(user, identity, counts, settings, store, tell).await?;
        Ok(planned.map_or_else(|| Edit::nothing(false), |edit| edit.map(|_| true)))
    });
    unlinked.await
}
