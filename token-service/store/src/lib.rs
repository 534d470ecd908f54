//! Durable state behind one trait of atomic domain operations.
//!
//! Every operation decides and writes in one transaction (the refresh of PostgreSQL in one guarded statement), and returns
//! after the write is durable. `Replayed`, `Reused` and `Again` are successful outcomes whose consequences are already
//! on disk. An [`Err`](StoreError) means that storage failed and the outcome is unknown.

#[cfg(test)]
mod conformance;
mod copy;
mod operations;
pub mod postgres;
mod records;
pub mod redb;
mod room;
pub mod row;
mod sealed_values;
mod self_contained_code;
mod span;
mod stored_code;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod token_lifetime;

use std::time::Duration;

pub use self::copy::{Copied, CopyError, Place, copy};
pub use self::operations::{
    AttemptStore, AuditStore, ClientSecretStore, CodeStore, CredentialStore, GrantStore, OnceStore,
    RegistrationStore, RevocationStore, SealedStore, SessionStore, SigningKeyStore, Store,
};
pub use self::room::EndedForRoom;
pub use self::sealed_values::SealedValues;

use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{ClientId, Extent, GrantId, Revoked, UnfinishedSignIns};

/// Maximum age of a registration in memory. The service issues no token from older registrations. The service asks the
/// store twice a second for changes; the rest of the time is for reading them.
pub const REGISTRATIONS_MAX_AGE: Duration = Duration::from_secs(10);

/// Interval between two calls of [`Store::sweep`].
pub const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Maximum difference between the clocks of replicas, plus the time until a change is durable.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);

/// The latest `iat` of tokens that may still be issued from the registrations before a change at `now`. The change
/// revokes tokens up to this `iat`. A client or user who is enabled again gets valid tokens from the next second on, and none
/// before: see [`wait_for_tokens`](domain::wait_for_tokens).
pub fn issued_until(now: Timestamp) -> Timestamp {
    now + REGISTRATIONS_MAX_AGE + CLOCK_DIFFERENCE
}

/// The extent of an entry in the feed for what a change of the registry at `now` revokes.
fn extent_of_change(revoked: &Revoked, now: Timestamp, access_token_lifetime: Duration) -> Extent {
    let at = if revoked.is_up_to_a_time() {
        issued_until(now)
    } else {
        now
    };
    Extent::of(at, access_token_lifetime)
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The queue of the writer is full. Try again soon.
    #[error("the store is overloaded")]
    Overloaded,
    /// Reading or writing failed. The operation may or may not have taken effect.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// Counts how often a row was skipped because it cannot be read.
pub fn unreadable_rows() -> prometheus_client::metrics::counter::Counter {
    row::unreadable_rows()
}

/// Counts sessions, legacy codes and grants that were ended because the user had reached a [`Cap`](domain::cap::Cap).
pub fn ended_for_room() -> EndedForRoom {
    room::ended_for_room()
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub clients: u64,
    pub users: u64,
    /// Grants, including revoked grants that are not yet swept.
    pub grants: u64,
    /// Sign-in sessions, including expired sessions that are not yet swept.
    pub sessions: u64,
    pub revocations: u64,
    pub audit_entries: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// The database has its own backup tools; the text names them.
    #[error("this store is backed up with its own tools: {0}")]
    Unsupported(&'static str),
    #[error("the copy failed: {0}")]
    Failed(String),
}

/// What works once: an assertion, a DPoP proof or a pushed request. Each kind has its own namespace, and the store keeps only a
/// digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnceId(Digest);

impl OnceId {
    /// The id of a user assertion (protocol.md §2.3).
    pub fn of_user_assertion(client_id: &ClientId, jti: &str) -> Self {
        // No Client ID contains the separator, so different pairs have different digests.
        Self(Digest::of(format!("{client_id}\0{jti}").as_bytes()))
    }

    /// The id of an assertion of an identity provider (protocol.md §2.6). Its `jti` is unique for the provider, whichever client
    /// brings the assertion.
    pub fn of_provider_assertion(issuer: &str, jti: &str) -> Self {
        // No Client ID contains the spaces of the prefix, and no issuer the separator.
        Self(Digest::of(
            format!("provider assertion \0{issuer}\0{jti}").as_bytes(),
        ))
    }

    /// The id of a client assertion (protocol.md §5.12).
    pub fn of_client_assertion(client_id: &ClientId, jti: &str) -> Self {
        // No Client ID contains the spaces of the prefix.
        Self(Digest::of(
            format!("client assertion \0{client_id}\0{jti}").as_bytes(),
        ))
    }

    /// The id of a pushed authorization request (protocol.md §4.13), which yields the code of this grant.
    pub fn of_pushed_request(grant_id: GrantId) -> Self {
        Self(Digest::of(
            format!("pushed request \0{grant_id}").as_bytes(),
        ))
    }

    /// The id of a DPoP proof, which already names key and `jti` (protocol.md §5.13).
    pub fn of_proof(id: &[u8; 32]) -> Self {
        // No Client ID contains the space of the prefix.
        Self(Digest::of(&[b"DPoP proof \0".as_slice(), id].concat()))
    }

    /// The id of a sign-in at an identity provider, by its `nonce` (protocol.md §5.15).
    pub fn of_provider_sign_in(nonce: &str) -> Self {
        // No Client ID contains the space of the prefix.
        Self(Digest::of(format!("provider sign-in \0{nonce}").as_bytes()))
    }

    /// The id of a logout token (protocol.md §5.15).
    pub fn of_logout_token(issuer: &str, jti: &str) -> Self {
        // No Client ID and no issuer contains a space.
        Self(Digest::of(
            format!("logout token \0{issuer} {jti}").as_bytes(),
        ))
    }

    /// The end of one session of a person at an identity provider (protocol.md §5.15).
    pub fn of_ended_session(identity: &domain::Identity, sid: &str) -> Self {
        // No issuer contains a space, and no subject a control character.
        Self(Digest::of(
            format!("ended session \0{identity}\0{sid}").as_bytes(),
        ))
    }

    /// The end of all sessions of a person at an identity provider (protocol.md §5.15).
    pub fn of_ended_sign_ins(identity: &domain::Identity) -> Self {
        Self(Digest::of(
            format!("ended sign-ins \0{identity}").as_bytes(),
        ))
    }

    const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

/// The use of a value that may be used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The value stays used until it expires.
    First,
    Again,
}

/// Whether a code or session was started that depends on a user's credentials (D-35), or also on a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Begin {
    Begun,
    /// Nothing was changed: the credentials have changed since they were checked, or the user was removed or disabled. For a
    /// code: or the client.
    CredentialsChanged,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SessionBegin {
    /// With the sign-ins that the person should know of. Empty while the second factor is owed.
    Begun(UnfinishedSignIns),
    /// Nothing was changed, as for [`Begin::CredentialsChanged`].
    CredentialsChanged,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub removed: usize,
    pub more: bool,
}
