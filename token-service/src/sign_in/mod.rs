//! Signing in: passwords, second factors, sessions (spec §5.1, design section 8).

pub mod password;
pub mod protection;
pub mod session;
pub mod totp;

use crate::clock::Timestamp;
use crate::random::RandomError;
use crate::registry::Username;
use crate::sealing::SealingError;
use crate::service::Service;
use crate::store::{Claim, Session, SessionStage, StoreError};

pub use session::SessionId;

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
    /// There is no sign-in that waits for a code.
    NotOwed,
}

/// Signs in with username and password. The session in `replaces` ends when a new one begins.
///
/// # Errors
/// A [`SignInError`]; nothing is begun then.
pub async fn with_password(
    service: &Service,
    username: &str,
    password: String,
    replaces: Option<&SessionId>,
    now: Timestamp,
) -> Result<PasswordOutcome, SignInError> {
    let registry = service.registry();
    let user = registry.user(username);
    let stored = user.and_then(|user| user.password_hash.clone());
    let right = password::check(stored, password).await?;
    let Some(user) = user.filter(|_| right) else {
        tracing::info!(
            username = user.map(|user| user.username.as_str()),
            "sign-in refused"
        );
        return Ok(PasswordOutcome::Refused);
    };
    let (stage, lifetime) = match user.totp_secret_sealed {
        Some(_) => (SessionStage::SecondFactorOwed, session::SECOND_FACTOR_TIME),
        None => (SessionStage::SignedIn, service.config.lifetimes.session),
    };
    let session = Session {
        username: user.username.clone(),
        stage,
        amr: vec![AMR_PASSWORD.to_owned()],
        authenticated_at: now,
        expires_at: now + lifetime,
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
    let mut amr = session.amr;
    amr.push(AMR_TOTP.to_owned());
    let complete = Session {
        username: session.username.clone(),
        stage: SessionStage::SignedIn,
        amr,
        authenticated_at: now,
        expires_at: now + service.config.lifetimes.session,
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
