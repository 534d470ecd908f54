//! When client secrets were added and used. Operators need these times to decide when to remove an old secret.

use crate::client::{ClientId, ClientSecret};
use crate::clock::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretTimes {
    pub client_id: ClientId,
    pub secret: ClientSecret,
    /// When the secret was registered.
    pub added_at: Timestamp,
    /// When a request last proved the secret, as far as recorded.
    pub last_used_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    pub client_id: ClientId,
    pub secret: ClientSecret,
    pub at: Timestamp,
}
