//! The feed of revocations from the token service to the filter: compact, ordered, resumable.

use serde::{Deserialize, Serialize};

/// Entries of one page at most.
pub const MAX_PAGE: usize = 1000;

/// One page of the feed, as `GET /revocations?since=` answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// Entries behind `since`, oldest first; a full page of [`MAX_PAGE`] is followed by more.
    pub revocations: Vec<Revocation>,
    /// The highest sequence ever given. Lower than the reader's own position: the store is another one, and the
    /// reader starts again from 0.
    pub last: u64,
}

/// One entry. It concerns only tokens that expire by `exp` and may be forgotten then.
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

/// What an entry revokes.
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
