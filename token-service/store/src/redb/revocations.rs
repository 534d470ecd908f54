//! The feed of revocations to the gateways. Entries get their positions in the transaction that appends them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::RedbStore;
use super::tables::{FEED_HIGH, FEED_LOW, Tables};
use crate::codec::Keys;
use crate::fault::Fault;
use crate::operations::Runs as _;
use crate::records::LAST_REVOCATION;
use crate::tx::tables::{Announced, META, Name, REVOCATIONS, REVOKED};
use crate::tx::{Entry, Form as _, Read, Tx};
use crate::{FeedStore, StoreError};
use domain::{AuditEvent, Extent, FeedId, FeedState, Revocation, Revoked};

#[async_trait]
impl FeedStore for RedbStore {
    fn longest_token(&self) -> Duration {
        Duration::from_secs(self.lifetime.longest.load(Ordering::Acquire))
    }

    async fn feed_state(&self) -> Result<FeedState, StoreError> {
        self.read(|snapshot| {
            let mut half = |key| -> Result<[u8; 8], Fault> {
                let half = META.get(snapshot, key)?.map(u64::to_be_bytes);
                half.ok_or_else(|| Fault::Row("the feed has no identity".into()))
            };
            let mut bytes = [0; 16];
            let (high, low) = (half(FEED_HIGH)?, half(FEED_LOW)?);
            for (to, from) in bytes.iter_mut().zip(high.iter().chain(&low)) {
                *to = *from;
            }
            Ok(FeedState {
                feed: FeedId::from_bytes(bytes),
                last: last(snapshot)?,
            })
        })
    }

    async fn renew_feed(&self, feed: FeedId, audit: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        let entries = self.entries(audit).await?;
        self.owned(move |tables| {
            set_feed(tables, feed)?;
            tables.append(Entry::Audit(&entries))
        })
        .await
    }

    fn feed_changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.writer.feed_changes())
    }

    async fn revocations_since(
        &self,
        since: u64,
        limit: usize,
    ) -> Result<Vec<Revocation>, StoreError> {
        self.read(|snapshot| {
            let keys = Keys::all().behind(&since.to_be_bytes());
            let rows = REVOCATIONS.rows(snapshot, &keys, limit)?;
            Ok(rows.into_iter().map(|(_, entry)| entry).collect())
        })
    }
}

/// The highest position that the feed ever used.
fn last(tx: &mut impl Read) -> Result<u64, Fault> {
    Ok(META.get(tx, LAST_REVOCATION)?.unwrap_or_default())
}

/// Writes an entry, which replaces the latest for its subject.
pub(super) fn append(tx: &mut impl Tx, revoked: &Revoked, extent: Extent) -> Result<(), Fault> {
    let before = REVOKED.readable(tx, revoked)?;
    let sequence = last(tx)? + 1;
    META.put(tx, LAST_REVOCATION, &sequence)?;
    if let Some(position) = before.and_then(|before| before.position) {
        REVOCATIONS.remove(tx, &position)?;
    }
    let latest = Announced::new(revoked, extent, Some(sequence));
    REVOKED.put(tx, revoked, &latest)?;
    REVOCATIONS.put(tx, &sequence, &latest.placed(sequence))
}

/// Writes the row of the position of an entry, whose other row was copied.
pub(super) fn put_position(tx: &mut impl Tx, row: &[u8]) -> Result<(), Fault> {
    let entry = Announced::decode(row)?;
    let without = || Fault::Row("an entry of the feed without a position".into());
    let sequence = entry.position.ok_or_else(without)?;
    REVOCATIONS.put(tx, &sequence, &entry.placed(sequence))
}

/// Deletes an entry whose tokens have all expired.
pub(super) fn forget(tx: &mut impl Tx, entry: &Revocation) -> Result<(), Fault> {
    let latest = REVOKED.readable(tx, &entry.revoked)?;
    if latest.is_some_and(|latest| latest.position == Some(entry.sequence)) {
        REVOKED.remove(tx, &entry.revoked)?;
    }
    REVOCATIONS.remove(tx, &entry.sequence)
}

pub(super) fn set_feed(tables: &mut Tables<'_>, feed: FeedId) -> Result<(), Fault> {
    let bits = u128::from_be_bytes(*feed.as_bytes());
    for (key, half) in [(FEED_HIGH, bits >> 64), (FEED_LOW, bits)] {
        // Bits 0 to 63.
        let half = u64::try_from(half & u128::from(u64::MAX)).unwrap_or_default();
        META.put(tables, key, &half)?;
    }
    // Opening the table notifies the readers that wait for changes of the feed.
    tables.open(Name::revocations).map(drop)
}
