//! The parts that differ between stores: the feed, the audit log and upkeep.

use std::path::Path;

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::*;
use crate::operations::{codes, grants, notices, sessions};
use crate::stored_code::StoredCode;
use crate::token_lifetime::note_swept;
use crate::tx::tables::{CODES, FAILURES, GRANTS, META, SESSIONS, SWEPT_AT, USED_ONCE};
use crate::{AuditStore, BackupError, Counts, FeedStore, Store, Swept};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::revocation::READERS_CLOCK_SKEW;
use domain::{AuditKind, AuditRange, FeedId, FeedState, Layout};

#[async_trait]
impl FeedStore for MemoryStore {
    fn longest_token(&self) -> Duration {
        self.longest_token
    }

    async fn feed_state(&self) -> Result<FeedState, StoreError> {
        let state = self.state();
        Ok(FeedState {
            feed: state.feed_id,
            last: state.last_revocation,
        })
    }

    async fn renew_feed(&self, feed: FeedId, audit: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        self.append_audit(audit).await?;
        self.state().feed_id = feed;
        Ok(())
    }

    fn feed_changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    async fn revocations_since(
        &self,
        since: u64,
        limit: usize,
    ) -> Result<Vec<Revocation>, StoreError> {
        let state = self.state();
        let newer = state.feed.range(since.saturating_add(1)..);
        Ok(newer.take(limit).map(|(_, entry)| entry.clone()).collect())
    }
}

#[async_trait]
impl AuditStore for MemoryStore {
    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        let entries = Entries::new(events);
        self.run(|tx| tx.append(Entry::Audit(&entries)))
    }

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        let state = self.state();
        let log = state.audit.iter().cloned();
        Ok(match range {
            AuditRange::After(after) => {
                let newer = log.filter(|entry| entry.sequence > after);
                newer.take(limit).collect()
            }
            AuditRange::Before(before) => {
                let older = log.filter(|entry| before.is_none_or(|before| entry.sequence < before));
                older.rev().take(limit).collect()
            }
        })
    }

    async fn forget_audit(
        &self,
        kind: AuditKind,
        most: u64,
        limit: usize,
    ) -> Result<Swept, StoreError> {
        let is_of_kind = |entry: &AuditRecord| entry.event.action.kind() == kind;
        let mut state = self.state();
        let entries = state.audit.iter().filter(|entry| is_of_kind(entry)).count();
        let over = entries.saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
        let mut left = over.min(limit);
        let removed = left;
        state.audit.retain(|entry| {
            let goes = left > 0 && is_of_kind(entry);
            left -= usize::from(goes);
            !goes
        });
        Ok(Swept {
            removed,
            more: removed == limit,
        })
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn layout(&self) -> Layout {
        Layout::NEWEST
    }

    /// Removes all that has expired, whatever the limit.
    async fn sweep(&self, due: Timestamp, now: Timestamp, _: usize) -> Result<Swept, StoreError> {
        let configured = self.longest_token.as_secs();
        let rows = self.run(|tx| {
            note_swept(tx, configured, due, now)?;
            sweep(tx, due)
        })?;
        let mut state = self.state();
        let (feed, audit) = (state.feed.len(), state.audit.len());
        state.audit.retain(|entry| entry.event.expires_at >= due);
        let over: Vec<Revocation> = {
            let is_over = |entry: &Revocation| entry.expires_at + READERS_CLOCK_SKEW < due;
            let gone = state.feed.extract_if(.., |_, entry| is_over(entry));
            gone.map(|(_, entry)| entry).collect()
        };
        for entry in &over {
            state.rows(Name::revoked).remove(&entry.revoked.key());
        }
        let removed = rows + over.len() + audit - state.audit.len();
        debug_assert_eq!(feed - over.len(), state.feed.len());
        Ok(Swept {
            removed,
            more: false,
        })
    }

    async fn swept_at(&self) -> Result<Timestamp, StoreError> {
        let swept_at = self.run(|tx| META.get(tx, SWEPT_AT))?;
        Ok(Timestamp::from_seconds(swept_at.unwrap_or_default()))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let owed_since = self.run(|tx| notices::oldest(tx))?;
        let mut state = self.state();
        let mut rows = |table| state.rows(table).len() as u64;
        Ok(Counts {
            clients: rows(Name::clients),
            users: rows(Name::users),
            grants: rows(Name::grants),
            sessions: rows(Name::sessions),
            revocations: rows(Name::revoked),
            owed_notices: rows(Name::owed_notices),
            audit_entries: state.audit.len() as u64,
            owed_since,
        })
    }

    async fn backup(&self, _: &Path) -> Result<(), BackupError> {
        Err(BackupError::Unsupported("the store is in memory"))
    }

    fn register_metrics(&self, _: &mut Registry) {}

    async fn ready(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }
}

/// Removes the rows of all tables that expired before `due`, and returns their number.
fn sweep(tx: &mut impl Tx, due: Timestamp) -> Result<usize, Fault> {
    let mut removed = 0;
    for (key, code) in CODES.readable_rows(tx, &Keys::all(), usize::MAX)? {
        let until = match &code {
            StoredCode::Unused(record) => record.expires_at,
            StoredCode::Used { until, .. } => *until,
        };
        if until < due {
            codes::remove(tx, &digest(&key), &code)?;
            removed += 1;
        }
    }
    for (key, session) in SESSIONS.readable_rows(tx, &Keys::all(), usize::MAX)? {
        if session.expires_at < due {
            sessions::end(tx, &digest(&key))?;
            removed += 1;
        }
    }
    for (key, failures) in FAILURES.readable_rows(tx, &Keys::all(), usize::MAX)? {
        if failures.expires_at < due {
            FAILURES.remove(tx, &digest(&key))?;
            removed += 1;
        }
    }
    for (key, until) in USED_ONCE.readable_rows(tx, &Keys::all(), usize::MAX)? {
        if until < due {
            tx.remove(USED_ONCE.name(), &key)?;
            removed += 1;
        }
    }
    for (_, grant) in GRANTS.readable_rows(tx, &Keys::all(), usize::MAX)? {
        if grant.is_over(due, tx.longest_token()) {
            grants::remove(tx, &grant)?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn digest(key: &[u8]) -> Digest {
    Digest::from_bytes(key.try_into().unwrap())
}
