//! The audit log. Entries that arrive together share one compressed row: separate rows would cost more than many of the
//! logged requests, and most of an entry repeats in its neighbours.

use std::sync::Arc;

use async_trait::async_trait;
use redb::{ReadTransaction, ReadableTable as _};
use zstd::bulk::Compressor;

use super::RedbStore;
use super::fault::{Fault, readable};
use super::tables::{AUDIT, LAST_AUDIT_KEY, Tables};
use crate::row;
use crate::{AuditStore, StoreError, Swept};
use domain::clock::Timestamp;
use domain::{AuditEvent, AuditRange, AuditRecord};

#[async_trait]
impl AuditStore for RedbStore {
    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        let rows = encoded(events).await?;
        self.write(move |tables, _| append(tables, &rows)).await
    }

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.read(|transaction| list(transaction, range, limit))
    }

    async fn forget_audit(&self, last: u64, limit: usize) -> Result<Swept, StoreError> {
        self.write(move |tables, _| forget(tables, last, limit))
            .await
    }
}

/// Maximum number of entries in a row. Reading one entry decodes the whole row.
const ENTRIES_IN_A_ROW: usize = 64;

/// The fastest level. Every level finds the repeated parts of entries.
const COMPRESSION: i32 = 1;

/// Name of a row in messages about unreadable rows.
const ROW: &str = "audit entries";

/// Several entries in their stored form.
pub(super) struct Row {
    entries: u64,
    bytes: Vec<u8>,
}

/// Encodes entries outside the writer's thread, because other operations wait for this thread.
pub(super) async fn encoded(events: Arc<[AuditEvent]>) -> Result<Vec<Row>, StoreError> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let rows = tokio::task::spawn_blocking(move || rows(&events));
    let rows = rows
        .await
        .map_err(|error| StoreError::Failed(error.to_string()))?;
    Ok(rows?)
}

/// Encodes entries as rows.
pub(super) fn rows(events: &[AuditEvent]) -> Result<Vec<Row>, Fault> {
    let mut compressor = compressor()?;
    let row = |together: &[AuditEvent]| {
        Ok(Row {
            entries: together.len() as u64,
            bytes: compressed(together, &mut compressor)?,
        })
    };
    events.chunks(ENTRIES_IN_A_ROW).map(row).collect()
}

fn compressor() -> Result<Compressor<'static>, Fault> {
    Compressor::new(COMPRESSION).map_err(|error| Fault::Row(error.to_string()))
}

fn compressed<'a>(
    entries: impl IntoIterator<Item = &'a AuditEvent>,
    compressor: &mut Compressor<'_>,
) -> Result<Vec<u8>, Fault> {
    compressor
        .compress(&row::encode_all(entries)?)
        .map_err(|error| Fault::Row(error.to_string()))
}

/// Appends rows after the last row.
pub(super) fn append(tables: &mut Tables<'_>, rows: &[Row]) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let meta = tables.meta.open()?;
    let mut last = meta
        .get(LAST_AUDIT_KEY)?
        .map_or(0, |sequence| sequence.value());
    for row in rows {
        let table = tables.audit.open()?;
        table.insert(last + 1, row.bytes.as_slice())?;
        last += row.entries;
    }
    tables.meta.open()?.insert(LAST_AUDIT_KEY, last)?;
    Ok(())
}

/// The entries of the row whose first sequence is `first`.
fn records(first: u64, row: &[u8]) -> Result<Vec<AuditRecord>, Fault> {
    let row = zstd::decode_all(row).map_err(|error| Fault::Row(error.to_string()))?;
    let events: Vec<AuditEvent> = row::decode_all(&row)?;
    Ok((first..)
        .zip(events)
        .map(|(sequence, event)| AuditRecord { sequence, event })
        .collect())
}

pub(super) fn list(
    transaction: &ReadTransaction,
    range: AuditRange,
    limit: usize,
) -> Result<Vec<AuditRecord>, Fault> {
    let table = transaction.open_table(AUDIT)?;
    let mut found = Vec::new();
    match range {
        AuditRange::After(after) => {
            let wanted = after.saturating_add(1);
            // The row with this entry may start at an earlier entry.
            let row = table.range(..=wanted)?.next_back().transpose()?;
            let start = row.map_or(wanted, |(first, _)| first.value());
            for row in table.range(start..)? {
                if found.len() >= limit {
                    break;
                }
                let (first, row) = row?;
                let records = readable(ROW, records(first.value(), row.value()))?;
                let records = records.into_iter().flatten();
                found.extend(records.filter(|entry| entry.sequence > after));
            }
        }
        AuditRange::Before(before) => {
            let before = before.unwrap_or(u64::MAX);
            for row in table.range(..before)?.rev() {
                if found.len() >= limit {
                    break;
                }
                let (first, row) = row?;
                let records = readable(ROW, records(first.value(), row.value()))?;
                let newest_first = records.unwrap_or_default().into_iter().rev();
                found.extend(newest_first.filter(|entry| entry.sequence < before));
            }
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Number of entries. Entries are removed from the oldest on, so there is no gap between two sequences.
pub(super) fn count(transaction: &ReadTransaction) -> Result<u64, Fault> {
    let table = transaction.open_table(AUDIT)?;
    let (Some((first, _)), Some((last, row))) = (table.first()?, table.last()?) else {
        return Ok(0);
    };
    let last_row = readable(ROW, records(last.value(), row.value()))?;
    let in_last_row = last_row.map_or(1, |records| records.len()) as u64;
    Ok(last.value() - first.value() + in_last_row)
}

/// Removes up to `limit` of the oldest entries that have expired.
pub(super) fn sweep(tables: &mut Tables<'_>, now: Timestamp, limit: usize) -> Result<usize, Fault> {
    remove_oldest(tables, limit, |entry| entry.event.expires_at < now)
}

/// Removes up to `limit` of the oldest entries whose sequence is at most `last`.
pub(super) fn forget(tables: &mut Tables<'_>, last: u64, limit: usize) -> Result<Swept, Fault> {
    let removed = remove_oldest(tables, limit, |entry| entry.sequence <= last)?;
    Ok(Swept {
        removed,
        more: removed == limit,
    })
}

/// Removes entries from the oldest on, up to the first entry that stays.
fn remove_oldest(
    tables: &mut Tables<'_>,
    limit: usize,
    goes: impl Fn(&AuditRecord) -> bool,
) -> Result<usize, Fault> {
    let table = tables.audit.open()?;
    let mut removed = 0;
    while removed < limit {
        let Some((first, entries)) = table
            .first()?
            .map(|(first, row)| {
                let records = readable(ROW, records(first.value(), row.value()))?;
                Ok::<_, Fault>((first.value(), records))
            })
            .transpose()?
        else {
            break;
        };
        let Some(entries) = entries else {
            // An unreadable row would block the removal of all later rows.
            table.remove(first)?;
            removed += 1;
            continue;
        };
        let gone = entries
            .iter()
            .take(limit - removed)
            .take_while(|entry| goes(entry))
            .count();
        if gone == 0 {
            break;
        }
        table.remove(first)?;
        let rest: Vec<&AuditEvent> = entries
            .iter()
            .skip(gone)
            .map(|entry| &entry.event)
            .collect();
        if !rest.is_empty() {
            table.insert(
                first + gone as u64,
                compressed(rest, &mut compressor()?)?.as_slice(),
            )?;
        }
        removed += gone;
    }
    Ok(removed)
}
