//! Signing in: passwords, second factors, sessions (spec §5.1, design section 8).

pub mod password;
pub mod protection;
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
use crate::store::{Claim, Session, SessionStage, StoreError};

use password::Turn;
pub use session::SessionId;
use throttle::{Attempt, Guess};

/// `amr` of a password (D-11).
const AMR_PASSWORD: &str = "USERNAME_PASSWORD";
/// `amr` of a time-based one-time code (D-11).
const AMR_TOTP: &str = "TOTP";

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

/// The outcome of a second factor.
#[must_use]
pub enum SecondFactorOutcome {
    /// Right: signed in, with a new session.
    SignedIn(SessionId, Username),
    /// The code is wrong.
    Wrong(Username),
    /// The code was right, but used before (RFC 6238 §5.2).
    Used(Username),
    /// There were too many wrong ones: the next may be tried after this time.
    Wait(Duration),
    /// There is no sign-in that waits for a code.
    NotOwed,
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
    let stored = user.and_then(|user| user.password_hash.clone());
    let turn = Turn::queue()?;
    let attempt = match Attempt::admit(service, Guess::Password(username), address, now).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(PasswordOutcome::Wait(wait)),
    };
    let right = turn.check(stored, password).await?;
    let Some(user) = user.filter(|_| right) else {
        tracing::info!(
            username = user.map(|user| user.username.as_str()),
            "sign-in refused"
        );
        return Ok(PasswordOutcome::Refused);
    };
    attempt.forgive().await?;
    let (stage, (expires_at, ends_at)) = match user.totp_secret_sealed {
        Some(_) => {
            let until = now + session::SECOND_FACTOR_TIME;
            (SessionStage::SecondFactorOwed, (until, until))
        }
        None => {
            let until = session::signed_in_until(&service.config.lifetimes, now);
            (SessionStage::SignedIn, until)
        }
    };
    let session = Session {
        username: user.username.clone(),
        stage,
        amr: vec![AMR_PASSWORD.to_owned()],
        authenticated_at: now,
        expires_at,
        ends_at,
    };
    let id = session::start(service, session, replaces).await?;
    Ok(PasswordOutcome::Begun(id, stage))
}

/// Completes the sign-in of the session `id` with a one-time code. A right code is used up whatever follows.
///
/// # Errors
/// A [`SignInError`]; the session still waits then.
pub async fn with_second_factor(
    service: &Service,
    id: &SessionId,
    code: &str,
    address: Option<IpAddr>,
    now: Timestamp,
) -> Result<SecondFactorOutcome, SignInError> {
    let Some(session) = session::live(service, id, now)
        .await?
        .filter(|session| session.stage == SessionStage::SecondFactorOwed)
    else {
        return Ok(SecondFactorOutcome::NotOwed);
    };
    let registry = service.registry();
    let user = registry.user(session.username.as_str());
    let Some((user, sealed)) =
        user.and_then(|user| Some((user, user.totp_secret_sealed.as_ref()?)))
    else {
        return Ok(SecondFactorOutcome::NotOwed);
    };
    let guess = Guess::SecondFactor(user.username.as_str());
    let attempt = match Attempt::admit(service, guess, address, now).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(SecondFactorOutcome::Wait(wait)),
    };
    let secret = service
        .encryption_key
        .open(&totp::sealing_context(&user.username), sealed)
        .map_err(|error| SignInError::SecretSealed(user.username.clone(), error))?;
    let step = totp::step_of(&secret, code, now)
        .map_err(|totp::Unusable| SignInError::SecretUnusable(user.username.clone()))?;
    let Some(step) = step else {
        tracing::info!(username = %user.username, "second factor refused");
        return Ok(SecondFactorOutcome::Wrong(session.username));
    };
    match service
        .store
        .claim_totp_step(user.username.clone(), step)
        .await?
    {
        Claim::Claimed => {}
        Claim::AlreadyClaimed => return Ok(SecondFactorOutcome::Used(session.username)),
    }
    attempt.forgive().await?;
    let mut amr = session.amr;
    amr.push(AMR_TOTP.to_owned());
    let (expires_at, ends_at) = session::signed_in_until(&service.config.lifetimes, now);
    let complete = Session {
        username: session.username.clone(),
        stage: SessionStage::SignedIn,
        amr,
        authenticated_at: now,
        expires_at,
        ends_at,
    };
    let id = session::start(service, complete, Some(id)).await?;
    Ok(SecondFactorOutcome::SignedIn(id, session.username))
}

/// Ends the session `id`.
///
/// # Errors
/// [`StoreError`] when it may still be alive.
pub async fn sign_out(service: &Service, id: &SessionId) -> Result<(), StoreError> {
    service.store.end_session(id.digest()).await
}
