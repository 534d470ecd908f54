//! Sign-in sessions.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::{CredentialsVersion, ProviderSignIn, User, Username};

/// Progress of the sign-in of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStage {
    /// The password was correct, and the second factor is still missing. The session may not authorize anything yet.
    SecondFactorOwed,
    SignedIn,
}

/// A sign-in session of a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub username: Username,
    pub stage: SessionStage,
    /// The authentication methods used so far (D-11).
    pub amr: Vec<String>,
    /// When the last authentication method succeeded.
    pub authenticated_at: Timestamp,
    /// The session is expired from this second on, unless a use extends it before.
    pub expires_at: Timestamp,
    /// The session ends at this second at the latest, even if it is in use; never before `expires_at`.
    pub ends_at: Timestamp,
    /// The user's credentials at the sign-in.
    pub credentials_version: CredentialsVersion,
    /// Keyed digest of the user and the network or known device of the password, while the second factor is owed. The
    /// [failures](crate::attempt) of this key include the password.
    pub origin: Option<Digest>,
    /// The last use, to within a tenth of the idle lifetime.
    pub used_at: Timestamp,
    pub place: SessionPlace,
    /// The sign-in at an identity provider, in place of a password.
    pub provider: Option<ProviderSignIn>,
}

impl Session {
    /// True if the user is enabled and has the credentials and the identity of the sign-in.
    pub fn rests_on(&self, user: &User) -> bool {
        user.still_signs_in(self.credentials_version, self.provider.as_ref())
    }

    /// True if both sessions owe the second factor to passwords from one origin.
    pub fn shares_origin_with(&self, other: &Self) -> bool {
        self.origin == other.origin
    }
}

/// Where a person signed in, for the person. Each text is empty if it is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPlace {
    /// An IPv4 address or an IPv6 /64 network.
    pub network: String,
    /// Such as `Firefox`.
    pub browser: String,
    /// The operating system, such as `Linux`.
    pub system: String,
}

/// Which sessions of a person end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndingSessions {
    One(Digest),
    /// All but this one.
    Others(Digest),
}

/// What the end of a sign-in at an identity provider ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedSignIns {
    pub sessions: u64,
    pub grants: u64,
}

/// A right password that no second factor has followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedSignIn {
    /// Digest of the session's id.
    session: Digest,
    pub at: Timestamp,
    /// See [`SessionPlace::network`].
    pub network: String,
}

/// A user's sign-ins without the second factor since the last complete sign-in, which tells the person of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedSignIns {
    /// The newest ones, oldest first, at most [`UnfinishedSignIns::LISTED`].
    pub newest: Vec<UnfinishedSignIn>,
    /// Number of earlier ones.
    pub earlier: u64,
}

impl UnfinishedSignIns {
    /// Bounds the row of a user whose password somebody else uses over and over.
    pub const LISTED: usize = 5;

    pub const fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.earlier == 0
    }

    /// Counts the start of `session` under `id`. Its predecessor `replaces` is of the same browser, and does not count any
    /// more.
    #[must_use]
    pub fn with(mut self, id: Digest, session: &Session, replaces: Option<Digest>) -> Self {
        self.newest.retain(|one| Some(one.session) != replaces);
        // A sign-in at a provider used no password of this service.
        if session.stage == SessionStage::SecondFactorOwed && session.provider.is_none() {
            self.newest.push(UnfinishedSignIn {
                session: id,
                at: session.authenticated_at,
                network: session.place.network.clone(),
            });
        }
        while self.newest.len() > Self::LISTED {
            self.newest.remove(0);
            self.earlier += 1;
        }
        self
    }
}
