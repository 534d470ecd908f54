//! Sessions: who signed in with this browser, and how far.

use std::time::Duration;

use super::SignInError;
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::random::{self, Random, RandomError};
use crate::service::Service;
use crate::store::{Session, StoreError};

/// How long a sign-in waits for its second factor.
pub(super) const SECOND_FACTOR_TIME: Duration = Duration::from_secs(10 * 60);

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

/// Starts `session` under a new id and ends `replaces`, in one transaction.
pub(super) async fn start(
    service: &Service,
    session: Session,
    replaces: Option<&SessionId>,
) -> Result<SessionId, SignInError> {
    let id = SessionId::generate(service.random.as_ref())?;
    service
        .store
        .start_session(id.digest(), session, replaces.map(SessionId::digest))
        .await?;
    Ok(id)
}

/// The live session `id`.
///
/// # Errors
/// [`StoreError`] when the store has no answer.
pub async fn live(
    service: &Service,
    id: &SessionId,
    now: Timestamp,
) -> Result<Option<Session>, StoreError> {
    service.store.session(id.digest(), now).await
}
