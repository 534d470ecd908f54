//! Set-up of an authenticator app: the service offers a new secret, and the person accepts the offer with the first
//! code.
//!
//! The service does not store the offer: the page contains the secret, sealed for this session, and the form sends it
//! back. After a right password with a wrong code, the sealed part also contains the time of that password, so that the
//! person types only the next code.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use zeroize::Zeroizing;

use super::again::{self, PasswordRefusal};
use super::second_factor::{CodeRefusal, check_totp};
use super::session::{LiveSession, Proven, SessionId};
use super::{Begun, Place, SignInError, begin, recovery, totp};
use crate::Context;
use domain::amr;
use domain::clock::Timestamp;
use domain::{AuditEvent, Notice, SecondFactor, Session, SessionStage, Username, random};
use secrets::sealing::{SealingError, totp_context};

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
    /// True if the form need not ask for the password: the person typed it a moment ago, with a wrong code.
    pub is_password_proven: bool,
}

#[must_use]
pub enum SetUpOutcome {
    /// The app is the second factor from now on. All earlier sessions have ended; this is the new session.
    Done {
        begun: Begun,
        /// New recovery codes; pages show them only once.
        recovery_codes: Vec<String>,
    },
    /// The second factor is unchanged, and the person may try again.
    Refused { reason: SetUpRefusal, offer: Offer },
    /// The offer belongs to another session, or the credentials have changed.
    NotOffered,
}

/// Reason why the app is not set up yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetUpRefusal {
    /// The time of an earlier password is over, too.
    Password(PasswordRefusal),
    Code(CodeRefusal),
}

/// The form that the person sent.
pub struct Acceptance<'a> {
    /// The offer's sealed secret.
    pub sealed: &'a str,
    /// The password again, because somebody else may be using an unattended browser. Not read if the password of this
    /// offer was right a moment ago.
    pub password: Zeroizing<String>,
    /// The first code of the app.
    pub code: &'a str,
    /// What the person is told by mail if the app becomes the second factor.
    pub notice: Option<Notice>,
    /// Entries for the audit log in this case.
    pub audit: Arc<[AuditEvent]>,
}

/// The sealed part of a page.
struct Offered {
    secret: Zeroizing<Vec<u8>>,
    /// When the person typed the right password for this offer.
    password_right_at: Option<Timestamp>,
}

impl Offered {
    /// Names the layout too: raise the number when the layout changes.
    fn sealing_context(id: &SessionId, username: &Username) -> String {
        let session = URL_SAFE_NO_PAD.encode(id.digest().as_bytes());
        format!("offered totp 1:{session}:{username}")
    }

    /// The time in seconds (8 bytes, 0 without a right password), then the secret.
    fn seal(
        &self,
        context: &Context<'_>,
        id: &SessionId,
        username: &Username,
    ) -> Result<String, SealingError> {
        let at = self.password_right_at.map_or(0, Timestamp::seconds);
        let content = Zeroizing::new([at.to_be_bytes().as_slice(), &self.secret].concat());
        let purpose = Self::sealing_context(id, username);
        let sealed = context.encryption_key.seal(&purpose, &content)?;
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// `None` if the offer belongs to another session.
    fn open(
        context: &Context<'_>,
        id: &SessionId,
        username: &Username,
        sealed: &str,
    ) -> Option<Self> {
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let purpose = Self::sealing_context(id, username);
        let content = context.encryption_key.open(&purpose, &sealed).ok()?;
        let (at, secret) = content.split_first_chunk()?;
        let at = u64::from_be_bytes(*at);
        Some(Self {
            secret: Zeroizing::new(secret.to_vec()),
            password_right_at: (at > 0).then(|| Timestamp::from_seconds(at)),
        })
    }

    fn is_password_proven(&self, context: &Context<'_>) -> bool {
        let lifetimes = &context.settings.lifetimes;
        self.password_right_at
            .is_some_and(|at| again::is_recent(lifetimes, at, context.now))
    }
}

/// Offers a new secret to the user of this session. With `after_sign_in`, the password of the sign-in counts for the offer.
pub fn offer(
    context: &Context<'_>,
    live: &LiveSession,
    after_sign_in: bool,
) -> Result<Offer, SignInError> {
    let secret = Zeroizing::new(random::bytes::<SECRET_BYTES>(context.random)?);
    let offered = Offered {
        secret: Zeroizing::new(secret.to_vec()),
        password_right_at: after_sign_in.then_some(live.session.authenticated_at),
    };
    present(context, live, &offered)
}

fn present(
    context: &Context<'_>,
    live: &LiveSession,
    offered: &Offered,
) -> Result<Offer, SignInError> {
    let username = &live.session.username;
    let unusable = || SignInError::SetUp(username.clone());
    let secret = offered.secret.as_slice();
    let url = totp::url(secret, username, &context.settings.name).ok_or_else(unusable)?;
    let sealed = offered
        .seal(context, &live.id, username)
        .map_err(|_| unusable())?;
    Ok(Offer {
        url: Zeroizing::new(url),
        secret: Zeroizing::new(BASE32_NOPAD.encode(secret)),
        sealed,
        is_password_proven: offered.is_password_proven(context),
    })
}

/// Checks the password of an acceptance, unless the password for the same offer was right a moment ago.
async fn check(
    context: &Context<'_>,
    session: &Session,
    offered: &mut Offered,
    password: Zeroizing<String>,
    place: &Place,
) -> Result<Result<(), SetUpRefusal>, SignInError> {
    let now = context.now;
    if offered.is_password_proven(context) {
        return Ok(Ok(()));
    }
    let checked = again::check(context, session, password, place).await?;
    if checked.is_ok() {
        offered.password_right_at = Some(now);
    }
    Ok(checked.map_err(SetUpRefusal::Password))
}

/// Accepts an offer: the app becomes the second factor of the user of this session. All other sessions end, and all
/// grants of the user are revoked (D-35).
///
/// # Errors
/// A [`SignInError`]; the second factor is unchanged.
pub async fn accept(
    context: &Context<'_>,
    live: &LiveSession,
    acceptance: Acceptance<'_>,
    place: &Place,
) -> Result<SetUpOutcome, SignInError> {
    let now = context.now;
    let LiveSession { id, session, .. } = live;
    let username = session.username.clone();
    let Some(mut offered) = Offered::open(context, id, &username, acceptance.sealed) else {
        return Ok(SetUpOutcome::NotOffered);
    };
    let code = acceptance.code;
    let checked = match check(context, session, &mut offered, acceptance.password, place).await? {
        Ok(()) => check_totp(context, &username, &offered.secret, code)
            .await?
            .map_err(SetUpRefusal::Code),
        Err(reason) => Err(reason),
    };
    if let Err(reason) = checked {
        return Ok(SetUpOutcome::Refused {
            offer: present(context, live, &offered)?,
            reason,
        });
    }
    let (recovery_codes, digests) = recovery::generate_all(context, &username)?;
    let second_factor = SecondFactor {
        totp_secret_sealed: context
            .encryption_key
            .seal(&totp_context(&username), &offered.secret)
            .map_err(|_| SignInError::SetUp(username.clone()))?,
        recovery_codes: digests,
    };
    let rests_on = Some(session.credentials_version);
    let set = context
        .store
        .set_second_factor(
            username.clone(),
            Some(second_factor),
            rests_on,
            acceptance.notice,
            acceptance.audit,
            now,
        )
        .await?;
    let Some(credentials_version) = set else {
        return Ok(SetUpOutcome::NotOffered);
    };
    // Without a factor that the app replaces.
    let first = session
        .amr
        .iter()
        .filter(|method| !amr::is_second_factor(method))
        .cloned();
    let proven = Proven {
        username,
        amr: first.chain([amr::TOTP.to_owned()]).collect(),
        credentials_version,
        place: place.in_words(),
        provider: (session.provider.clone()).map(|sign_in| sign_in.confirmed(now)),
        origin: None,
        // The set-up is no sign-in: what is as old as its password stays so.
        as_old_as: offered.password_right_at.unwrap_or(now),
    };
    let begun = begin(context, proven, SessionStage::SignedIn, Some(id), place).await?;
    Ok(match begun.begun() {
        Some(begun) => SetUpOutcome::Done {
            begun,
            recovery_codes,
        },
        None => SetUpOutcome::NotOffered,
    })
}
