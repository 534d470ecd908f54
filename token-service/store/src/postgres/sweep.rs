//! Removal of expired rows, in small batches.

use std::sync::PoisonError;

use super::operation::Connection;
use super::{PostgresStore, audit};
use crate::codec::Bytes;
use crate::operations::{Runs as _, sweep};
use crate::tx::Tx as _;
use crate::tx::tables::{Announced, REVOKED};
use crate::{StoreError, Swept};
use domain::clock::Timestamp;
use domain::revocation::READERS_CLOCK_SKEW;

/// Where the next batch continues, in the feed and in other tables.
pub(super) type Cursor = (Option<Bytes>, sweep::Cursor);

impl PostgresStore {
    /// Removes up to `limit` rows that expired before `due`.
    pub(super) async fn remove_expired(
        &self,
        due: Timestamp,
        limit: usize,
    ) -> Result<Swept, StoreError> {
        let cursor = || {
            let cursor = self.sweep_cursor.lock();
            cursor.unwrap_or_else(PoisonError::into_inner)
        };
        let before = cursor().clone();
        let walk = self.owned(move |tx| {
            let (mut entry, mut cursor) = before.clone();
            let is_over = |entry: &Announced| entry.expires_at + READERS_CLOCK_SKEW < due;
            let over = sweep::expired(tx, &REVOKED, &mut entry, limit, is_over)?;
            let mut swept = sweep::walk(tx, &mut cursor, due, limit - over.len())?;
            for (key, _) in &over {
                tx.remove(REVOKED.name(), key)?;
            }
            swept.removed += over.len();
            Ok((swept, (entry, cursor)))
        });
        let (mut swept, after) = walk.await?;
        *cursor() = after;
        if swept.removed < limit {
            let left = limit - swept.removed;
            let expired =
                async move |client: &Connection<'_>| audit::forget_expired(client, due, left).await;
            let expired = self.statement(expired).await?;
            swept.removed += expired;
            swept.more |= expired == left;
        }
        Ok(swept)
    }
}
