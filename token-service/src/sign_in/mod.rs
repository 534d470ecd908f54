//! Signing in: passwords, second factors, sessions (spec §5.1, design section 8).

pub mod authenticator;
pub mod password;
pub mod protection;
mod recovery;
mod second_factor;
pub mod session;
mod throttle;
pub mod totp;

use std::net::IpAddr;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::clock::Timestamp;
use crate::random::RandomError;
use crate::registry::Username;
use crate::sealing::SealingError;
use crate::service::Service;
use crate::store::{SessionStage, StoreError};

use password::Turn;
pub use second_factor::{SecondFactorOutcome, with_second_factor};
pub use session::SessionId;
pub use throttle::network;
use throttle::{Attempt, Guess};

/// `amr` of a password (D-11).
const AMR_PASSWORD: &str = "USERNAME_PASSWORD";
/// `amr` of a time-based one-time code (D-11).
const AMR_TOTP: &str = "TOTP";
/// `amr` of a recovery code.
const AMR_RECOVERY_CODE: &str = "RECOVERY_CODE";

/// Why a sign-in has no outcome: none of it the person's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// The store has no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No randomness for a session id.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// Too many passwords wait to be checked, or hashing failed.
    #[error(transparent)]
    Password(#[from] password::PasswordError),
    /// The user's TOTP secret cannot be opened.
    #[error("the TOTP secret of {0} cannot be opened: {1}")]
    SecretSealed(Username, SealingError),
    /// The user's TOTP secret is too short to be one.
    #[error("the TOTP secret of {0} is unusable")]
    SecretUnusable(Username),
    /// A new TOTP secret cannot be sealed or shown.
    #[error("a second factor cannot be set up for {0}")]
    SetUp(Username),
}

/// The outcome of a password.
#[must_use]
pub enum PasswordOutcome {
    /// Right: this session is begun, and may still owe a second factor.
    Begun(SessionId, SessionStage),
    /// Wrong, or no such user, or one who cannot sign in: deliberately one answer for all.
    Refused,
    /// There were too many wrong ones: the next may be tried after this time.
    Wait(Duration),
}

/// Signs in with username and password, from a client at `address`. The session in `replaces` ends when a new one
/// begins.
///
/// # Errors
/// A [`SignInError`]; nothing is begun then.
pub async fn with_password(
    service: &Service,
    username: &str,
    password: Zeroizing<String>,
    replaces: Option<&SessionId>,
    address: Option<IpAddr>,
    now: Timestamp,
) -> Result<PasswordOutcome, SignInError> {
    let registry = service.registry();
    let user = registry.user(username);
    // However the name is typed, its guesses count together.
    let normal = Username::parse(username);
    let username = normal.as_ref().map_or(username, Username::as_str);
    let stored = user.and_then(|user| user.password_hash.clone());
    let turn = Turn::queue()?;
    let attempt = match Attempt::admit(service, Guess::Password(username), address, now).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(PasswordOutcome::Wait(wait)),
    };
    let checked = turn.check(stored.clone(), password).await?;
    let Some(user) = user.filter(|_| checked.right) else {
        tracing::info!(
            username = user.map(|user| user.username.as_str()),
            "sign-in refused"
        );
        return Ok(PasswordOutcome::Refused);
    };
    attempt.forgive().await?;
    if let (Some(stored), Some(stronger)) = (stored, checked.stronger) {
        // Every process takes it up with its next look at the registry.
        service
            .store
            .rehash_password(user.username.clone(), stored, stronger)
            .await?;
    }
    let (username, amr) = (user.username.clone(), vec![AMR_PASSWORD.to_owned()]);
    let session = if second_factor::is_owed(service, user).await? {
        session::second_factor_owed(username, amr, now)
    } else {
        session::signed_in(&service.config.lifetimes, username, amr, now)
    };
    let stage = session.stage;
    let id = session::start(service, session, replaces).await?;
    Ok(PasswordOutcome::Begun(id, stage))
}

/// Ends the session `id`.
///
/// # Errors
/// [`StoreError`] when it may still be alive.
pub async fn sign_out(service: &Service, id: &SessionId) -> Result<(), StoreError> {
    service.store.end_session(id.digest()).await
}
