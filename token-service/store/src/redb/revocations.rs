//! The feed of revocations to the gateways, with an index by what is revoked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use redb::ReadableTable as _;
use tokio::sync::watch;

use super::RedbStore;
use super::audit;
use super::fault::Fault;
use super::tables::{
    FEED_HIGH_KEY, FEED_LOW_KEY, LAST_REVOCATION_KEY, META, REVOCATIONS, REVOKED,
    TOKEN_LIFETIME_KEY, TOKEN_LIFETIME_UNTIL_KEY, Tables, counter, decode, encode, found,
};
use crate::token_lifetime::TokenLifetime;
use crate::{RevocationStore, StoreError};
use domain::clock::Timestamp;
use domain::{AuditEvent, Extent, FeedId, FeedState, Revocation, Revoked, TokenReference};

#[async_trait]
impl RevocationStore for RedbStore {
    async fn announce(
        &self,
        revoked: Revoked,
        extent: Extent,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, _| {
            let is_new = announce(tables, revoked, extent)?;
            audit::append_if(tables, is_new, &entries)
        })
        .await
    }

    async fn is_revoked(&self, token: TokenReference) -> Result<bool, StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(REVOKED)?;
            let revoked_at = |revoked: &Revoked| -> Result<Option<u64>, Fault> {
                let row = table.get(revoked.key().as_slice())?;
                Ok(row.map(|row| row.value().0))
            };
            for revoked in token.ended_by() {
                if revoked_at(&revoked)?.is_some() {
                    return Ok(true);
                }
            }
            for revoked in token.ended_up_to_a_time_by() {
                if revoked_at(&revoked)?.is_some_and(|at| token.issued_at.seconds() <= at) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn longest_token(&self) -> Duration {
        Duration::from_secs(self.lifetime.longest.load(Ordering::Acquire))
    }

    async fn feed_state(&self) -> Result<FeedState, StoreError> {
        self.read(|transaction| {
            let meta = transaction.open_table(META)?;
            let half = |key| -> Result<[u8; 8], Fault> {
                let half = meta.get(key)?.map(|half| half.value().to_be_bytes());
                half.ok_or_else(|| Fault::Row("the feed has no identity".into()))
            };
            let mut bytes = [0; 16];
            let (high, low) = (half(FEED_HIGH_KEY)?, half(FEED_LOW_KEY)?);
            for (to, from) in bytes.iter_mut().zip(high.iter().chain(&low)) {
                *to = *from;
            }
            Ok(FeedState {
                feed: FeedId::from_bytes(bytes),
                last: counter(&meta, LAST_REVOCATION_KEY)?,
            })
        })
    }

    async fn renew_feed(&self, feed: FeedId, audit: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, _| {
            set_feed(tables, feed)?;
            audit::append(tables, &entries)
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
        self.read(|transaction| {
            transaction
                .open_table(REVOCATIONS)?
                .range(since.saturating_add(1)..)?
                .take(limit)
                .map(|entry| decode(entry?.1.value()))
                .collect()
        })
    }
}

/// The earliest `iat` that no cut-off of these subjects covers.
pub(super) fn tokens_from(
    tables: &mut Tables<'_>,
    ended_by: impl IntoIterator<Item = Revoked>,
) -> Result<Timestamp, Fault> {
    let mut from = Timestamp::default();
    for revoked in ended_by {
        if let Some(row) = tables.revoked.open()?.get(revoked.key().as_slice())? {
            from = from.max(Timestamp::from_seconds(row.value().0).next_second());
        }
    }
    Ok(from)
}

/// Appends an entry, which replaces an earlier entry for the same subject. The entry stays until the tokens that it
/// revokes have expired. Returns `false` if the earlier entry already covers it.
pub(super) fn announce(
    tables: &mut Tables<'_>,
    revoked: Revoked,
    extent: Extent,
) -> Result<bool, Fault> {
    let key = revoked.key();
    let latest = tables.revoked.open()?.get(key.as_slice())?;
    let latest = latest.map(|row| row.value().1);
    let before: Option<Revocation> = match latest {
        Some(sequence) => found(tables.revocations.open()?.get(sequence)?)?,
        None => None,
    };
    let existing = before.as_ref().map(|before| Extent {
        at: before.at,
        expires_at: before.expires_at,
    });
    let Some(extent) = extent.after(existing, &revoked) else {
        return Ok(false);
    };
    let meta = tables.meta.open()?;
    let sequence = counter(&**meta, LAST_REVOCATION_KEY)? + 1;
    meta.insert(LAST_REVOCATION_KEY, sequence)?;
    if let Some(before) = before {
        tables.revocations.open()?.remove(before.sequence)?;
    }
    let entry = Revocation {
        sequence,
        revoked,
        at: extent.at,
        expires_at: extent.expires_at,
    };
    add(tables, &entry)?;
    Ok(true)
}

/// Writes an entry, which is the latest for its subject.
pub(super) fn add(tables: &mut Tables<'_>, entry: &Revocation) -> Result<(), Fault> {
    let row = encode(entry)?;
    let table = tables.revocations.open()?;
    table.insert(entry.sequence, row.as_slice())?;
    let key = entry.revoked.key();
    let latest = (entry.at.seconds(), entry.sequence);
    tables.revoked.open()?.insert(key.as_slice(), latest)?;
    Ok(())
}

/// Deletes an entry whose tokens have all expired.
pub(super) fn forget(tables: &mut Tables<'_>, entry: &Revocation) -> Result<(), Fault> {
    let key = entry.revoked.key();
    let revoked = tables.revoked.open()?;
    let latest = revoked.get(key.as_slice())?.map(|row| row.value().1);
    if latest == Some(entry.sequence) {
        revoked.remove(key.as_slice())?;
    }
    tables.revocations.open()?.remove(entry.sequence)?;
    Ok(())
}

pub(super) fn set_feed(tables: &mut Tables<'_>, feed: FeedId) -> Result<(), Fault> {
    let bits = u128::from_be_bytes(*feed.as_bytes());
    let meta = tables.meta.open()?;
    let halves = [(FEED_HIGH_KEY, bits >> 64), (FEED_LOW_KEY, bits)];
    for (key, half) in halves {
        // Bits 0 to 63.
        let half = u64::try_from(half & u128::from(u64::MAX)).unwrap_or_default();
        meta.insert(key, half)?;
    }
    // Opening the table notifies the readers that wait for changes of the feed.
    tables.revocations.open()?;
    Ok(())
}

pub(super) fn token_lifetime(tables: &mut Tables<'_>) -> Result<TokenLifetime, Fault> {
    let meta = tables.meta.open()?;
    Ok(TokenLifetime {
        longest: counter(&**meta, TOKEN_LIFETIME_KEY)?,
        until: counter(&**meta, TOKEN_LIFETIME_UNTIL_KEY)?,
    })
}

pub(super) fn set_token_lifetime(
    tables: &mut Tables<'_>,
    lifetime: TokenLifetime,
) -> Result<(), Fault> {
    let meta = tables.meta.open()?;
    meta.insert(TOKEN_LIFETIME_KEY, lifetime.longest)?;
    meta.insert(TOKEN_LIFETIME_UNTIL_KEY, lifetime.until)?;
    Ok(())
}
