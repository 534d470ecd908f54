//! The feed of revocations to the gateways.
//!
//! A transaction writes its entries without positions, so that no transaction waits for another: only entries for the same
//! subject collide. Afterwards, one statement gives positions to all entries that are committed by then. It locks the row of
//! the counter until its commit, so entries get visible in the order of their positions, and a reader never misses an earlier
//! entry. The statement is its own transaction: a lost connection leaves no lock.
//!
//! Until an entry that replaces another has its position, the position of the replaced entry has the new content, so that
//! readers from the start miss nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;

use super::fault::Fault;
use super::operation::Connection;
use super::value::{number, rows, unsigned};
use super::{PostgresStore, audit};
use crate::row::{RowError, decode};
use crate::tx::tables::Announced;
use crate::{FeedStore, StoreError};
use domain::{AuditEvent, FeedId, FeedState, Revocation};

/// Maximum number of entries that get positions together.
const TOGETHER: usize = 10_000;

/// How long a committed entry may wait while other replicas give positions. After that, the feed fails: a page without the
/// entry would tell gateways that they know all revocations.
const POSITIONS_WITHIN: Duration = Duration::from_secs(5);

/// The time of the statement, in microseconds since 1970.
macro_rules! now {
    () => {
        "(extract(epoch FROM statement_timestamp()) * 1000000)::BIGINT"
    };
}
pub(super) use now;

#[async_trait]
impl FeedStore for PostgresStore {
    fn longest_token(&self) -> Duration {
        Duration::from_secs(self.longest_token.load(Ordering::Acquire))
    }

    async fn feed_state(&self) -> Result<FeedState, StoreError> {
        self.statement(state).await
    }

    async fn renew_feed(&self, feed: FeedId, audit: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        self.transaction(async move |client| {
            let identity = feed.as_bytes().as_slice();
            client
                .execute("UPDATE feed SET identity = $1", &[&identity])
                .await?;
            audit::append(client, &audit).await
        })
        .await
    }

    fn feed_changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        None
    }

    async fn revocations_since(
        &self,
        since: u64,
        limit: usize,
    ) -> Result<Vec<Revocation>, StoreError> {
        self.statement(async move |client| page(client, since, limit).await)
            .await
    }
}

/// Sets the identity of the feed if it has none.
pub(super) async fn identify(client: &Connection<'_>, fresh: FeedId) -> Result<(), Fault> {
    let sql = "INSERT INTO feed (name, identity) VALUES ('revocations', $1) ON CONFLICT (name) DO NOTHING";
    client.execute(sql, &[&fresh.as_bytes().as_slice()]).await?;
    Ok(())
}

async fn state(client: &Connection<'_>) -> Result<FeedState, Fault> {
    let sql = concat!(
        "SELECT identity, value, (SELECT ",
        now!(),
        " - min(waits_since) FROM revoked WHERE waits_since IS NOT NULL)
        FROM feed, counters WHERE feed.name = 'revocations' AND counters.name = 'last_revocation'"
    );
    let missing = || RowError("the feed has no identity".into());
    let row = client.query_opt(sql, &[]).await?.ok_or_else(missing)?;
    let identity: &[u8] = row.try_get(0)?;
    let feed = FeedId::from_bytes(identity.try_into().map_err(|_| missing())?);
    let last = unsigned(row.try_get(1)?);
    let waited: Option<i64> = row.try_get(2)?;
    let Some(waited) = waited.map(unsigned).map(Duration::from_micros) else {
        return Ok(FeedState { feed, last });
    };
    match give_positions(client).await? {
        Some(last) => Ok(FeedState { feed, last }),
        None if waited > POSITIONS_WITHIN => Err(Fault::PositionsMissing),
        None => Ok(FeedState { feed, last }),
    }
}

/// At most `limit` entries after position `since`, oldest first.
async fn page(client: &Connection<'_>, since: u64, limit: usize) -> Result<Vec<Revocation>, Fault> {
    let sql = "SELECT sequence, v FROM revoked WHERE sequence > $1 ORDER BY sequence LIMIT $2";
    let entries = client.query(sql, &[&number(since), &rows(limit)]).await?;
    let entries = entries.iter().map(|row| {
        let entry: Announced = decode(row.try_get(1)?)?;
        Ok(entry.placed(unsigned(row.try_get(0)?)))
    });
    entries.collect()
}

/// Gives positions to entries that wait, oldest first. Returns the last position, or `None` if no entry waits, or if
/// another replica gives positions at the moment.
///
/// An entry that another transaction is changing gets a position later. The update of the counter takes the last position
/// from a joined row, which PostgreSQL does not compute again if the row of the counter has changed since the statement
/// began.
pub(super) async fn give_positions(client: &Connection<'_>) -> Result<Option<u64>, Fault> {
    let sql = "WITH turn AS (
            SELECT value FROM counters WHERE name = 'last_revocation' FOR UPDATE SKIP LOCKED
        ), waiting AS (
            SELECT k, waits_since FROM revoked
            WHERE waits_since IS NOT NULL AND EXISTS (SELECT 1 FROM turn)
            ORDER BY waits_since, k LIMIT $1 FOR UPDATE SKIP LOCKED
        ), placed AS (
            SELECT waiting.k,
                turn.value + row_number() OVER (ORDER BY waiting.waits_since, waiting.k) AS sequence
            FROM waiting, turn
        ), counted AS (
            UPDATE counters SET value = reached.last
            FROM (SELECT max(sequence) AS last FROM placed HAVING count(*) > 0) AS reached
            WHERE counters.name = 'last_revocation'
        ), numbered AS (
            UPDATE revoked SET sequence = placed.sequence, waits_since = NULL
            FROM placed WHERE revoked.k = placed.k
        )
        SELECT max(sequence) FROM placed";
    let row = client.query_opt(sql, &[&rows(TOGETHER)]).await?;
    let last: Option<Option<i64>> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(last.flatten().map(unsigned))
}
