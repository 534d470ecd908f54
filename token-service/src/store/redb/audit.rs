//! The audit log.

use redb::{ReadTransaction, ReadableTable as _};

use super::fault::Fault;
use super::tables::{AUDIT, LAST_AUDIT_KEY, Tables, decode, encode};
use crate::clock::Timestamp;
use crate::store::{AuditEvent, AuditRange, AuditRecord, Swept};

/// Appends entries behind the last one.
pub(super) fn append(tables: &mut Tables<'_>, events: &[AuditEvent]) -> Result<(), Fault> {
    let meta = tables.meta.open()?;
    let mut sequence = meta
        .get(LAST_AUDIT_KEY)?
        .map_or(0, |sequence| sequence.value());
    let rows = events.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
    for row in rows {
        sequence += 1;
        tables.audit.open()?.insert(sequence, row.as_slice())?;
    }
    tables.meta.open()?.insert(LAST_AUDIT_KEY, sequence)?;
    Ok(())
}

/// A part of the log.
pub(super) fn list(
    transaction: &ReadTransaction,
    range: AuditRange,
    limit: usize,
) -> Result<Vec<AuditRecord>, Fault> {
    let table = transaction.open_table(AUDIT)?;
    let record = |entry: Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, &[u8]>), _>| {
        let (sequence, event) = entry?;
        Ok(AuditRecord {
            sequence: sequence.value(),
            event: decode(event.value())?,
        })
    };
    match range {
        AuditRange::After(after) => table
            .range(after.saturating_add(1)..)?
            .take(limit)
            .map(record)
            .collect(),
        AuditRange::Before(before) => table
            .range(..before.unwrap_or(u64::MAX))?
            .rev()
            .take(limit)
            .map(record)
            .collect(),
    }
}

/// Removes up to `limit` of the oldest entries that are kept no longer.
pub(super) fn sweep(tables: &mut Tables<'_>, now: Timestamp, limit: usize) -> Result<usize, Fault> {
    let mut expired = Vec::new();
    for entry in tables.audit.open()?.range::<u64>(..)?.take(limit) {
        let (sequence, event) = entry?;
        let event: AuditEvent = decode(event.value())?;
        if now <= event.expires_at {
            break;
        }
        expired.push(sequence.value());
    }
    remove(tables, &expired)?;
    Ok(expired.len())
}

/// Removes up to `limit` entries up to the sequence `last`.
pub(super) fn forget(tables: &mut Tables<'_>, last: u64, limit: usize) -> Result<Swept, Fault> {
    let sequences = tables
        .audit
        .open()?
        .range(..=last)?
        .take(limit)
        .map(|entry| Ok(entry?.0.value()))
        .collect::<Result<Vec<u64>, Fault>>()?;
    remove(tables, &sequences)?;
    Ok(Swept {
        removed: sequences.len(),
        more: sequences.len() == limit,
    })
}

fn remove(tables: &mut Tables<'_>, sequences: &[u64]) -> Result<(), Fault> {
    let table = tables.audit.open()?;
    for sequence in sequences {
        table.remove(sequence)?;
    }
    Ok(())
}
