//! Positions of the revocation feed.
//!
//! A transaction writes its entries without positions, so that no transaction waits for another: only entries for the same
//! subject wait for each other. Afterwards, one statement gives positions to all entries that are committed by then. It
//! locks the row of the counter until its commit, so entries get visible in the order of their positions, and a reader
//! never misses an earlier entry. The statement is its own transaction: a lost connection leaves no lock.

use super::fault::Fault;
use super::operation::Connection;
use super::value::{rows, unsigned};

/// Maximum number of entries that get positions together.
const TOGETHER: usize = 10_000;

/// The time of the statement, in microseconds since 1970.
macro_rules! now {
    () => {
        "(extract(epoch FROM statement_timestamp()) * 1000000)::BIGINT"
    };
}
pub(super) use now;

/// Gives positions to entries that wait, oldest first. Returns the last position, or `None` if no entry waits, or if
/// another replica gives positions at the moment.
///
/// An entry that another transaction is changing gets a position later. The update of the counter takes the last position
/// from a joined row, which PostgreSQL does not compute again if the row of the counter has changed since the statement
/// began.
pub(super) async fn give(client: &Connection<'_>) -> Result<Option<u64>, Fault> {
    let sql = "WITH turn AS (
            SELECT value FROM counters WHERE name = 'last_revocation' FOR UPDATE SKIP LOCKED
        ), waiting AS (
            SELECT revoked, waits_since FROM revocations
            WHERE waits_since IS NOT NULL AND EXISTS (SELECT 1 FROM turn)
            ORDER BY waits_since, revoked LIMIT $1 FOR UPDATE SKIP LOCKED
        ), placed AS (
            SELECT waiting.revoked,
                turn.value + row_number() OVER (ORDER BY waiting.waits_since, waiting.revoked) AS sequence
            FROM waiting, turn
        ), counted AS (
            UPDATE counters SET value = reached.last
            FROM (SELECT max(sequence) AS last FROM placed HAVING count(*) > 0) AS reached
            WHERE counters.name = 'last_revocation'
        ), numbered AS (
            UPDATE revocations SET sequence = placed.sequence, waits_since = NULL
            FROM placed WHERE revocations.revoked = placed.revoked
        )
        SELECT max(sequence) FROM placed";
    let row = client.query_opt(sql, &[&rows(TOGETHER)]).await?;
    let last: Option<Option<i64>> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(last.flatten().map(unsigned))
}
