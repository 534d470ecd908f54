//! The audit log. Sequences are assigned like those of the [revocation feed](super::revocations).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::fault::{Fault, readable};
use super::operation::Connection;
use super::value::{number, rows, seconds, unsigned};
use crate::row::{RowError, decode, encode};
use crate::{AuditStore, StoreError, Swept};
use domain::{AuditEvent, AuditKind, AuditRange, AuditRecord};

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

    async fn forget_audit(
        &self,
        kind: AuditKind,
        most: u64,
        limit: usize,
    ) -> Result<Swept, StoreError> {
        self.statement(async move |client| {
            let kind = i16::from(kind.number());
            let values: [&(dyn ToSql + Sync); 3] = [&kind, &number(most), &rows(limit)];
            let removed = client.execute(FORGET, &values).await?;
            let removed = usize::try_from(removed).unwrap_or(usize::MAX);
            Ok(Swept {
                removed,
                more: removed == limit,
            })
        })
        .await
    }
}

pub(super) const FORGET: &str = "DELETE FROM audit_log WHERE sequence IN
    (SELECT sequence FROM audit_log
    WHERE kind = $1 AND number <= (SELECT max(number) FROM audit_log WHERE kind = $1) - $2::BIGINT
    ORDER BY number LIMIT $3)";

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
    let mut numbers = BTreeMap::new();
    let (mut kinds, mut numbered) = (Vec::new(), Vec::new());
    for event in events {
        let kind = i16::from(event.action.kind().number());
        let number: &mut i64 = numbers.entry(kind).or_default();
        *number += 1;
        kinds.push(kind);
        numbered.push(*number);
    }
    // The row of the counter is locked, so the greatest number of a kind stays until the commit.
    let sql = "INSERT INTO audit_log (sequence, expires_at, body, kind, number)
        SELECT new.sequence, new.expires_at, new.body, new.kind, new.number
            + coalesce((SELECT max(held.number) FROM audit_log AS held WHERE held.kind = new.kind), 0)
        FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BYTEA[], $4::SMALLINT[], $5::BIGINT[])
            AS new (sequence, expires_at, body, kind, number)";
    let values: [&(dyn ToSql + Sync); 5] = [&sequences, &expiries, &bodies, &kinds, &numbered];
    client.execute(sql, &values).await?;
    Ok(())
}

/// Appends entries about something that an operation did, if it did it. Returns `done`.
pub(super) async fn append_if(
    client: &Connection<'_>,
    done: bool,
    events: &[AuditEvent],
) -> Result<bool, Fault> {
    if done {
        append(client, events).await?;
    }
    Ok(done)
}
