//! The audit log. A transaction adds its entries to those that wait, so that no transaction waits for another. A reader
//! or a trim first moves them to the log, in its own transaction, which gives them sequences and numbers.
//! The row of the counter is locked until the commit, so a reader never misses an earlier entry.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::fault::{Fault, readable};
use super::feed::now;
use super::operation::Connection;
use super::value::{number, rows, seconds, unsigned};
use crate::operations::Runs as _;
use crate::row::{RowError, decode, encode};
use crate::tx::{Entry, Tx as _};
use crate::{AuditStore, StoreError, Swept};
use domain::clock::Timestamp;
use domain::random;
use domain::{AuditEvent, AuditKind, AuditRange, AuditRecord};
use system::OsRandom;

#[async_trait]
impl AuditStore for PostgresStore {
    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        let entries = self.entries(events).await?;
        self.guarded(move |tx| tx.append(Entry::Audit(&entries)))
            .await
    }

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.settle_audit().await?;
        self.statement(async move |client| list(client, range, limit).await)
            .await
    }

    async fn forget_audit(
        &self,
        kind: AuditKind,
        most: u64,
        limit: usize,
    ) -> Result<Swept, StoreError> {
        self.settle_audit().await?;
        self.statement(async move |client| forget(client, kind, most, limit).await)
            .await
    }
}

pub(super) const FORGET: &str = "DELETE FROM audit_log WHERE sequence IN
    (SELECT sequence FROM audit_log
    WHERE kind = $1 AND number <= (SELECT max(number) FROM audit_log WHERE kind = $1) - $2::BIGINT
    ORDER BY number LIMIT $3)";

/// Maximum number of entries that move to the log in one transaction.
const TOGETHER: usize = 10_000;

impl PostgresStore {
    /// Moves all entries that wait to the log.
    async fn settle_audit(&self) -> Result<(), StoreError> {
        let mut waiting = self.statement(is_waiting).await?;
        while waiting {
            waiting = self.transaction(settle).await?;
        }
        Ok(())
    }
}

/// True if entries wait for their place in the log.
async fn is_waiting(client: &Connection<'_>) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM audit_waiting LIMIT 1";
    Ok(client.query_opt(sql, &[]).await?.is_some())
}

async fn list(
    client: &Connection<'_>,
    range: AuditRange,
    limit: usize,
) -> Result<Vec<AuditRecord>, Fault> {
    let (sql, position) = match range {
        AuditRange::After(after) => (
            "SELECT sequence, body FROM audit_log WHERE sequence > $1 ORDER BY sequence LIMIT $2",
            number(after),
        ),
        AuditRange::Before(before) => (
            "SELECT sequence, body FROM audit_log WHERE sequence < $1 ORDER BY sequence DESC LIMIT $2",
            before.map_or(i64::MAX, number),
        ),
    };
    let found = client.query(sql, &[&position, &rows(limit)]).await?;
    let record = |row: &Row| {
        Ok(AuditRecord {
            sequence: unsigned(row.try_get(0)?),
            event: decode(row.try_get(1)?)?,
        })
    };
    found
        .iter()
        .filter_map(|row| readable("audit entry", record(row)).transpose())
        .collect()
}

async fn forget(
    client: &Connection<'_>,
    kind: AuditKind,
    most: u64,
    limit: usize,
) -> Result<Swept, Fault> {
    let kind = i64::from(kind.number());
    let values: [&(dyn ToSql + Sync); 3] = [&kind, &number(most), &rows(limit)];
    let removed = client.execute(FORGET, &values).await?;
    let removed = usize::try_from(removed).unwrap_or(usize::MAX);
    Ok(Swept {
        removed,
        more: removed == limit,
    })
}

/// Removes up to `limit` entries that expired before `due`.
pub(super) async fn forget_expired(
    client: &Connection<'_>,
    due: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let sql = "DELETE FROM audit_log WHERE sequence IN
        (SELECT sequence FROM audit_log WHERE expires_at < $1 LIMIT $2)";
    let removed = client.execute(sql, &[&seconds(due), &rows(limit)]).await?;
    Ok(usize::try_from(removed).unwrap_or(usize::MAX))
}

/// Moves the oldest entries that wait to the log. Returns whether more may wait.
pub(super) async fn settle(client: &Connection<'_>) -> Result<bool, Fault> {
    let sql = "SELECT value FROM counters WHERE name = 'last_audit' FOR UPDATE";
    let last: i64 = client
        .query_opt(sql, &[])
        .await?
        .ok_or_else(|| RowError("the counter of the audit log is missing".into()))?
        .try_get(0)?;
    // The row of the counter is locked, so the greatest number of a kind stays until the commit. Read before the insertion: a
    // subquery of its statement would pass over the inserted entries for each entry, which takes longer than a statement may.
    let kinds = AuditKind::ALL.map(|kind| i64::from(kind.number()));
    let sql =
        "SELECT found.kind, (SELECT max(number) FROM audit_log WHERE audit_log.kind = found.kind)
        FROM unnest($1::BIGINT[]) AS found (kind)";
    let found = client.query(sql, &[&kinds.as_slice()]).await?;
    let greatest = found.iter().map(|row| {
        let number: Option<i64> = row.try_get(1)?;
        Ok::<(i64, i64), Fault>((row.try_get(0)?, number.unwrap_or(0)))
    });
    let (kinds, numbers): (Vec<i64>, Vec<i64>) = greatest.collect::<Result<_, _>>()?;
    let sql = "WITH moved AS (
            DELETE FROM audit_waiting WHERE (batch, place) IN (
                SELECT batch, place FROM audit_waiting ORDER BY waits_since, batch, place LIMIT $2
            ) RETURNING batch, place, waits_since, kind, expires_at, body
        )
        INSERT INTO audit_log (sequence, expires_at, body, kind, number)
        SELECT $1 + row_number() OVER (ORDER BY waits_since, batch, place), expires_at, body, kind,
            coalesce(held.number, 0) + row_number() OVER (PARTITION BY kind ORDER BY waits_since, batch, place)
        FROM moved LEFT JOIN unnest($3::BIGINT[], $4::BIGINT[]) AS held (kind, number) USING (kind)";
    let values: [&(dyn ToSql + Sync); 4] = [&last, &rows(TOGETHER), &kinds, &numbers];
    let moved = client.execute(sql, &values).await?;
    let sql = "UPDATE counters SET value = $1 WHERE name = 'last_audit'";
    let last = last.saturating_add(number(moved));
    client.execute(sql, &[&last]).await?;
    Ok(moved == TOGETHER as u64)
}

/// Appends entries in a transaction that no operation is.
pub(super) async fn append(client: &Connection<'_>, events: &[AuditEvent]) -> Result<(), Fault> {
    if events.is_empty() {
        return Ok(());
    }
    let batch: [u8; 16] = random::bytes(&OsRandom)?;
    let places: Vec<i64> = (0..rows(events.len())).collect();
    let kinds: Vec<i64> = events
        .iter()
        .map(|event| i64::from(event.action.kind().number()))
        .collect();
    let expiries: Vec<i64> = events
        .iter()
        .map(|event| seconds(event.expires_at))
        .collect();
    let bodies = events.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
    let sql = concat!(
        "INSERT INTO audit_waiting (batch, place, waits_since, kind, expires_at, body)
        SELECT $1::BYTEA, new.place, ",
        now!(),
        ", new.kind, new.expires_at, new.body
        FROM unnest($2::BIGINT[], $3::BIGINT[], $4::BIGINT[], $5::BYTEA[])
            AS new (place, kind, expires_at, body)"
    );
    let batch = batch.as_slice();
    let values: [&(dyn ToSql + Sync); 5] = [&batch, &places, &kinds, &expiries, &bodies];
    client.execute(sql, &values).await?;
    Ok(())
}
