//! The audit log. Entries of a kind that arrive together share one compressed row: separate rows would cost more than many
//! of the logged requests, and most of an entry repeats in its neighbours.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use miniz_oxide::{deflate, inflate};
use redb::{ReadTransaction, ReadableTable};

use super::RedbStore;
use super::fault::{Fault, readable};
use super::tables::{AUDIT, LAST_AUDIT_KEY, Tables, counter};
use crate::row;
use crate::{AuditStore, StoreError, Swept};
use domain::clock::Timestamp;
use domain::{AuditEvent, AuditKind, AuditRange, AuditRecord};

#[async_trait]
impl AuditStore for RedbStore {
    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        let rows = encoded(events).await?;
        self.write(move |tables, _| append(tables, &rows)).await
    }

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.read(|transaction| list(transaction, range, limit))
    }

    async fn forget_audit(
        &self,
        kind: AuditKind,
        most: u64,
        limit: usize,
    ) -> Result<Swept, StoreError> {
        self.write(move |tables, _| forget(tables, kind.number(), most, limit))
            .await
    }
}

/// Maximum number of entries in a row. Reading one entry decodes the whole row.
const ENTRIES_IN_A_ROW: usize = 64;

/// The fastest level of DEFLATE (RFC 1951). Every level finds the repeated parts of entries.
/// A full row takes 45 to 63 us, twice as long as zstd at its level 1, and is 1.1 times as large; but nothing compiles C.
const COMPRESSION: u8 = 1;

/// Name of a row in messages about unreadable rows.
const ROW: &str = "audit entries";

/// Several entries of one kind in their stored form.
pub(super) struct Row {
    kind: u8,
    /// Position of the first entry among the entries that are appended together.
    position: u64,
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

/// Encodes entries as rows, each with entries of one kind.
pub(super) fn rows(events: &[AuditEvent]) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for kind in AuditKind::ALL {
        let numbered = (0..).zip(events);
        let of_kind = numbered.filter(|(_, event)| event.action.kind() == kind);
        let of_kind: Vec<(u64, &AuditEvent)> = of_kind.collect();
        for together in of_kind.chunks(ENTRIES_IN_A_ROW) {
            rows.push(Row {
                kind: kind.number(),
                position: together.first().map_or(0, |(sequence, _)| *sequence),
                entries: together.len() as u64,
                bytes: encode(together)?,
            });
        }
    }
    Ok(rows)
}

/// Encodes entries of one row as [`AuditRecord`]s. Their sequences are relative to the first.
fn encode(entries: &[(u64, &AuditEvent)]) -> Result<Vec<u8>, Fault> {
    let first = entries.first().map_or(0, |(sequence, _)| *sequence);
    let entries = entries.iter();
    let relative: Vec<_> = entries.map(|(at, event)| (at - first, event)).collect();
    let row = row::encode_all::<AuditRecord>(&relative)?;
    Ok(deflate::compress_to_vec(&row, COMPRESSION))
}

/// Appends rows, of which each kind's are sorted.
pub(super) fn append(tables: &mut Tables<'_>, rows: &[Row]) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let meta = tables.meta.open()?;
    let last = counter(&**meta, LAST_AUDIT_KEY)?;
    let entries: u64 = rows.iter().map(|row| row.entries).sum();
    meta.insert(LAST_AUDIT_KEY, last + entries)?;
    let table = tables.audit_log.open()?;
    for row in rows {
        let number = end(&**table, row.kind)?;
        let key = (row.kind, last + 1 + row.position);
        table.insert(key, (number, row.entries, row.bytes.as_slice()))?;
    }
    Ok(())
}

/// Writes entries that have sequences, of which each kind's are sorted.
pub(super) fn put(tables: &mut Tables<'_>, entries: &[AuditRecord]) -> Result<(), Fault> {
    let table = tables.audit_log.open()?;
    for kind in AuditKind::ALL {
        let of_kind = entries.iter();
        let of_kind = of_kind.filter(|entry| entry.event.action.kind() == kind);
        let of_kind: Vec<_> = of_kind
            .map(|entry| (entry.sequence, &entry.event))
            .collect();
        for together in of_kind.chunks(ENTRIES_IN_A_ROW) {
            let kind = kind.number();
            let first = together.first().map_or(0, |(sequence, _)| *sequence);
            let bytes = encode(together)?;
            let number = end(&**table, kind)?;
            let row = (number, together.len() as u64, bytes.as_slice());
            table.insert((kind, first), row)?;
        }
    }
    Ok(())
}

/// Appends rows about something that an operation did, if it did it. Returns `done`.
pub(super) fn append_if(tables: &mut Tables<'_>, done: bool, rows: &[Row]) -> Result<bool, Fault> {
    if done {
        append(tables, rows)?;
    }
    Ok(done)
}

type Key = (u8, u64);
type Value = (u64, u64, &'static [u8]);

/// The number of the next entry of a kind, which need not be 0 for the first.
fn end(table: &impl ReadableTable<Key, Value>, kind: u8) -> Result<u64, Fault> {
    let last = table.range(of_kind(kind))?.next_back().transpose()?;
    Ok(last.map_or(0, |(_, row)| {
        let (number, entries, _) = row.value();
        number + entries
    }))
}

const fn of_kind(kind: u8) -> RangeInclusive<Key> {
    (kind, 0)..=(kind, u64::MAX)
}

/// The entries of a row whose first entry has the sequence `first`.
pub(super) fn records(first: u64, row: &[u8]) -> Result<Vec<AuditRecord>, Fault> {
    let row = inflate::decompress_to_vec(row).map_err(|error| Fault::Row(error.to_string()))?;
    let mut records: Vec<AuditRecord> = row::decode_all(&row)?;
    for record in &mut records {
        record.sequence += first;
    }
    Ok(records)
}

pub(super) fn list(
    transaction: &ReadTransaction,
    range: AuditRange,
    limit: usize,
) -> Result<Vec<AuditRecord>, Fault> {
    let table = transaction.open_table(AUDIT)?;
    let mut found = Vec::new();
    for kind in AuditKind::ALL.map(AuditKind::number) {
        found.extend(list_kind(&table, kind, range, limit)?);
    }
    found.sort_unstable_by_key(|record| record.sequence);
    if matches!(range, AuditRange::Before(_)) {
        found.reverse();
    }
    found.truncate(limit);
    Ok(found)
}

/// At most `limit` entries of one kind.
fn list_kind(
    table: &impl ReadableTable<Key, Value>,
    kind: u8,
    range: AuditRange,
    limit: usize,
) -> Result<Vec<AuditRecord>, Fault> {
    let mut found = Vec::new();
    match range {
        AuditRange::After(after) => {
            let wanted = (kind, after.saturating_add(1));
            // The row with this entry may start at an earlier entry.
            let row = table.range((kind, 0)..=wanted)?.next_back().transpose()?;
            let start = row.map_or(wanted, |(key, _)| key.value());
            for row in table.range(start..=(kind, u64::MAX))? {
                if found.len() >= limit {
                    break;
                }
                let (key, row) = row?;
                let records = readable(ROW, records(key.value().1, row.value().2))?;
                let records = records.into_iter().flatten();
                found.extend(records.filter(|entry| entry.sequence > after));
            }
        }
        AuditRange::Before(before) => {
            let before = before.unwrap_or(u64::MAX);
            for row in table.range((kind, 0)..(kind, before))?.rev() {
                if found.len() >= limit {
                    break;
                }
                let (key, row) = row?;
                let records = readable(ROW, records(key.value().1, row.value().2))?;
                let newest_first = records.unwrap_or_default().into_iter().rev();
                found.extend(newest_first.filter(|entry| entry.sequence < before));
            }
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Number of entries. Entries of a kind are removed from the oldest on, so there is no gap between two numbers.
pub(super) fn count(transaction: &ReadTransaction) -> Result<u64, Fault> {
    let table = transaction.open_table(AUDIT)?;
    let mut count = 0;
    for kind in AuditKind::ALL.map(AuditKind::number) {
        if let Some(first) = table.range(of_kind(kind))?.next().transpose()? {
            count += end(&table, kind)? - first.1.value().0;
        }
    }
    Ok(count)
}

/// Removes up to `limit` of the oldest entries of each kind that have expired.
pub(super) fn sweep(tables: &mut Tables<'_>, now: Timestamp, limit: usize) -> Result<usize, Fault> {
    let mut removed = 0;
    for kind in AuditKind::ALL.map(AuditKind::number) {
        let limit = limit - removed;
        removed += remove_oldest(tables, kind, limit, |_, event| event.expires_at < now)?;
    }
    Ok(removed)
}

/// Removes up to `limit` of the oldest entries of a kind that are not among its newest `most`.
fn forget(tables: &mut Tables<'_>, kind: u8, most: u64, limit: usize) -> Result<Swept, Fault> {
    let kept_from = end(&**tables.audit_log.open()?, kind)?.saturating_sub(most);
    let removed = remove_oldest(tables, kind, limit, |number, _| number < kept_from)?;
    Ok(Swept {
        removed,
        more: removed == limit,
    })
}

/// Removes entries of a kind from the oldest on, up to the first entry that stays. `goes` gets an entry and its number.
fn remove_oldest(
    tables: &mut Tables<'_>,
    kind: u8,
    limit: usize,
    goes: impl Fn(u64, &AuditEvent) -> bool,
) -> Result<usize, Fault> {
    let table = tables.audit_log.open()?;
    let mut removed = 0;
    while removed < limit {
        let Some((key, number, entries)) = table
            .range(of_kind(kind))?
            .next()
            .transpose()?
            .map(|(key, row)| {
                let (number, _, entries) = row.value();
                let records = readable(ROW, records(key.value().1, entries))?;
                Ok::<_, Fault>((key.value(), number, records))
            })
            .transpose()?
        else {
            break;
        };
        let Some(entries) = entries else {
            // An unreadable row would block the removal of all later rows.
            table.remove(key)?;
            removed += 1;
            continue;
        };
        let gone = (number..)
            .zip(&entries)
            .take(limit - removed)
            .take_while(|(number, entry)| goes(*number, &entry.event))
            .count();
        if gone == 0 {
            break;
        }
        table.remove(key)?;
        let rest = entries.iter().skip(gone);
        let rest: Vec<_> = rest.map(|entry| (entry.sequence, &entry.event)).collect();
        if let Some((first, _)) = rest.first() {
            let bytes = encode(&rest)?;
            let row = (number + gone as u64, rest.len() as u64, bytes.as_slice());
            table.insert((kind, *first), row)?;
        }
        removed += gone;
    }
    Ok(removed)
}
