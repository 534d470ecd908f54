//! Sessions: who signed in with this browser, and how far.

use std::time::Duration;

use super::SignInError;
use crate::Context;
use crate::lifetimes::Lifetimes;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random::{self, Random, RandomError};
use domain::{CredentialsVersion, Session, SessionStage, Username};
use store::{Begin, StoreError};

/// How long a sign-in waits for its second factor.
const SECOND_FACTOR_TIME: Duration = Duration::from_secs(10 * 60);

/// A use extends a session when a tenth of its idle lifetime has passed.
const EXTEND_AFTER_PART: u32 = 10;

/// The id of a session: 256 random bits as base64url, 43 characters. Whoever knows it is signed in, so it has
/// no `Debug`.
#[derive(Clone)]
pub struct SessionId(String);

impl SessionId {
    /// A new id. Each stage of a sign-in gets one of its own: an id that somebody planted in the browser is
    /// never signed in.
    fn generate(random: &dyn Random) -> Result<Self, RandomError> {
        random::text::<32>(random).map(Self)
    }

    /// Reads an id; `None` when it has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Digest::from_base64url(text).map(|_| Self(text.to_owned()))
    }

    /// The text, for the cookie.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the store knows the session by.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

/// What somebody has proven.
pub(super) struct Proven {
    /// Who it is.
    pub(super) username: Username,
    /// By which methods.
    pub(super) amr: Vec<String>,
    /// The credentials that the proofs were compared with.
    pub(super) credentials_version: CredentialsVersion,
}

/// Starts `session` under a new id and ends `replaces`, in one transaction. `None`, and nothing has changed, when the
/// credentials are others by now than those that were proven.
pub(super) async fn start(
    context: &Context<'_>,
    session: Session,
    replaces: Option<&SessionId>,
) -> Result<Option<SessionId>, SignInError> {
    let id = SessionId::generate(context.random)?;
    let begin = context
        .store
        .start_session(id.digest(), session, replaces.map(SessionId::digest))
        .await?;
    Ok(match begin {
        Begin::Begun => Some(id),
        Begin::CredentialsChanged => None,
    })
}

/// The session of somebody who has proven at `now` who they are.
pub(super) fn signed_in(lifetimes: &Lifetimes, proven: Proven, now: Timestamp) -> Session {
    let ends_at = now + lifetimes.session;
    Session {
        username: proven.username,
        stage: SessionStage::SignedIn,
        amr: proven.amr,
        authenticated_at: now,
        expires_at: ends_at.min(now + lifetimes.session_idle),
        ends_at,
        credentials_version: proven.credentials_version,
    }
}

/// The session of somebody whose password was right at `now`, and who owes the second factor.
pub(super) fn second_factor_owed(proven: Proven, now: Timestamp) -> Session {
    let until = now + SECOND_FACTOR_TIME;
    Session {
        username: proven.username,
        stage: SessionStage::SecondFactorOwed,
        amr: proven.amr,
        authenticated_at: now,
        expires_at: until,
        ends_at: until,
        credentials_version: proven.credentials_version,
    }
}

/// Until when a session lives on that is used at `now`; `None` when that is hardly later than without. A write for each
/// use would be one too many.
fn extension(session: &Session, idle: Duration, now: Timestamp) -> Option<Timestamp> {
    let wanted = session.ends_at.min(now + idle);
    let gained = wanted.since(session.expires_at);
    (gained > idle / EXTEND_AFTER_PART).then_some(wanted)
}

/// The live session `id`; it counts as used.
///
/// # Errors
/// [`StoreError`] when the store has no answer.
pub async fn live(context: &Context<'_>, id: &SessionId) -> Result<Option<Session>, StoreError> {
    let now = context.now;
    let session = context.store.session(id.digest(), now).await?;
    if let Some(session) = &session
        && session.stage == SessionStage::SignedIn
        && let Some(expires_at) = extension(session, context.settings.lifetimes.session_idle, now)
    {
        context
            .store
            .extend_session(id.digest(), expires_at, now)
            .await?;
    }
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    #[test]
    fn use_extends_a_session_now_and_then_and_never_beyond_its_end() {
        let session = |expires_at| Session {
            username: Username::parse("ada").unwrap(),
            stage: SessionStage::SignedIn,
            amr: vec![],
            authenticated_at: at(0),
            expires_at: at(expires_at),
            ends_at: at(10_000),
            credentials_version: CredentialsVersion::default(),
        };
        let idle = Duration::from_secs(1000);
        assert_eq!(extension(&session(1000), idle, at(100)), None);
        assert_eq!(extension(&session(1000), idle, at(101)), Some(at(1101)));
        assert_eq!(extension(&session(9700), idle, at(9500)), Some(at(10_000)));
        assert_eq!(extension(&session(10_000), idle, at(9999)), None);
    }
}
