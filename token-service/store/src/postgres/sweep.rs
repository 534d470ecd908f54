//! Removal of expired rows, in small batches. The sweep of the redb store documents the retention of each kind of row.

use std::time::Duration;

use super::PostgresStore;
use super::fault::Fault;
use super::operation::Connection;
use super::value::{number, rows, seconds};
use crate::{StoreError, Swept};
use domain::GrantId;
use domain::clock::Timestamp;
use domain::revocation::READERS_CLOCK_SKEW;

/// Tables with an index by expiry, and the time for which an expired row stays. Uses a subquery with a limit, because
/// DELETE has no LIMIT.
const EXPIRING: [(&str, Duration); 6] = [
    (
        "DELETE FROM codes WHERE code IN
        (SELECT code FROM codes WHERE expires_at < $1 LIMIT $2) AND expires_at < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM used_once WHERE digest IN
        (SELECT digest FROM used_once WHERE expires_at < $1 LIMIT $2) AND expires_at < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM failures WHERE key IN
        (SELECT key FROM failures WHERE expires_at < $1 LIMIT $2) AND expires_at < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM sessions WHERE id IN
        (SELECT id FROM sessions WHERE expires_at < $1 LIMIT $2) AND expires_at < $1",
        Duration::ZERO,
    ),
    (
        "DELETE FROM revocations WHERE revoked IN
        (SELECT revoked FROM revocations WHERE expires_at < $1 LIMIT $2) AND expires_at < $1",
        READERS_CLOCK_SKEW,
    ),
    (
        "DELETE FROM audit_log WHERE sequence IN
        (SELECT sequence FROM audit_log WHERE expires_at < $1 LIMIT $2)",
        Duration::ZERO,
    ),
];

/// Number of grants that one batch reads per row that it may remove. Grants have no index by expiry, because every
/// rotation would have to move an entry of it. Instead, each batch reads the next part of the grants.
const LOOKED_AT_PER_REMOVED: usize = 4;

/// The grant after which the next batch continues.
pub(super) type Cursor = Option<GrantId>;

impl PostgresStore {
    /// Removes up to `limit` rows. Returns the next cursor.
    pub(super) async fn remove_expired(
        &self,
        cursor: Cursor,
        now: Timestamp,
        limit: usize,
    ) -> Result<(Swept, Cursor), StoreError> {
        let mut removed = 0;
        for (sql, stays) in EXPIRING {
            let expired_before = now.seconds().saturating_sub(stays.as_secs());
            let limit = limit.saturating_sub(removed);
            if limit > 0 {
                let expired = async move |client: &Connection<'_>| {
                    client
                        .execute(sql, &[&number(expired_before), &rows(limit)])
                        .await
                };
                let expired = self.statement(expired).await?;
                removed += usize::try_from(expired).unwrap_or(usize::MAX);
            }
        }
        let limit_of_grants = limit.saturating_sub(removed);
        if limit_of_grants == 0 {
            let more = true;
            return Ok((Swept { removed, more }, cursor));
        }
        let walk = async move |client: &Connection<'_>| {
            expired_grants(client, cursor, now, limit_of_grants).await
        };
        let (removed_grants, cursor) = self.statement(walk).await?;
        removed += removed_grants;
        let more = false;
        Ok((Swept { removed, more }, cursor))
    }
}

/// [`Grant::is_over`](domain::Grant::is_over) in SQL.
const OVER: &str = "(revoked_at IS NOT NULL OR refresh_over_at < $2) AND access_over_at < $2";

/// Reads the next part of the grants.
async fn expired_grants(
    client: &Connection<'_>,
    after: Cursor,
    now: Timestamp,
    limit: usize,
) -> Result<(usize, Cursor), Fault> {
    let looked_at = limit.saturating_mul(LOOKED_AT_PER_REMOVED);
    let sql = format!(
        "SELECT grant_id, {OVER} FROM grants WHERE grant_id > $1 ORDER BY grant_id LIMIT $3"
    );
    let after: &[u8] = after.as_ref().map_or(&[], |id| id.as_bytes());
    let now = seconds(now);
    let seen = client
        .query(&sql, &[&after, &now, &rows(looked_at)])
        .await?;
    let mut over: Vec<&[u8]> = Vec::new();
    let mut reached = None;
    for row in &seen {
        if over.len() >= limit {
            break;
        }
        let id: &[u8] = row.try_get(0)?;
        reached = <[u8; 16]>::try_from(id).map(GrantId::from_bytes).ok();
        if row.try_get(1)? {
            over.push(id);
        }
    }
    let at_the_end = seen.len() < looked_at && over.len() < limit;
    if over.is_empty() {
        return Ok((0, reached.filter(|_| !at_the_end)));
    }
    // Repeats the condition, because a grant may have been refreshed in the meantime.
    let sql = format!("DELETE FROM grants WHERE grant_id = ANY($1) AND {OVER}");
    let removed = client.execute(&sql, &[&over, &now]).await?;
    let removed = usize::try_from(removed).unwrap_or(usize::MAX);
    Ok((removed, reached.filter(|_| !at_the_end)))
}
