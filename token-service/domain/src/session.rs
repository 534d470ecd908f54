//! Sign-in sessions.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::{CredentialsVersion, Username};

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
    #[serde(deserialize_with = "crate::serde_form::added")]
    pub credentials_version: CredentialsVersion,
}
