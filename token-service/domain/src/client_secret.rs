//! When client secrets were added and used: what an operator must know to end an old one.

use crate::client::{ClientId, ClientSecret};
use crate::clock::Timestamp;

/// What is known of a client secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretTimes {
    /// The client that has it.
    pub client_id: ClientId,
    /// Which of its secrets.
    pub secret: ClientSecret,
    /// When it was registered; `None` for one from before this was kept.
    pub added_at: Option<Timestamp>,
    /// When a request last proved it, as it was last noted.
    pub last_used_at: Option<Timestamp>,
}

/// A use of a client secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    /// The client.
    pub client_id: ClientId,
    /// The secret that it proved.
    pub secret: ClientSecret,
    /// When.
    pub at: Timestamp,
}
