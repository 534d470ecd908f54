//! The second factor: a code of the authenticator app, or a recovery code.

use std::time::Duration;

use zeroize::Zeroizing;

use super::recovery::{self, recovery_codes_left};
use super::session::{self, Proven, SessionId};
use super::throttle::{self, Attempt, Guess};
use super::{DeviceCookie, Place, SignInError, totp};
use crate::Context;
use domain::amr;
use domain::{Session, SessionStage, UnfinishedSignIns, Username};
use secrets::sealing::totp_context;
use store::{SessionBegin, Use};

#[must_use]
pub enum SecondFactorOutcome {
    /// The code was right: the user is signed in with a new session, whose `amr` names the method.
    SignedIn {
        id: SessionId,
        username: Username,
        /// The issuer of the identity provider that signed the person in, in place of a password.
        provider: Option<String>,
        /// Number of unused recovery codes, after a sign-in with a recovery code.
        recovery_codes_left: Option<usize>,
        /// Cookie for a device that was unknown before.
        device: Option<DeviceCookie>,
        /// What the person should know of.
        unfinished: UnfinishedSignIns,
    },
    Wrong(Username),
    /// The code was right, but used before (RFC 6238 §5.2).
    Used(Username),
    /// There were too many wrong codes. The person must wait this long.
    Wait(Username, Duration),
    /// No sign-in waits for a code.
    NotOwed,
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

pub(super) enum Verdict {
    Right,
    Wrong,
    Used,
}

/// Checks a code of the app against this secret and marks the code as used.
pub(super) async fn check_totp(
    context: &Context<'_>,
    username: &Username,
    secret: &[u8],
    code: &str,
) -> Result<Verdict, SignInError> {
    let now = context.now;
    let step = totp::step_of(secret, code, now)
        .map_err(|totp::Unusable| SignInError::SecretUnusable(username.clone()))?;
    let Some(step) = step else {
        return Ok(Verdict::Wrong);
    };
    Ok(
        match context.store.use_totp_step(username.clone(), step).await? {
            Use::First => Verdict::Right,
            Use::Again => Verdict::Used,
        },
    )
}

/// Why a code of a person who is signed in is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeRefusal {
    Wrong,
    /// The code was right, but used before (RFC 6238 §5.2).
    Used,
    /// There were too many wrong codes. The person must wait this long.
    Wait(Duration),
}

/// Checks a code of the app of this session's person, before a change. Counts like the code of a sign-in. `None` if the person has no
/// second factor, or the credentials have changed.
pub(super) async fn check_again(
    context: &Context<'_>,
    session: &Session,
    code: &str,
    place: &Place,
) -> Result<Option<Result<(), CodeRefusal>>, SignInError> {
    let username = &session.username;
    let Some(sealed) = sealed_secret(context, session).await? else {
        return Ok(None);
    };
    let guess = Guess::SecondFactor(username.as_str());
    let device = place.known_device(context, username, session.credentials_version);
    let attempt = match Attempt::admit(context, guess, place.address, device.as_ref()).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(Some(Err(CodeRefusal::Wait(wait)))),
    };
    let secret = open(context, username, &sealed)?;
    Ok(Some(
        match check_totp(context, username, &secret, code).await? {
            Verdict::Right => {
                attempt.forgive().await?;
                Ok(())
            }
            Verdict::Wrong => Err(CodeRefusal::Wrong),
            Verdict::Used => Err(CodeRefusal::Used),
        },
    ))
}

/// The sealed TOTP secret of this session's person, unless the credentials have changed.
async fn sealed_secret(
    context: &Context<'_>,
    session: &Session,
) -> Result<Option<Vec<u8>>, SignInError> {
    let credentials = context.store.credentials(session.username.clone()).await?;
    Ok(credentials
        .filter(|credentials| credentials.version == session.credentials_version)
        .and_then(|credentials| credentials.totp_secret_sealed))
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
    let now = context.now;
    let Some(session) = session::live(context, id)
        .await?
        .filter(|session| session.stage == SessionStage::SecondFactorOwed)
    else {
        return Ok(SecondFactorOutcome::NotOwed);
    };
    let username = &session.username;
    let Some(sealed) = sealed_secret(context, &session).await? else {
        return Ok(SecondFactorOutcome::NotOwed);
    };
    let guess = Guess::SecondFactor(username.as_str());
    let device = place.known_device(context, username, session.credentials_version);
    let attempt = match Attempt::admit(context, guess, place.address, device.as_ref()).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(SecondFactorOutcome::Wait(username.clone(), wait)),
    };
    let recovery_code = recovery::digest(context.encryption_key, username, code);
    let by_recovery_code = recovery_code.is_some();
    let (verdict, method) = match recovery_code {
        Some(code) => {
            let used = context.store.use_recovery_code(username.clone(), code);
            let verdict = match used.await? {
                Use::First => Verdict::Right,
                Use::Again => Verdict::Wrong,
            };
            (verdict, amr::RECOVERY_CODE)
        }
        None => {
            let secret = open(context, username, &sealed)?;
            let verdict = check_totp(context, username, &secret, code).await?;
            (verdict, amr::TOTP)
        }
    };
    match verdict {
        Verdict::Right => {}
        Verdict::Wrong => {
            tracing::info!(%username, "second factor refused");
            return Ok(SecondFactorOutcome::Wrong(session.username));
        }
        Verdict::Used => return Ok(SecondFactorOutcome::Used(session.username)),
    }
    attempt.forgive().await?;
    throttle::forgive_password(context, &session, device.as_ref()).await?;
    let recovery_codes_left = if by_recovery_code {
        recovery_codes_left(context, username).await?
    } else {
        None
    };
    let mut amr = session.amr;
    amr.push(method.to_owned());
    let proven = Proven {
        username: session.username.clone(),
        amr,
        credentials_version: session.credentials_version,
        place: place.in_words(),
        provider: session.provider,
    };
    let at_provider = proven
        .provider
        .is_some()
        .then_some(session.authenticated_at);
    let provider = (proven.provider.as_ref()).map(|sign_in| sign_in.identity.issuer.clone());
    let mut complete = session::signed_in(&context.settings.lifetimes, proven, now);
    // The sign-in stays as old as the provider says.
    complete.authenticated_at = at_provider.unwrap_or(now);
    let (id, SessionBegin::Begun(unfinished)) = session::start(context, complete, Some(id)).await?
    else {
        return Ok(SecondFactorOutcome::NotOwed);
    };
    let device = place.remember(context, &session.username, session.credentials_version)?;
    Ok(SecondFactorOutcome::SignedIn {
        id,
        username: session.username,
        provider,
        recovery_codes_left,
        device,
        unfinished,
    })
}
