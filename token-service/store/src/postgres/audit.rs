//! The audit log. Its sequences are handed out as those of the [revocation feed](super::revocations).

use std::sync::Arc;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::fault::{Fault, readable};
use super::operation::{Operation, execute, query, query_opt};
use super::value::{number, rows, seconds, unsigned};
use crate::Swept;
use crate::row::{RowError, decode, encode};
use domain::{AuditEvent, AuditRange, AuditRecord};

/// Appends entries behind the last one.
pub(super) struct Append(pub(super) Arc<[AuditEvent]>);

impl Operation for Append {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let Self(events) = self;
        let bodies = events.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let expiries: Vec<i64> = events
            .iter()
            .map(|event| seconds(event.expires_at))
            .collect();
        let sql =
            "UPDATE counters SET value = value + $1 WHERE name = 'last_audit' RETURNING value";
        let last: i64 = query_opt(client, sql, &[&rows(events.len())])
            .await?
            .ok_or_else(|| RowError("the counter of the audit log is missing".into()))?
            .try_get(0)?;
        let sequences: Vec<i64> = (last - rows(events.len()) + 1..=last).collect();
        let sql = "INSERT INTO audit_log (sequence, expires_at, body)
            SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BYTEA[])";
        execute(client, sql, &[&sequences, &expiries, &bodies]).await?;
        Ok(())
    }
}

/// A part of the log.
pub(super) struct List {
    pub(super) range: AuditRange,
    pub(super) limit: usize,
}

impl Operation for List {
    type Outcome = Vec<AuditRecord>;

    async fn run(&self, client: &impl GenericClient) -> Result<Vec<AuditRecord>, Fault> {
        let (sql, position) = match self.range {
            AuditRange::After(after) => (
                "SELECT sequence, body FROM audit_log WHERE sequence > $1 ORDER BY sequence LIMIT $2",
                number(after),
            ),
            AuditRange::Before(before) => (
                "SELECT sequence, body FROM audit_log WHERE sequence < $1 ORDER BY sequence DESC LIMIT $2",
                before.map_or(i64::MAX, number),
            ),
        };
        let found = query(client, sql, &[&position, &rows(self.limit)]).await?;
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
}

/// Removes up to `limit` entries up to the sequence `last`.
pub(super) struct Forget {
    pub(super) last: u64,
    pub(super) limit: usize,
}

impl Operation for Forget {
    type Outcome = Swept;

    async fn run(&self, client: &impl GenericClient) -> Result<Swept, Fault> {
        let sql = "DELETE FROM audit_log WHERE sequence IN
            (SELECT sequence FROM audit_log WHERE sequence <= $1 ORDER BY sequence LIMIT $2)";
        let removed = execute(client, sql, &[&number(self.last), &rows(self.limit)]).await?;
        let removed = usize::try_from(removed).unwrap_or(usize::MAX);
        Ok(Swept {
            removed,
            more: removed == self.limit,
        })
    }
}
