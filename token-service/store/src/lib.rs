//! Durable state behind one trait of atomic domain operations.
//!
//! Each operation is written once, in `operations`, over the transaction of `tx`. A file (`redb`), a database (`postgres`), and
//! ordered maps for tests (`memory`) run it.
//!
//! Every operation decides and writes in one transaction (or in PostgreSQL in one statement, if one row decides), and returns
//! after the write is durable. `Replayed`, `Reused` and `Again` are successful outcomes whose consequences are already
//! on disk. An [`Err`](StoreError) means that storage failed and the outcome is unknown.

mod codec;
#[cfg(test)]
mod conformance;
mod copy;
mod dump;
mod fault;
mod look;
#[cfg(test)]
mod memory;
mod operations;
pub mod postgres;
mod records;
pub mod redb;
mod room;
pub mod row;
mod sealed_values;
mod span;
mod stored_code;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod token_lifetime;
mod tx;

use std::time::Duration;

pub use self::copy::{Copied, CopyError, Place, copy};
pub use self::dump::{Dump, DumpError};
pub use self::look::Look;
pub use self::operations::{
    AttemptStore, AuditStore, ClientSecretStore, CodeStore, CredentialStore, FeedStore, GrantStore,
    NoticeStore, OnceStore, RegistrationStore, RevocationStore, SealedStore, SessionStore,
    SigningKeyStore, Store,
};
pub use self::room::EndedForRoom;
pub use self::sealed_values::SealedValues;

use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    ClientId, Extent, GrantId, Identity, ProviderSignIn, ProviderSignOut, Revoked, Session,
    UnfinishedSignIns, User,
};

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
    /// People to whom the service owes a notice.
    pub owed_notices: u64,
    /// The time of the oldest notice that the service owes.
    pub owed_since: Option<Timestamp>,
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

    /// The end of one session of a person at an identity provider, or of all (protocol.md §5.15).
    fn of_sign_out(identity: &Identity, sid: Option<&str>) -> Self {
        // No issuer contains a space, and no subject a control character.
        let of = sid.map(|sid| format!("ended session \0{identity}\0{sid}"));
        let of = of.unwrap_or_else(|| format!("ended sign-ins \0{identity}"));
        Self(Digest::of(of.as_bytes()))
    }

    const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

/// How long a sign-out at a provider is remembered for sign-ins that are under way. They take at most 30 minutes at the provider, and
/// ten more for a second factor.
const SIGN_OUT_REMEMBERED: Duration = Duration::from_hours(1);

/// What is remembered of a sign-out, until when. The time also tells when the sign-out was.
fn mark_of(sign_out: &ProviderSignOut) -> (OnceId, Timestamp) {
    let id = OnceId::of_sign_out(&sign_out.identity, sign_out.sid.as_deref());
    (id, sign_out.at.next_second() + SIGN_OUT_REMEMBERED)
}

/// The marks of sign-outs that end `sign_in` if they are remembered beyond the returned time.
fn ended_by_marks(sign_in: &ProviderSignIn) -> (Vec<OnceId>, Timestamp) {
    let of = |sid| OnceId::of_sign_out(&sign_in.identity, sid);
    let of_session = sign_in.sid.as_deref().map(|sid| of(Some(sid)));
    let marks = of_session.into_iter().chain([of(None)]).collect();
    (marks, sign_in.began_at + SIGN_OUT_REMEMBERED)
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
    /// Nothing was changed: the person was signed out, or got another password or app, after the sign-in at the identity provider
    /// (D-65).
    TooOld,
    /// Nothing was changed: the identity provider has ended this sign-in (D-66).
    SignedOut,
}

impl SessionBegin {
    /// Why `session` may not begin for `user`, apart from sign-outs at its provider.
    fn refused(session: &Session, user: Option<&User>) -> Option<Self> {
        let Some(user) = user.filter(|user| session.rests_on(user)) else {
            return Some(Self::CredentialsChanged);
        };
        let provider = session.provider.as_ref();
        let is_old = provider.is_some_and(|sign_in| sign_in.proven_since < user.sign_ins_from);
        is_old.then_some(Self::TooOld)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub removed: usize,
    pub more: bool,
}
