//! The steps of a person before the service issues a code, or shows an own page.

use super::redirect_error::RedirectError;
use super::{CodeRequest, Prompt};
use crate::settings::Settings;
use crate::sign_in::again;
use crate::sign_in::session::LiveSession;
use domain::clock::Timestamp;
use domain::{LinkedAccount, Session, SessionStage, User, amr};

/// What the person must do after the password, and before anything else.
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
        // The user has no second factor: a user who has one signs in with it, and setting one up ends other sessions (D-35).
        let lacks_one = needs_second_factor && !amr::has_second_factor(&session.amr);
        lacks_one.then_some(Self::SetUpSecondFactor)
    }
}

/// A completed sign-in of an enabled user, which issuing a code requires: nothing is [`Due`].
#[derive(Clone)]
pub struct SignedIn(LiveSession);

impl SignedIn {
    pub const fn live(&self) -> &LiveSession {
        &self.0
    }

    pub fn user(&self) -> &User {
        &self.0.user
    }

    pub const fn session(&self) -> &Session {
        &self.0.session
    }

    pub fn account(&self, user_id: &str, site: &str) -> Option<&LinkedAccount> {
        self.user()
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

/// What a person signs in for.
#[derive(Clone, Copy)]
pub enum Goal<'a> {
    /// A code for an application.
    Code(&'a dyn CodeRequest, ClientConfirmation),
    /// An own page. While something is due, another user may sign in.
    OwnPage { other_user: bool },
    /// A change on an own page, which needs a recent sign-in.
    OwnChange,
}

/// The next step of a person.
#[derive(Clone)]
pub enum Step {
    SignIn {
        /// Somebody is signed in, but this sign-in does not count.
        has_session: bool,
    },
    /// Prove again who signed in: the sign-in is not recent.
    SignInAgain(SignedIn),
    Due(Due, LiveSession),
    /// No step is left: show the own page.
    OwnPage(SignedIn),
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
    /// The sign-in that the request for a code accepts. `None` if the person must sign in first.
    pub fn signed_in(self) -> Option<SignedIn> {
        match self {
            Self::SelectAccount(signed_in)
            | Self::Confirm(signed_in, _)
            | Self::NoAccount(signed_in)
            | Self::Issue(signed_in, _) => Some(signed_in),
            Self::SignIn { .. }
            | Self::SignInAgain(_)
            | Self::Due(..)
            | Self::OwnPage(_)
            | Self::Refuse(_) => None,
        }
    }
}

impl Goal<'_> {
    fn prompt(&self) -> Prompt {
        match self {
            Self::Code(request, _) => request.prompt(),
            Self::OwnPage { .. } | Self::OwnChange => Prompt::WhenNeeded,
        }
    }

    /// True if this sign-in counts for the goal, as far as it has come.
    fn accepts(&self, session: &Session, now: Timestamp) -> bool {
        match self {
            Self::Code(request, _) => {
                request.prompt() != Prompt::Login
                    && request.accepts(session, now)
                    && request.client().accepts_sign_in(session)
            }
            Self::OwnPage { .. } | Self::OwnChange => true,
        }
    }

    fn needs_second_factor(&self, user: &User, settings: &Settings) -> bool {
        let rules = &settings.second_factor;
        match self {
            Self::Code(request, _) => {
                request.asks_for_second_factor() || rules.require(user, Some(request.client()))
            }
            Self::OwnPage { .. } | Self::OwnChange => rules.require(user, None),
        }
    }
}

/// Decides the next step from the browser's live session, if any.
pub fn next_step(
    goal: Goal<'_>,
    live: Option<LiveSession>,
    settings: &Settings,
    now: Timestamp,
) -> Step {
    let has_session = live.is_some();
    let sign_in = || match goal.prompt() {
        Prompt::Never => Step::Refuse(RedirectError::LoginRequired),
        Prompt::WhenNeeded | Prompt::Login => Step::SignIn { has_session },
    };
    let Some(live) = live.filter(|live| goal.accepts(&live.session, now)) else {
        return sign_in();
    };
    let due = Due::of(&live, goal.needs_second_factor(&live.user, settings));
    match (due, goal, goal.prompt()) {
        (Some(Due::SecondFactor), _, Prompt::Never)
        | (Some(_), Goal::OwnPage { other_user: true }, _) => return sign_in(),
        (Some(_), _, Prompt::Never) => return Step::Refuse(RedirectError::SignInIncomplete),
        (Some(due), ..) => return Step::Due(due, live),
        (None, ..) => {}
    }
    let signed_in = SignedIn(live);
    match goal {
        Goal::Code(request, confirmation) => for_code(request.prompt(), confirmation, signed_in),
        Goal::OwnChange => {
            let signed_in_at = signed_in.session().authenticated_at;
            match again::is_recent(&settings.lifetimes, signed_in_at, now) {
                true => Step::OwnPage(signed_in),
                false => Step::SignInAgain(signed_in),
            }
        }
        Goal::OwnPage { .. } => Step::OwnPage(signed_in),
    }
}

/// The step of a person who is signed in, and wants a code.
fn for_code(prompt: Prompt, confirmation: ClientConfirmation, signed_in: SignedIn) -> Step {
    match signed_in.user().accounts.as_slice() {
        [] if prompt == Prompt::Never => Step::Refuse(RedirectError::NoLinkedAccount),
        [] => Step::NoAccount(signed_in),
        [only] => {
            let only = only.clone();
            match (confirmation, prompt) {
                (ClientConfirmation::NotNeeded, _)
                | (ClientConfirmation::Given, Prompt::WhenNeeded) => Step::Issue(signed_in, only),
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
    }
}
