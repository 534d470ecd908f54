//! The second factor: a code of the authenticator app, or a recovery code.

use std::time::Duration;

use zeroize::Zeroizing;

use super::recovery::{self, recovery_codes_left};
use super::session::{self, Proven, SessionId};
use super::throttle::{self, Attempt, Guess};
use super::{Begun, Place, SignInError, begin, totp};
use crate::Context;
use domain::amr;
use domain::{Session, SessionStage, Username};
use secrets::sealing::totp_context;
use store::Use;

#[must_use]
pub enum SecondFactorOutcome {
    /// The code was right: the user is signed in with a new session, whose `amr` names the method.
    SignedIn {
        begun: Begun,
        /// Number of unused recovery codes, after a sign-in with a recovery code.
        recovery_codes_left: Option<usize>,
    },
    Refused(Username, CodeRefusal),
    /// No sign-in waits for a code.
    NotOwed,
}

/// Why a code is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeRefusal {
    Wrong,
    /// The code was right, but used before (RFC 6238 §5.2).
    Used,
    /// There were too many wrong codes. The person must wait this long.
    Wait(Duration),
}

/// The opened TOTP secret of `username`.
fn open(
    context: &Context<'_>,
    username: &Username,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, SignInError> {
    context
        .encryption_key
        .open(&totp_context(username), sealed)
        .map_err(|error| SignInError::SecretSealed(username.clone(), error))
}

/// Checks a code of the app against this secret and marks the code as used.
pub(super) async fn check_totp(
    context: &Context<'_>,
    username: &Username,
    secret: &[u8],
    code: &str,
) -> Result<Result<(), CodeRefusal>, SignInError> {
    let step = totp::step_of(secret, code, context.now)
        .map_err(|totp::Unusable| SignInError::SecretUnusable(username.clone()))?;
    let Some(step) = step else {
        return Ok(Err(CodeRefusal::Wrong));
    };
    Ok(
        match context.store.use_totp_step(username.clone(), step).await? {
            Use::First => Ok(()),
            Use::Again => Err(CodeRefusal::Used),
        },
    )
}

/// Checks a code of this session's person and returns its method: at the sign-in, or again before a change. A recovery code counts only
/// at the sign-in. `None` if the person has no second factor, or the credentials have changed.
pub(super) async fn check(
    context: &Context<'_>,
    session: &Session,
    code: &str,
    place: &Place,
) -> Result<Option<Result<&'static str, CodeRefusal>>, SignInError> {
    let username = &session.username;
    let credentials = context.store.credentials(username.clone()).await?;
    let sealed = credentials
        .filter(|credentials| credentials.version == session.credentials_version)
        .and_then(|credentials| credentials.totp_secret_sealed);
    let Some(sealed) = sealed else {
        return Ok(None);
    };
    let guess = Guess::SecondFactor(username.as_str());
    let device = place.known_device(context, username, session.credentials_version);
    let attempt = match Attempt::admit(context, guess, place.address, device.as_ref()).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(Some(Err(CodeRefusal::Wait(wait)))),
    };
    let recovery_code = match session.stage {
        SessionStage::SecondFactorOwed => recovery::digest(context.encryption_key, username, code),
        SessionStage::SignedIn => None,
    };
    let (checked, method) = match recovery_code {
        Some(code) => {
            let used = context.store.use_recovery_code(username.clone(), code);
            let checked = match used.await? {
                Use::First => Ok(()),
                Use::Again => Err(CodeRefusal::Wrong),
            };
            (checked, amr::RECOVERY_CODE)
        }
        None => {
            let secret = open(context, username, &sealed)?;
            let checked = check_totp(context, username, &secret, code).await?;
            (checked, amr::TOTP)
        }
    };
    if checked.is_ok() {
        attempt.forgive().await?;
        throttle::forgive_password(context, session, device.as_ref()).await?;
    }
    Ok(Some(checked.map(|()| method)))
}

/// Completes the sign-in of the session `id` with a code of the app or a recovery code. A right code is used up even if
/// a later step fails.
///
/// # Errors
/// A [`SignInError`]; the session still waits for the second factor.
pub async fn with_second_factor(
    context: &Context<'_>,
    id: &SessionId,
    code: &str,
    place: &Place,
) -> Result<SecondFactorOutcome, SignInError> {
    let Some(session) = session::live(context, id)
        .await?
        .filter(|session| session.stage == SessionStage::SecondFactorOwed)
    else {
        return Ok(SecondFactorOutcome::NotOwed);
    };
    let method = match check(context, &session, code, place).await? {
        Some(Ok(method)) => method,
        Some(Err(refusal)) => {
            if refusal == CodeRefusal::Wrong {
                tracing::info!(username = %session.username, "second factor refused");
            }
            return Ok(SecondFactorOutcome::Refused(session.username, refusal));
        }
        None => return Ok(SecondFactorOutcome::NotOwed),
    };
    let recovery_codes_left = match method {
        amr::RECOVERY_CODE => recovery_codes_left(context, &session.username).await?,
        _ => None,
    };
    let mut amr = session.amr;
    amr.push(method.to_owned());
    let proven = Proven {
        // A sign-in at a provider stays as old as the provider says.
        as_old_as: match session.provider {
            Some(_) => session.authenticated_at,
            None => context.now,
        },
        username: session.username,
        amr,
        credentials_version: session.credentials_version,
        place: place.in_words(),
        provider: session.provider,
        origin: None,
    };
    let begun = begin(context, proven, SessionStage::SignedIn, Some(id), place).await?;
    Ok(match begun.begun() {
        Some(begun) => SecondFactorOutcome::SignedIn {
            begun,
            recovery_codes_left,
        },
        None => SecondFactorOutcome::NotOwed,
    })
}
