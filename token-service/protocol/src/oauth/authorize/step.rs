//! The steps of the person before the service issues a code.

use std::sync::Arc;

use super::Prompt;
use super::redirect_error::RedirectError;
use domain::digest::Digest;
use domain::{LinkedAccount, Session, SessionStage, User, amr};

/// A live session of an enabled user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSession {
    /// Key of the session in the store.
    pub id: Digest,
    pub session: Session,
    pub user: Arc<User>,
}

/// What the person must do after the password, and before a code is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Enter a code of the second factor.
    SecondFactor,
    /// Set another password.
    NewPassword,
    /// Set up a second factor.
    SetUpSecondFactor,
}

impl Due {
    /// What comes first. The password comes before the set-up, because somebody else may know it.
    fn of(
        LiveSession { session, user, .. }: &LiveSession,
        needs_second_factor: bool,
    ) -> Option<Self> {
        if session.stage == SessionStage::SecondFactorOwed {
            return Some(Self::SecondFactor);
        }
        // A sign-in at a provider used no password of this service.
        if user.must_change_password && session.provider.is_none() {
            return Some(Self::NewPassword);
        }
        // The user has no second factor: whoever has one signs in with it, and setting one up ends other sessions (D-35).
        let lacks_one = needs_second_factor && !amr::has_second_factor(&session.amr);
        lacks_one.then_some(Self::SetUpSecondFactor)
    }
}

/// A completed sign-in of an enabled user, which issuing a code requires: nothing is [`Due`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    id: Digest,
    user: Arc<User>,
    session: Session,
}

impl SignedIn {
    /// The sign-in of a live session.
    ///
    /// # Errors
    /// What the person must do first.
    pub fn of(live: LiveSession, needs_second_factor: bool) -> Result<Self, Due> {
        match Due::of(&live, needs_second_factor) {
            Some(due) => Err(due),
            None => {
                let LiveSession { id, session, user } = live;
                Ok(Self { id, user, session })
            }
        }
    }

    pub fn user(&self) -> &User {
        &self.user
    }

    /// Key of the session in the store.
    pub const fn id(&self) -> Digest {
        self.id
    }

    pub const fn session(&self) -> &Session {
        &self.session
    }

    pub fn account(&self, user_id: &str, site: &str) -> Option<&LinkedAccount> {
        self.user
            .accounts
            .iter()
            .find(|account| account.user_id == user_id && account.site == site)
    }
}

/// Whether the person must confirm the client although a session is live (D-34, RFC 8252 §8.6). Any app on the person's
/// device can claim a loopback address or a private-use scheme, so a live session must not give the app a code that
/// it could redeem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientConfirmation {
    /// Only the client receives requests to the redirect URI, or only the client can redeem the code.
    NotNeeded,
    /// The person confirmed this client in this session, or signed in for this request.
    Given,
    /// The page must ask the person.
    Needed,
}

/// The next step of an authorization request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    SignIn,
    Due(Due),
    SelectAccount(SignedIn),
    /// Confirm the client for this account, the only linked account.
    Confirm(SignedIn, LinkedAccount),
    /// Sign in as another user or cancel: the user has no linked account (D-7).
    NoAccount(SignedIn),
    /// No step is left: issue the code for this account.
    Issue(SignedIn, LinkedAccount),
    /// The request cannot succeed.
    Refuse(RedirectError),
}

impl Step {
    /// The sign-in that the request accepts. `None` if the person must sign in first.
    pub fn signed_in(self) -> Option<SignedIn> {
        match self {
            Self::SelectAccount(signed_in)
            | Self::Confirm(signed_in, _)
            | Self::NoAccount(signed_in)
            | Self::Issue(signed_in, _) => Some(signed_in),
            Self::SignIn | Self::Due(_) | Self::Refuse(_) => None,
        }
    }
}

/// Decides the next step from the browser's live session, if any.
pub fn next_step(
    prompt: Prompt,
    live: Option<LiveSession>,
    needs_second_factor: bool,
    confirmation: ClientConfirmation,
) -> Step {
    let live = live.filter(|_| prompt != Prompt::Login);
    let signed_in = live.map(|live| SignedIn::of(live, needs_second_factor));
    match (prompt, signed_in) {
        (Prompt::Never, None | Some(Err(Due::SecondFactor))) => {
            Step::Refuse(RedirectError::LoginRequired)
        }
        (Prompt::Never, Some(Err(_))) => Step::Refuse(RedirectError::SignInIncomplete),
        (_, None) => Step::SignIn,
        (_, Some(Err(due))) => Step::Due(due),
        (_, Some(Ok(signed_in))) => match signed_in.user.accounts.as_slice() {
            [] if prompt == Prompt::Never => Step::Refuse(RedirectError::NoLinkedAccount),
            [] => Step::NoAccount(signed_in),
            [only] => {
                let only = only.clone();
                match (confirmation, prompt) {
                    (ClientConfirmation::NotNeeded, _)
                    | (ClientConfirmation::Given, Prompt::WhenNeeded) => {
                        Step::Issue(signed_in, only)
                    }
                    (_, Prompt::Never) => Step::Refuse(RedirectError::InteractionRequired),
                    (ClientConfirmation::Needed | ClientConfirmation::Given, _) => {
                        Step::Confirm(signed_in, only)
                    }
                }
            }
            [_, _, ..] if prompt == Prompt::Never => {
                Step::Refuse(RedirectError::AccountSelectionRequired)
            }
            [_, _, ..] => Step::SelectAccount(signed_in),
        },
    }
}
