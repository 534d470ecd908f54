//! Signing in: passwords, second factors, sessions (protocol.md §5.1).

pub mod again;
pub mod authenticator;
pub mod choice;
pub mod device;
pub mod mailed_link;
mod recovery;
pub mod renewal;
mod second_factor;
pub mod session;
pub(crate) mod throttle;
pub mod totp;

use std::net::IpAddr;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::Context;
use domain::amr;
use domain::random::RandomError;
use domain::{
    Credentials, CredentialsVersion, SessionPlace, SessionStage, UnfinishedSignIns, Username,
};
use secrets::password::{self, Account, Asker, Checked, Task};
use secrets::sealing::SealingError;
use store::{SessionBegin, StoreError};

use device::{DeviceCookie, Devices, KnownDevice};
pub use recovery::recovery_codes_left;
pub use second_factor::{CodeRefusal, SecondFactorOutcome, with_second_factor};
use session::Proven;
pub use session::SessionId;
use throttle::{Attempt, Guess};
pub use throttle::{network, widest_network};

/// A failure inside the service during a sign-in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Random(#[from] RandomError),
    /// Too many passwords wait to be checked, or hashing failed.
    #[error(transparent)]
    Password(#[from] password::PasswordError),
    #[error("the TOTP secret of {0} cannot be opened: {1}")]
    SecretSealed(Username, SealingError),
    #[error("the TOTP secret of {0} is unusable")]
    SecretUnusable(Username),
    #[error("a second factor cannot be set up for {0}")]
    SetUp(Username),
}

#[must_use]
pub enum SignInOutcome {
    Begun(Begun),
    /// The password is wrong, the user does not exist, or the user cannot sign in. All have the same outcome
    /// deliberately. Also returned if the credentials changed during the check (D-35). With the registered spelling of
    /// the name if the user exists, only for the audit log: a look-up there would make the response take longer for
    /// some names than for others.
    Refused(Option<Username>),
    /// The sign-in at a provider is older than a sign-out, a new password or a new app (D-65).
    TooOld(Username),
    /// The provider ended the sign-in before its session began (D-66).
    SignedOut(Username),
    /// There were too many wrong passwords. The person must wait this long. With the name as for [`Self::Refused`].
    Wait(Option<Username>, Duration),
}

impl SignInOutcome {
    fn begun(self) -> Option<Begun> {
        match self {
            Self::Begun(begun) => Some(begun),
            Self::Refused(_) | Self::TooOld(_) | Self::SignedOut(_) | Self::Wait(..) => None,
        }
    }
}

/// A session that has begun.
#[must_use]
pub struct Begun {
    pub id: SessionId,
    /// The registered spelling of the name.
    pub username: Username,
    /// Tells whether the session still needs a second factor.
    pub stage: SessionStage,
    /// The issuer of the identity provider that signed the person in, in place of a password.
    pub provider: Option<String>,
    /// Cookie for a device that was unknown before.
    pub device: Option<DeviceCookie>,
    /// What the person should know of, if the sign-in is complete.
    pub unfinished: UnfinishedSignIns,
}

#[derive(Debug)]
pub struct Place {
    pub address: Option<IpAddr>,
    /// See [`SessionPlace::browser`].
    pub browser: String,
    /// See [`SessionPlace::system`].
    pub system: String,
    /// The devices from the browser's cookie.
    pub devices: Devices,
}

impl Place {
    /// The device, if it is known for these credentials.
    fn known_device(
        &self,
        context: &Context<'_>,
        username: &Username,
        credentials: CredentialsVersion,
    ) -> Option<KnownDevice> {
        let now = context.now;
        let key = &context.encryption_key;
        self.devices.known(key, username, credentials, now)
    }

    /// What a session keeps of the place.
    pub fn in_words(&self) -> SessionPlace {
        SessionPlace {
            network: throttle::network_in_words(self.address),
            browser: self.browser.clone(),
            system: self.system.clone(),
        }
    }

    /// A cookie that makes the device known.
    fn remember(
        &self,
        context: &Context<'_>,
        username: &Username,
        credentials: CredentialsVersion,
    ) -> Result<Option<DeviceCookie>, RandomError> {
        let now = context.now;
        let (key, random) = (&context.encryption_key, context.random);
        self.devices
            .after_sign_in(key, random, username, credentials, now)
    }
}

/// Signs in with username and password, from `place`. The session in `replaces` ends when a new one begins.
///
/// # Errors
/// A [`SignInError`]; no session begins.
pub async fn with_password(
    context: &Context<'_>,
    username: &str,
    password: Zeroizing<String>,
    replaces: Option<&SessionId>,
    place: &Place,
) -> Result<SignInOutcome, SignInError> {
    let known = credentials_of(context, username).await?;
    let stored = known
        .as_ref()
        .and_then(|credentials| credentials.password_hash.clone());
    let device = known.as_ref().and_then(|credentials| {
        place.known_device(context, &credentials.username, credentials.version)
    });
    let checked = check_password(
        context,
        username,
        stored.as_deref(),
        password,
        place.address,
        device.as_ref(),
    );
    let (checked, attempt) = match checked.await? {
        Ok(checked) => checked,
        Err(wait) => {
            let username = known.map(|credentials| credentials.username);
            return Ok(SignInOutcome::Wait(username, wait));
        }
    };
    let refused = |username: Option<Username>| {
        tracing::info!(
            username = username.as_ref().map(Username::as_str),
            "sign-in refused"
        );
        Ok(SignInOutcome::Refused(username))
    };
    let credentials = match known {
        Some(known) if checked.right => known,
        known => return refused(known.map(|credentials| credentials.username)),
    };
    if let (Some(stored), Some(stronger)) = (stored, checked.stronger) {
        // Every process reads the new hash when the service next follows the registrations.
        context
            .store
            .rehash_password(credentials.username.clone(), stored, stronger)
            .await?;
    }
    let stage = after_first_factor(&credentials);
    let origin = match stage {
        SessionStage::SecondFactorOwed => Some(attempt.owe_second_factor().await?),
        SessionStage::SignedIn => {
            attempt.forgive().await?;
            None
        }
    };
    let proven = Proven {
        username: credentials.username,
        amr: vec![amr::PASSWORD.to_owned()],
        credentials_version: credentials.version,
        place: place.in_words(),
        provider: None,
        origin,
        as_old_as: context.now,
    };
    begin(context, proven, stage, replaces, place).await
}

/// Signs in the person who has just set the password with the hash `hash`, with a link. A second factor stays owed. Refused if the
/// credentials have changed once more.
///
/// # Errors
/// A [`SignInError`]; no session begins.
pub async fn with_new_password(
    context: &Context<'_>,
    username: &Username,
    hash: &str,
    replaces: Option<&SessionId>,
    place: &Place,
) -> Result<SignInOutcome, SignInError> {
    let credentials = context.store.credentials(username.clone()).await?;
    let set = |credentials: &Credentials| credentials.password_hash.as_deref() == Some(hash);
    let Some(credentials) = credentials.filter(set) else {
        return Ok(SignInOutcome::Refused(Some(username.clone())));
    };
    let stage = after_first_factor(&credentials);
    let proven = Proven {
        username: credentials.username,
        amr: vec![amr::PASSWORD.to_owned()],
        credentials_version: credentials.version,
        place: place.in_words(),
        provider: None,
        origin: None,
        as_old_as: context.now,
    };
    begin(context, proven, stage, replaces, place).await
}

/// The stage after the first factor: the session owes the second factor that the user has.
pub(crate) const fn after_first_factor(credentials: &Credentials) -> SessionStage {
    match credentials.totp_secret_sealed {
        Some(_) => SessionStage::SecondFactorOwed,
        None => SessionStage::SignedIn,
    }
}

/// Begins a session, which ends `replaces`, in one transaction. A complete sign-in makes the device known.
pub(crate) async fn begin(
    context: &Context<'_>,
    proven: Proven,
    stage: SessionStage,
    replaces: Option<&SessionId>,
    place: &Place,
) -> Result<SignInOutcome, SignInError> {
    let (username, version) = (proven.username.clone(), proven.credentials_version);
    let provider = proven.provider.as_ref();
    let provider = provider.map(|sign_in| sign_in.identity.issuer.clone());
    let session = proven.session(&context.settings.lifetimes, stage, context.now);
    let id = SessionId::generate(context.random)?;
    let replaces = replaces.map(SessionId::digest);
    let start = context.store.start_session(id.digest(), session, replaces);
    let refused = match start.await? {
        SessionBegin::Begun(unfinished) => {
            let device = match stage {
                SessionStage::SignedIn => place.remember(context, &username, version)?,
                SessionStage::SecondFactorOwed => None,
            };
            return Ok(SignInOutcome::Begun(Begun {
                id,
                username,
                stage,
                provider,
                device,
                unfinished,
            }));
        }
        SessionBegin::CredentialsChanged => SignInOutcome::Refused(Some(username.clone())),
        SessionBegin::TooOld => SignInOutcome::TooOld(username.clone()),
        SessionBegin::SignedOut => SignInOutcome::SignedOut(username.clone()),
    };
    tracing::info!(%username, "sign-in refused");
    Ok(refused)
}

/// Counts a request from `address` for a link to set the password of `username`, registered or not. Returns the time to wait if there were
/// too many.
///
/// # Errors
/// [`StoreError`] if the request is not counted.
pub async fn ask_for_link(
    context: &Context<'_>,
    username: &str,
    address: Option<IpAddr>,
) -> Result<Option<Duration>, StoreError> {
    let account = Account::of(username);
    let attempt = Attempt::admit(context, Guess::Link(&account), address, None);
    Ok(attempt.await?.err())
}

/// Counts a link for `email`, no matter who asked for it and for which name. `None` if this mailbox has got so many links that
/// the person can use one of them. Take a link back that the mail server did not take.
///
/// # Errors
/// [`StoreError`] if the link is not counted.
pub async fn count_mailed_link<'a>(
    context: &'a Context<'a>,
    email: &str,
) -> Result<Option<Attempt<'a>>, StoreError> {
    let mailbox = email.to_lowercase();
    let attempt = Attempt::admit(context, Guess::Mailbox(&mailbox), None, None);
    Ok(attempt.await?.ok())
}

/// Checks a password of `username` against the hash `stored`, unless the person must wait. The attempt counts before it
/// takes a place in the queue, so guesses that must wait take no place. The caller forgives the attempt if the password is
/// right.
async fn check_password<'a>(
    context: &'a Context<'a>,
    username: &str,
    stored: Option<&str>,
    password: Zeroizing<String>,
    address: Option<IpAddr>,
    device: Option<&KnownDevice>,
) -> Result<Result<(Checked, Attempt<'a>), Duration>, SignInError> {
    let network = throttle::widest_network(address);
    let asker = match device {
        Some(_) => Asker::KnownDevice,
        None => Asker::Stranger(&network),
    };
    let account = Account::of(username);
    let schemes = &context.summary.password_schemes;
    let task = Task::of(stored, &account, schemes, context.encryption_key)?;
    let request = password::Request::begin(&account, asker, task, password)?;
    let guess = Guess::Password(&account);
    let attempt = match Attempt::admit(context, guess, address, device).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(Err(wait)),
    };
    let checked = match request.queue() {
        Ok(turn) => turn.run().await,
        Err(busy) => Err(busy),
    };
    match checked {
        Ok(checked) => Ok(Ok((checked, attempt))),
        Err(error) => {
            attempt.take_back().await?;
            Err(error.into())
        }
    }
}

/// The credentials of a user, read from the store because the copy in memory may be older than a change.
async fn credentials_of(
    context: &Context<'_>,
    username: &str,
) -> Result<Option<Credentials>, StoreError> {
    match Username::parse(username) {
        Some(username) => context.store.credentials(username).await,
        None => Ok(None),
    }
}

/// Ends the session `id`.
///
/// # Errors
/// [`StoreError`] if the session may still be live.
pub async fn sign_out(context: &Context<'_>, id: &SessionId) -> Result<(), StoreError> {
    context.store.end_session(id.digest()).await
}
