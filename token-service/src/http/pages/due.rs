//! What a person must do before a code is issued: the page that asks for it, and whether its form may be used.

use actix_web::HttpResponse;

use super::failure::PageFailure;
use super::purpose::Purpose;
use super::templates::SecondFactorPage;
use super::{authenticator, change_password};
use domain::Session;
use protocol::oauth::authorize::Due;
use protocol::sign_in::SessionId;

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

/// The session of a person who may do `what` now.
pub(super) struct Admitted {
    pub(super) id: SessionId,
    pub(super) session: Session,
    pub(super) is_due: bool,
}

/// Admits the person to `what`: on the own pages at any time after the sign-in, and for an application only while it is due. While
/// a page was open, the person may have done it in another tab, or another person may have signed in.
pub(super) async fn admit(purpose: &Purpose, what: Due) -> Result<Option<Admitted>, PageFailure> {
    let Some((id, live)) = purpose.browser().live_session().await? else {
        return Ok(None);
    };
    let session = live.session.clone();
    let due = purpose.due(live);
    let is_due = due == Some(what);
    let is_own = purpose.journey().is_none() && due != Some(Due::SecondFactor);
    Ok((is_due || is_own).then_some(Admitted {
        id,
        session,
        is_due,
    }))
}
