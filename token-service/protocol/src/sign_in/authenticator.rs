//! Set-up of an authenticator app: the service offers a new secret, and the person accepts the offer with the first
//! code.
//!
//! The service does not store the offer: the page contains the secret, sealed for this session, and the form sends it
//! back.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use zeroize::Zeroizing;

use super::password::Checked;
use super::second_factor::{Verdict, check_totp};
use super::session::{self, Proven, SessionId};
use super::{
    AMR_PASSWORD, AMR_TOTP, DeviceCookie, Place, SignInError, check_password, recovery, totp,
};
use crate::Context;
use domain::{SecondFactor, Session, SessionStage, Username, random};
use store::StoreError;

/// 160 bits (RFC 4226 §4).
const SECRET_BYTES: usize = 20;

/// A new secret for the authenticator app.
pub struct Offer {
    /// `otpauth` URL, for the QR code of the page.
    pub url: Zeroizing<String>,
    /// The secret in BASE32, for typing.
    pub secret: Zeroizing<String>,
    /// The sealed secret in base64url, for the form. Valid only in the same session.
    pub sealed: String,
}

/// The outcome of an acceptance.
#[must_use]
pub enum SetUpOutcome {
    /// The app is the second factor from now on. All earlier sessions have ended; this is the new session.
    Done {
        /// The new session.
        id: SessionId,
        username: Username,
        /// New recovery codes; pages show them only once.
        recovery_codes: Vec<String>,
        /// Cookie that makes the device known, with the new second factor.
        device: Option<DeviceCookie>,
    },
    /// The password is wrong.
    PasswordRefused(Username),
    /// The code is wrong.
    CodeWrong,
    /// The code was right, but a code of the same or a later time step was used before.
    CodeUsed,
    /// There were too many wrong passwords. The person must wait this long.
    Wait(Username, Duration),
    /// No user is signed in, or the offer belongs to another session.
    NotOffered,
}

/// The form that the person sent.
pub struct Acceptance<'a> {
    /// The offer's sealed secret.
    pub sealed: &'a str,
    /// The password again, because somebody else may be using an unattended browser.
    pub password: Zeroizing<String>,
    /// The first code of the app.
    pub code: &'a str,
}

/// The session `id` of a person who is signed in.
async fn signed_in(context: &Context<'_>, id: &SessionId) -> Result<Option<Session>, StoreError> {
    let session = session::live(context, id).await?;
    let Some(session) = session.filter(|session| session.stage == SessionStage::SignedIn) else {
        return Ok(None);
    };
    let user = context.registrations.user(session.username.as_str());
    Ok(user.await?.map(|_| session))
}

fn sealing_context(id: &SessionId, username: &Username) -> String {
    let session = URL_SAFE_NO_PAD.encode(id.digest().as_bytes());
    format!("offered totp:{session}:{username}")
}

/// Offers a new secret to the user of the session `id`. `None` if the session is not live.
///
/// # Errors
/// A [`SignInError`].
pub async fn offer(context: &Context<'_>, id: &SessionId) -> Result<Option<Offer>, SignInError> {
    let Some(Session { username, .. }) = signed_in(context, id).await? else {
        return Ok(None);
    };
    let secret = Zeroizing::new(random::bytes::<SECRET_BYTES>(context.random)?);
    present(context, id, &username, &*secret).map(Some)
}

/// The offer from a submitted form, for showing the page again. `None` if the offer belongs to another session.
///
/// # Errors
/// A [`SignInError`].
pub async fn offered(
    context: &Context<'_>,
    id: &SessionId,
    sealed: &str,
) -> Result<Option<Offer>, SignInError> {
    let Some(Session { username, .. }) = signed_in(context, id).await? else {
        return Ok(None);
    };
    match unseal(context, id, &username, sealed) {
        Some(secret) => present(context, id, &username, &secret).map(Some),
        None => Ok(None),
    }
}

fn present(
    context: &Context<'_>,
    id: &SessionId,
    username: &Username,
    secret: &[u8],
) -> Result<Offer, SignInError> {
    let unusable = || SignInError::SetUp(username.clone());
    let url = totp::url(secret, username, &context.settings.name).ok_or_else(unusable)?;
    let sealed = context
        .encryption_key
        .seal(&sealing_context(id, username), secret)
        .map_err(|_| unusable())?;
    Ok(Offer {
        url: Zeroizing::new(url),
        secret: Zeroizing::new(BASE32_NOPAD.encode(secret)),
        sealed: URL_SAFE_NO_PAD.encode(sealed),
    })
}

fn unseal(
    context: &Context<'_>,
    id: &SessionId,
    username: &Username,
    sealed: &str,
) -> Option<Zeroizing<Vec<u8>>> {
    let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    context
        .encryption_key
        .open(&sealing_context(id, username), &sealed)
        .ok()
}

/// Accepts an offer: the app becomes the second factor of the user of the session `id`. All other sessions end, and all
/// grants of the user are revoked (D-35).
///
/// # Errors
/// A [`SignInError`]; the second factor is unchanged.
pub async fn accept(
    context: &Context<'_>,
    id: &SessionId,
    acceptance: Acceptance<'_>,
    place: Place<'_>,
) -> Result<SetUpOutcome, SignInError> {
    let now = context.now;
    let Some(session) = signed_in(context, id).await? else {
        return Ok(SetUpOutcome::NotOffered);
    };
    let username = session.username;
    let Some(secret) = unseal(context, id, &username, acceptance.sealed) else {
        return Ok(SetUpOutcome::NotOffered);
    };
    let device = place.known_device(context, &username, session.credentials_version);
    let credentials = context.store.credentials(username.clone()).await?;
    let stored = credentials
        .filter(|credentials| credentials.version == session.credentials_version)
        .and_then(|credentials| credentials.password_hash);
    let checked = check_password(
        context,
        username.as_str(),
        stored,
        acceptance.password,
        place.address,
        device.as_ref(),
    );
    match checked.await? {
        Ok(Checked { right: true, .. }) => {}
        Ok(_) => return Ok(SetUpOutcome::PasswordRefused(username)),
        Err(wait) => return Ok(SetUpOutcome::Wait(username, wait)),
    }
    match check_totp(context, &username, &secret, acceptance.code).await? {
        Verdict::Right => {}
        Verdict::Wrong => return Ok(SetUpOutcome::CodeWrong),
        Verdict::Used => return Ok(SetUpOutcome::CodeUsed),
    }
    let recovery_codes = (0..recovery::COUNT)
        .map(|_| recovery::generate(context.random))
        .collect::<Result<Vec<_>, _>>()?;
    let digests = recovery_codes
        .iter()
        .filter_map(|code| recovery::digest(context.encryption_key, &username, code));
    let second_factor = SecondFactor {
        totp_secret_sealed: context
            .encryption_key
            .seal(&totp::sealing_context(&username), &secret)
            .map_err(|_| SignInError::SetUp(username.clone()))?,
        recovery_codes: digests.collect(),
    };
    let rests_on = Some(session.credentials_version);
    let set = context
        .store
        .set_second_factor(username.clone(), Some(second_factor), rests_on, now)
        .await?;
    let Some(credentials_version) = set else {
        return Ok(SetUpOutcome::NotOffered);
    };
    let proven = Proven {
        username: username.clone(),
        amr: vec![AMR_PASSWORD.to_owned(), AMR_TOTP.to_owned()],
        credentials_version,
    };
    let session = session::signed_in(&context.settings.lifetimes, proven, now);
    let Some(id) = session::start(context, session, Some(id)).await? else {
        return Ok(SetUpOutcome::NotOffered);
    };
    let device = place.remember(context, &username, credentials_version)?;
    Ok(SetUpOutcome::Done {
        id,
        username,
        recovery_codes,
        device,
    })
}
