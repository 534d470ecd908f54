//! What a store has seen of clients and users, and no registration contains.

use crate::clock::Timestamp;
use crate::{SecretTimes, Username};

#[derive(Debug, Clone, Default)]
pub struct Observed {
    pub secret_times: Vec<SecretTimes>,
    pub sign_ins: Vec<SignIns>,
    /// Users who can sign in with an identity provider of the configuration.
    pub by_provider: Vec<Username>,
}

/// How a user signs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIns {
    pub username: Username,
    /// The user set up a second factor. A registered one does not count.
    pub has_own_second_factor: bool,
    /// When the user last completed a sign-in; `None` for never.
    pub last_at: Option<Timestamp>,
}
