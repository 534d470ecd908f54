//! Whether a person who is signed in has to prove again who they are before a change, because somebody else may be using an
//! unattended browser. New credentials need the password in their form, all other changes a recent sign-in.

use std::time::Duration;

use zeroize::Zeroizing;

use super::session::{LiveSession, Proven};
use super::{Begun, Place, SignInError, begin, check_password};
use crate::Context;
use crate::lifetimes::Lifetimes;
use domain::clock::Timestamp;
use domain::{Session, SessionStage, amr};
use secrets::password::Checked;

/// Why the person may not make the change yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordRefusal {
    /// The form has no password.
    Missing,
    Wrong,
    /// There were too many wrong passwords. The person must wait this long.
    Wait(Duration),
}

/// True if what the person proved `at` this time is enough for a change now.
pub fn is_recent(lifetimes: &Lifetimes, at: Timestamp, now: Timestamp) -> bool {
    now.since(at) < lifetimes.recent_sign_in
}

/// A new session in place of `live`, which ended when its person set another password, with the hash `hash`. `None` if the credentials
/// have changed once more.
///
/// # Errors
/// A [`SignInError`]; no session begins.
pub async fn go_on(
    context: &Context<'_>,
    live: &LiveSession,
    hash: &str,
    place: &Place,
) -> Result<Option<Begun>, SignInError> {
    let ended = &live.session;
    let credentials = context.store.credentials(ended.username.clone()).await?;
    let Some(credentials) = credentials.filter(|credentials| {
        let has_second_factor = credentials.totp_secret_sealed.is_some();
        credentials.password_hash.as_deref() == Some(hash)
            && has_second_factor == amr::has_second_factor(&ended.amr)
    }) else {
        return Ok(None);
    };
    let proven = Proven {
        username: ended.username.clone(),
        amr: ended.amr.clone(),
        place: ended.place.clone(),
        provider: match &ended.provider {
            // The change of the password is later than the sign-in, and this person made it.
            Some(sign_in) => {
                let user = context.store.user(ended.username.clone()).await?;
                let changed_at = user.map(|user| user.sign_ins_from);
                Some(sign_in.clone().confirmed(changed_at.unwrap_or_default()))
            }
            None => None,
        },
        credentials_version: credentials.version,
        origin: None,
        as_old_as: context.now,
    };
    let begun = begin(
        context,
        proven,
        SessionStage::SignedIn,
        Some(&live.id),
        place,
    )
    .await?;
    Ok(begun.begun())
}

/// Checks the password of this session's person.
///
/// # Errors
/// A [`SignInError`].
pub async fn check(
    context: &Context<'_>,
    session: &Session,
    password: Zeroizing<String>,
    place: &Place,
) -> Result<Result<(), PasswordRefusal>, SignInError> {
    if password.is_empty() {
        return Ok(Err(PasswordRefusal::Missing));
    }
    let username = &session.username;
    let device = place.known_device(context, username, session.credentials_version);
    let credentials = context.store.credentials(username.clone()).await?;
    let stored = credentials
        .filter(|credentials| credentials.version == session.credentials_version)
        .and_then(|credentials| credentials.password_hash);
    let checked = check_password(
        context,
        username.as_str(),
        stored.as_deref(),
        password,
        place.address,
        device.as_ref(),
    );
    Ok(match checked.await? {
        Ok((Checked { right: true, .. }, attempt)) => {
            attempt.forgive().await?;
            Ok(())
        }
        Ok(_) => Err(PasswordRefusal::Wrong),
        Err(wait) => Err(PasswordRefusal::Wait(wait)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_proved_counts_for_ten_minutes() {
        let at = Timestamp::from_seconds(1_800_000_000);
        for (seconds, expected) in [(0, true), (599, true), (600, false)] {
            let now = at + Duration::from_secs(seconds);
            assert_eq!(is_recent(&Lifetimes::default(), at, now), expected);
        }
    }
}
