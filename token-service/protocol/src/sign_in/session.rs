//! Sign-in sessions of browsers.

use std::sync::Arc;
use std::time::Duration;

use crate::Context;
use crate::lifetimes::Lifetimes;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::random::{self, Random, RandomError};
use domain::{
    CredentialsVersion, ProviderSignIn, Session, SessionPlace, SessionStage, User, Username,
};
use store::StoreError;

const SECOND_FACTOR_TIME: Duration = Duration::from_secs(10 * 60);

/// A use is noted only if more than this part (a tenth) of the idle lifetime has passed since the last one.
const EXTEND_AFTER_PART: u32 = 10;

/// The id of a session: 256 random bits as base64url, 43 characters. The id is a credential, so it has no `Debug`.
#[derive(Clone)]
pub struct SessionId(String);

impl SessionId {
    /// Generates an id. Each stage of a sign-in gets a new id, so an id that an attacker planted in the browser never
    /// becomes signed in (session fixation).
    pub(super) fn generate(random: &dyn Random) -> Result<Self, RandomError> {
        random::text::<32>(random).map(Self)
    }

    /// Reads an id; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        Digest::from_base64url(text).map(|_| Self(text.to_owned()))
    }

    /// The value of the cookie.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Key of the session in the store.
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

/// A live session of an enabled user.
#[derive(Clone)]
pub struct LiveSession {
    pub id: SessionId,
    pub session: Session,
    pub user: Arc<User>,
}

impl LiveSession {
    /// The live session `id`, if its user is enabled. Counts as a use.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn of(context: &Context<'_>, id: SessionId) -> Result<Option<Self>, StoreError> {
        let Some(session) = live(context, &id).await? else {
            return Ok(None);
        };
        let username = &session.username;
        let mut user = context.directory.user(username.as_str()).await?;
        if let Some(known) = &user
            && known.credentials_version != session.credentials_version
        {
            // The copy in memory is from before the password that another replica has set for this session.
            let stored = context.store.user(username.clone()).await?;
            user = stored.filter(|user| user.enabled).map(Arc::new);
        }
        Ok(user.map(|user| Self { id, session, user }))
    }
}

/// A user who has given right credentials.
pub(crate) struct Proven {
    pub(crate) username: Username,
    pub(crate) amr: Vec<String>,
    /// Version of the credentials that the sign-in was checked against.
    pub(crate) credentials_version: CredentialsVersion,
    pub(crate) place: SessionPlace,
    /// See [`Session::provider`].
    pub(crate) provider: Option<ProviderSignIn>,
    /// See [`Session::origin`].
    pub(crate) origin: Option<Digest>,
    /// The sign-in counts as old as this: a proof may be older than the session.
    pub(crate) as_old_as: Timestamp,
}

impl Proven {
    /// The session of this user, which begins at `now`.
    pub(super) fn session(
        self,
        lifetimes: &Lifetimes,
        stage: SessionStage,
        now: Timestamp,
    ) -> Session {
        let (lifetime, idle) = match stage {
            SessionStage::SignedIn => (lifetimes.session, lifetimes.session_idle),
            SessionStage::SecondFactorOwed => (SECOND_FACTOR_TIME, SECOND_FACTOR_TIME),
        };
        let ends_at = now + lifetime;
        Session {
            username: self.username,
            stage,
            amr: self.amr,
            authenticated_at: self.as_old_as,
            expires_at: ends_at.min(now + idle),
            ends_at,
            credentials_version: self.credentials_version,
            origin: self.origin,
            used_at: now,
            place: self.place,
            provider: self.provider,
        }
    }
}

/// New expiry of a session that is used at `now`. `None` if the last use is too recent to be worth a write.
fn extension(session: &Session, idle: Duration, now: Timestamp) -> Option<Timestamp> {
    let wanted = session.ends_at.min(now + idle);
    let is_due = now.since(session.used_at) > idle / EXTEND_AFTER_PART;
    is_due.then(|| wanted.max(session.expires_at))
}

/// Returns the live session `id` and counts this as a use.
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
        let session = |used_at, expires_at| Session {
            username: Username::parse("ada").unwrap(),
            stage: SessionStage::SignedIn,
            amr: vec![],
            authenticated_at: at(0),
            expires_at: at(expires_at),
            ends_at: at(10_000),
            credentials_version: CredentialsVersion::default(),
            origin: None,
            used_at: at(used_at),
            place: SessionPlace::default(),
            provider: None,
        };
        let idle = Duration::from_secs(1000);
        assert_eq!(extension(&session(0, 1000), idle, at(100)), None);
        assert_eq!(extension(&session(0, 1000), idle, at(101)), Some(at(1101)));
        let at_the_end = Some(at(10_000));
        assert_eq!(extension(&session(8700, 9700), idle, at(9500)), at_the_end);
        assert_eq!(
            extension(&session(9100, 10_000), idle, at(9999)),
            at_the_end
        );
        assert_eq!(extension(&session(9900, 10_000), idle, at(9999)), None);
        // The idle lifetime was longer before.
        assert_eq!(extension(&session(0, 5000), idle, at(200)), Some(at(5000)));
    }
}
