//! Durable state behind one trait of atomic domain operations.
//!
//! Every operation is one transaction: whatever must hold together is decided and written inside it, and its
//! answer is given only when the write is durable. `Replayed`, `Reused`, `AlreadyClaimed` are successful
//! outcomes whose consequences are already on disk; an [`Err`](StoreError) means that storage failed and
//! nothing is known.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod earlier;
mod operations;
pub mod postgres;
pub mod redb;
mod room;
mod row;
mod sealed_values;
mod token_lifetime;
mod used_code;

use std::time::Duration;

pub use self::operations::{
    AttemptStore, AuditStore, ClientSecretStore, CodeStore, CredentialStore, GrantStore, OnceStore,
    RegistrationStore, RevocationStore, SealedStore, SessionStore, SigningKeyStore, Store,
};
pub use self::room::EndedForRoom;
pub use self::sealed_values::SealedValues;

use domain::clock::Timestamp;

/// How old registrations in memory may be when a token is issued by them: beyond it, nothing is issued. The store is
/// asked every second whether they have changed; what is left is for the time that reading them anew takes.
pub const REGISTRATIONS_MAX_AGE: Duration = Duration::from_secs(10);

/// How far the clocks of replicas may differ, together with the time that a change takes to be durable.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);

/// The latest `iat` of tokens that may be issued by the registrations before a change at `now`: what the change revokes
/// is revoked up to here. A client or user who is enabled again gets tokens that last from the second after it.
#[must_use]
pub fn issued_until(now: Timestamp) -> Timestamp {
    now + REGISTRATIONS_MAX_AGE + CLOCK_DIFFERENCE
}

/// Why an operation has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The queue of the writer is full: try again soon.
    #[error("the store is overloaded")]
    Overloaded,
    /// Reading or writing failed; whether the operation took effect is unknown.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// Times that a row of the store was passed over because it cannot be read.
#[must_use]
pub fn unreadable_rows() -> prometheus_client::metrics::counter::Counter {
    row::unreadable_rows()
}

/// Sessions, codes and grants that ended because their person holds no more than a [`Cap`](domain::cap::Cap).
#[must_use]
pub fn ended_for_room() -> EndedForRoom {
    room::ended_for_room()
}

/// Rows in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Grants, with those that are revoked and not yet swept.
    pub grants: u64,
    /// Sign-in sessions, with those that expired and are not yet swept.
    pub sessions: u64,
    /// Entries of the revocation feed.
    pub revocations: u64,
    /// Entries of the audit log.
    pub audit_entries: u64,
}

/// Why there is no copy of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// The store has tools of its own for that.
    #[error("this store is backed up with its own tools: {0}")]
    Unsupported(&'static str),
    /// Reading the store or writing the copy failed.
    #[error("the copy failed: {0}")]
    Failed(String),
}

/// The outcome of claiming something that may be used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It was unused, and is now used for ever (until it expires by itself).
    Claimed,
    /// Somebody used it before.
    AlreadyClaimed,
}

/// Whether something was begun that rests on a user's credentials (D-35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Begin {
    /// It was.
    Begun,
    /// The credentials have changed since they were checked, or the user is gone or disabled: nothing was changed.
    CredentialsChanged,
}

/// What a sweep removed, in rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Rows removed in this batch.
    pub removed: usize,
    /// Whether more expired rows wait.
    pub more: bool,
}
