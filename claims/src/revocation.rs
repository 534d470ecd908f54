//! The revocation feed, which the filter reads from the token service.
//!
//! `GET /revocations?version=1&feed=ID&since=POSITION&wait=SECONDS` returns a [`Page`], also without
//! `version`.

use serde::{Deserialize, Serialize};

/// Version of the feed with [`Page`]s: the value of the parameter `version`.
pub const VERSION: u64 = 1;

/// Most entries of one [`Page`].
pub const MAX_PAGE_ENTRIES: usize = 5000;

/// Longest page that readers accept, in bytes of JSON.
pub const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Longest time for which the service holds a request when there is no entry after `since`, in seconds.
pub const MAX_WAIT_SECONDS: u64 = 20;

/// One page of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Identity of the store: 128 random bits in base64url. A new or restored store gets a new identity. A reader
    /// that sent another identity receives the first page of this feed. The reader then keeps its entries and
    /// continues with this feed.
    pub feed: String,
    /// Position after which this page starts: the `since` of the request, or 0 if the reader sent another
    /// identity or a position that this feed never reached.
    pub since: u64,
    /// Position of the last entry of this page: the `since` of the next request.
    pub position: u64,
    /// True if there are more entries. The reader then sends the next request at once.
    pub more: bool,
    /// True if the service supports `wait`: without entries after `since`, the service answers when an entry
    /// arrives, or after `wait` seconds. The reader then sends the next request at once and not after its polling
    /// interval.
    pub holds: bool,
    /// Entries after `since` up to `position`, oldest first.
    pub revocations: Vec<Entry>,
}

/// One entry of a [`Page`]. An entry concerns only tokens whose `exp` is not later than the entry's `exp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub kind: EntryKind,
    /// Value of the claim that `kind` denotes.
    pub id: String,
    /// Issuer of the tokens concerned, for [`EntryKind::User`], [`EntryKind::Account`] and
    /// [`EntryKind::Issuer`]. Several issuers share one feed, and the same `sub` stands for different users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// The claim `user_id`, for [`EntryKind::Account`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The claim `user_site`, for [`EntryKind::Account`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_site: Option<String>,
    /// For [`EntryKind::User`]: the entry revokes only tokens with this `client_id`. A reader that does not know this
    /// member revokes more tokens, not fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Tokens with an `iat` up to this time are revoked, in seconds since 1970. Ignored for
    /// [`EntryKind::Grant`] and [`EntryKind::Token`].
    pub at: u64,
    /// Time when the last access token concerned has expired, in seconds since 1970. A reader keeps the entry
    /// until its clock skew after this time.
    pub exp: u64,
}

/// What an [`Entry`] revokes. Readers skip, count and log entries of an unknown kind. A later kind may have
/// other members than [`Entry`], but members with a known name keep their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Every token with this `grant_id`.
    Grant,
    /// The token with this `jti`.
    Token,
    /// Every token with this `client_id` and an `iat` up to `at`, of every issuer.
    Client,
    /// Every token with this `sub`, the entry's `iss`, an `iat` up to `at`, and the entry's `client_id`, if present.
    User,
    /// Like [`EntryKind::User`], but only tokens with this `user_id` and `user_site`.
    Account,
    /// Every token with the entry's `iss` and an `iat` up to `at`. `id` repeats `iss`.
    Issuer,
    /// Every token with this thumbprint in its claim `cnf`, as `jkt` or `x5t#S256`, and an `iat` up to `at`, of every issuer.
    Key,
}
