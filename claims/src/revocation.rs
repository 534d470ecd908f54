//! The feed of revocations from the token service to the filter: compact, ordered, resumable.
//!
//! `GET /revocations?version=2&feed=ID&since=POSITION&wait=SECONDS` returns a [`Page`]. A reader that names no version
//! gets version 1, a [`Feed`] with the kinds that version 1 knows.

use serde::{Deserialize, Serialize};

/// Version of the feed that [`Page`] describes: the value of the parameter `version`.
pub const VERSION: u64 = 2;

/// Most entries of one [`Page`].
pub const MAX_PAGE_ENTRIES: usize = 5000;

/// Longest time, in seconds, for which the service holds a request that asks behind the last entry.
pub const MAX_WAIT_SECONDS: u64 = 20;

/// One page of the feed, version 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Identity of the store: 128 random bits in base64url, new for a new or restored store. A reader that named
    /// another feed gets the first page of this one, keeps the entries it has, and reads on from here.
    pub feed: String,
    /// Position behind which this page starts: the `since` of the request, or 0 when the reader named another feed
    /// or a position that this feed never reached.
    pub since: u64,
    /// Position that the page ends at: the `since` of the next request.
    pub position: u64,
    /// True if more entries are there already: the reader asks again at once.
    pub more: bool,
    /// True if the service honours `wait`: a request behind the last entry is answered when an entry comes, or after
    /// that many seconds. The reader then asks again at once instead of after its polling period.
    pub holds: bool,
    /// Entries behind `since` up to `position`, oldest first.
    pub revocations: Vec<Entry>,
}

/// One entry of a [`Page`]. The entry concerns only tokens that expire by `exp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What is revoked.
    pub kind: EntryKind,
    /// Value of the claim that `kind` names.
    pub id: String,
    /// The entry concerns only tokens with this `iss`: present for [`EntryKind::User`], [`EntryKind::Account`] and
    /// [`EntryKind::Issuer`], because several issuers share one feed and their `sub` name different things.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// The claim `user_id`, for [`EntryKind::Account`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The claim `user_site`, for [`EntryKind::Account`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_site: Option<String>,
    /// Tokens with an `iat` up to this time are revoked, seconds since 1970. Without meaning for [`EntryKind::Grant`]
    /// and [`EntryKind::Token`].
    pub at: u64,
    /// When the last access token that the entry concerns has expired, seconds since 1970. A reader keeps the entry
    /// for its clock skew longer.
    pub exp: u64,
}

/// What an [`Entry`] revokes. Readers skip, count and log entries of an unknown kind. A later kind may have more or
/// fewer members than [`Entry`]; a member with a known name keeps its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Every token with this `grant_id`.
    Grant,
    /// The token with this `jti`.
    Token,
    /// Every token with this `client_id` and an `iat` up to `at`, whatever its issuer.
    Client,
    /// Every token with this `sub`, an `iss` equal to the entry's, and an `iat` up to `at`.
    User,
    /// Like [`EntryKind::User`], and with these `user_id` and `user_site`.
    Account,
    /// Every token with an `iss` equal to the entry's and an `iat` up to `at`; `id` repeats `iss`.
    Issuer,
}

/// Most entries of one page, version 1.
pub const MAX_PAGE: usize = 1000;

/// One page of the feed, version 1: what gateways read that name no version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// Entries behind `since`, oldest first; a full page of [`MAX_PAGE`] is followed by more.
    pub revocations: Vec<Revocation>,
    /// The highest sequence ever given. Lower than the reader's own position: the store is another one, and the
    /// reader starts again from 0.
    pub last: u64,
}

/// One entry of version 1. It concerns only tokens that expire by `exp` and may be forgotten then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Position in the feed: strictly rising, never used twice.
    pub sequence: u64,
    /// What `id` names.
    pub kind: RevocationKind,
    /// The id, equal to the claim that `kind` names.
    pub id: String,
    /// When it was revoked, seconds since 1970.
    pub at: u64,
    /// When the last access token that it concerns has expired, seconds since 1970.
    pub exp: u64,
}

/// What an entry of version 1 revokes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationKind {
    /// Every token with this `grant_id`.
    Grant,
    /// The token with this `jti`.
    Token,
    /// Every token with this `client_id` and an `iat` up to the entry's `at`.
    Client,
    /// Every token with this `sub` and an `iat` up to the entry's `at`.
    User,
}
