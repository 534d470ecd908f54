//! The audit log. Sequences are assigned like those of the [revocation feed](super::revocations).

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::fault::{Fault, readable};
use super::operation::Connection;
use super::value::{number, rows, seconds, unsigned};
use crate::row::{RowError, decode, encode};
use crate::{AuditStore, StoreError, Swept};
use domain::{AuditEvent, AuditRange, AuditRecord};

#[async_trait]
impl AuditStore for PostgresStore {
    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        self.transaction(async move |client| append(client, &events).await)
            .await
    }

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.statement(async move |client| {
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
        })
        .await
    }

    async fn forget_audit(&self, last: u64, limit: usize) -> Result<Swept, StoreError> {
        self.statement(async move |client| {
            let sql = "DELETE FROM audit_log WHERE sequence IN
            (SELECT sequence FROM audit_log WHERE sequence <= $1 ORDER BY sequence LIMIT $2)";
            let removed = client.execute(sql, &[&number(last), &rows(limit)]).await?;
            let removed = usize::try_from(removed).unwrap_or(usize::MAX);
            Ok(Swept {
                removed,
                more: removed == limit,
            })
        })
        .await
    }
}

/// Appends entries. Call it last in a transaction, because all other entries wait for it.
pub(super) async fn append(client: &Connection<'_>, events: &[AuditEvent]) -> Result<(), Fault> {
    if events.is_empty() {
        return Ok(());
    }
    let bodies = events.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
    let expiries: Vec<i64> = events
        .iter()
        .map(|event| seconds(event.expires_at))
        .collect();
    let sql = "UPDATE counters SET value = value + $1 WHERE name = 'last_audit' RETURNING value";
    let last: i64 = client
        .query_opt(sql, &[&rows(events.len())])
        .await?
        .ok_or_else(|| RowError("the counter of the audit log is missing".into()))?
        .try_get(0)?;
    let sequences: Vec<i64> = (last - rows(events.len()) + 1..=last).collect();
    let sql = "INSERT INTO audit_log (sequence, expires_at, body)
        SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BYTEA[])";
    client
        .execute(sql, &[&sequences, &expiries, &bodies])
        .await?;
    Ok(())
}
