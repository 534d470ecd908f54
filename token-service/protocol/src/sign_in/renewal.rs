//! New recovery codes, for a person who is signed in and has lost the earlier ones.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::again::{self, PasswordRefusal};
use super::second_factor::{self, CodeRefusal};
use super::session::LiveSession;
use super::{Place, SignInError, recovery};
use crate::Context;
use domain::{AuditEvent, Notice};

/// The form with which a person asks for new codes.
pub struct Renewal<'a> {
    /// Not read after a sign-in at an identity provider, whose age the caller checks.
    pub password: Zeroizing<String>,
    /// A code of the app.
    pub code: &'a str,
    /// What the person is told by mail if the codes are replaced.
    pub notice: Option<Notice>,
    /// Entries for the audit log in this case.
    pub audit: Arc<[AuditEvent]>,
}

#[must_use]
pub enum RenewalOutcome {
    /// The new codes; pages show them only once. The earlier ones have ended.
    Done(Vec<String>),
    Password(PasswordRefusal),
    Code(CodeRefusal),
    /// The user has set up no app, or the credentials have changed.
    NotOffered,
}

/// Replaces the recovery codes of the user of this session. Sessions and grants go on: the app stays.
///
/// # Errors
/// A [`SignInError`]; the codes are unchanged.
pub async fn renew(
    context: &Context<'_>,
    live: &LiveSession,
    renewal: Renewal<'_>,
    place: &Place,
) -> Result<RenewalOutcome, SignInError> {
    let session = &live.session;
    if session.provider.is_none() {
        let checked = again::check(context, session, renewal.password, place).await?;
        if let Err(refusal) = checked {
            return Ok(RenewalOutcome::Password(refusal));
        }
    }
    match second_factor::check(context, session, renewal.code, place).await? {
        Some(Ok(_)) => {}
        Some(Err(refusal)) => return Ok(RenewalOutcome::Code(refusal)),
        None => return Ok(RenewalOutcome::NotOffered),
    }
    let username = session.username.clone();
    let (codes, digests) = recovery::generate_all(context, &username)?;
    let replaced = context.store.replace_recovery_codes(
        username,
        digests,
        session.credentials_version,
        renewal.notice,
        renewal.audit,
        context.now,
    );
    Ok(match replaced.await? {
        true => RenewalOutcome::Done(codes),
        false => RenewalOutcome::NotOffered,
    })
}
