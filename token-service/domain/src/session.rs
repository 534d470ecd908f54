//! Sign-in sessions.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::{CredentialsVersion, Username};

/// How far the sign-in of a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStage {
    /// The password was right; the second factor is still owed. Nothing may be authorized yet.
    SecondFactorOwed,
    /// Signed in.
    SignedIn,
}

/// A browser's session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Who signed in.
    pub username: Username,
    /// How far the sign-in has come.
    pub stage: SessionStage,
    /// Authentication methods used so far (D-11).
    pub amr: Vec<String>,
    /// When the last method succeeded.
    pub authenticated_at: Timestamp,
    /// From this second on the session is over, unless it is used before.
    pub expires_at: Timestamp,
    /// From this second on it is over, however much it is used; never before `expires_at`.
    pub ends_at: Timestamp,
    /// What the person signed in with, as far as the sign-in has come.
    #[serde(deserialize_with = "crate::serde_form::added")]
    pub credentials_version: CredentialsVersion,
}
