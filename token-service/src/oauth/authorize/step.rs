//! What the person has to do before a code can be issued.

use std::sync::Arc;

use super::Prompt;
use super::error::RedirectError;
use crate::registry::{LinkedAccount, Registry, User};
use crate::store::{Session, SessionStage};

/// A completed sign-in of a user who is still enabled: what it takes to be issued a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    user: Arc<User>,
    session: Session,
}

impl SignedIn {
    /// The sign-in of a live session; `None` while a factor is owed, or when the user is gone or disabled.
    #[must_use]
    pub fn of(session: Session, registry: &Registry) -> Option<Self> {
        match session.stage {
            SessionStage::SignedIn => {
                let user = Arc::clone(registry.user(session.username.as_str())?);
                Some(Self { user, session })
            }
            SessionStage::SecondFactorOwed => None,
        }
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The user's linked account with this user ID on this site.
    #[must_use]
    pub fn account(&self, user_id: &str, site: &str) -> Option<&LinkedAccount> {
        self.user
            .accounts
            .iter()
            .find(|account| account.user_id == user_id && account.site == site)
    }
}

/// The next step of an authorization request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sign in.
    SignIn,
    /// Give the second factor.
    SecondFactor,
    /// Choose one of several linked accounts.
    SelectAccount(SignedIn),
    /// Nothing: the code can be issued for this account.
    Issue(SignedIn, LinkedAccount),
    /// Nothing helps.
    Refuse(RedirectError),
}

/// Decides the next step from the live session of the browser, if there is one.
#[must_use]
pub fn next_step(prompt: Prompt, session: Option<Session>, registry: &Registry) -> Step {
    let session = match prompt {
        Prompt::Login => None,
        Prompt::WhenNeeded | Prompt::Never => {
            session.filter(|session| registry.user(session.username.as_str()).is_some())
        }
    };
    let owed = session
        .as_ref()
        .is_some_and(|session| session.stage == SessionStage::SecondFactorOwed);
    let signed_in = session.and_then(|session| SignedIn::of(session, registry));
    match (prompt, signed_in) {
        (Prompt::Never, None) => Step::Refuse(RedirectError::LoginRequired),
        (_, None) if owed => Step::SecondFactor,
        (_, None) => Step::SignIn,
        (_, Some(signed_in)) => match signed_in.user.accounts.as_slice() {
            [] => Step::Refuse(RedirectError::NoLinkedAccount),
            [only] => {
                let only = only.clone();
                Step::Issue(signed_in, only)
            }
            [_, _, ..] if prompt == Prompt::Never => {
                Step::Refuse(RedirectError::AccountSelectionRequired)
            }
            [_, _, ..] => Step::SelectAccount(signed_in),
        },
    }
}
