//! The audit log. Entries of a kind that arrive together share one compressed row: separate rows would cost more than many
//! of the logged requests, and most of an entry repeats in its neighbours.
//!
//! The key of a row is the number of the [`AuditKind`] and the sequence of the first entry. The row is the number of this entry
//! among all of its kind, the number of entries, and the entries.

use std::sync::Arc;

use async_trait::async_trait;
use miniz_oxide::{deflate, inflate};
use redb::ReadableTable;

use super::RedbStore;
use super::tables::{Snapshot, Tables, last};
use crate::codec::{Bytes, Keys, Parts, Rest, next};
use crate::fault::Fault;
use crate::operations::Runs as _;
use crate::records::LAST_AUDIT;
use crate::row;
use crate::tx::tables::{META, Name};
use crate::tx::{Entries, Entry, Note, PackedEntries, Read, Tx as _};
use crate::{AuditStore, StoreError, Swept};
use domain::clock::Timestamp;
use domain::{AuditEvent, AuditKind, AuditRange, AuditRecord};

#[async_trait]
impl AuditStore for RedbStore {
    async fn append_audit(&self, events: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        let entries = self.entries(events).await?;
        self.owned(move |tables| tables.append(Entry::Audit(&entries)))
            .await
    }

    async fn audit(&self, range: AuditRange, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.read(|snapshot| list(snapshot, range, limit))
    }

    async fn forget_audit(
        &self,
        kind: AuditKind,
        most: u64,
        limit: usize,
    ) -> Result<Swept, StoreError> {
        self.owned(move |tables| forget(tables, kind.number(), most, limit))
            .await
    }
}

/// Maximum number of entries in a row. Reading one entry decodes the whole row.
const ENTRIES_IN_A_ROW: usize = 64;

/// The fastest level of DEFLATE (RFC 1951). Every level finds the repeated parts of entries.
/// A full row takes 45 to 63 us, twice as long as zstd at its level 1, and is 1.1 times as large; but nothing compiles C.
const COMPRESSION: u8 = 1;

/// Packs entries outside of the writer's thread, because other operations wait for this thread.
pub(super) async fn packed(events: Arc<[AuditEvent]>) -> Result<Entries, StoreError> {
    if events.is_empty() {
        return Ok(Entries::default());
    }
    let packed = tokio::task::spawn_blocking(move || {
        let packed = Some(pack(&events)?);
        Ok::<_, Fault>(Entries { events, packed })
    });
    let packed = packed.await;
    Ok(packed.map_err(|error| StoreError::Failed(error.to_string()))??)
}

/// Packs entries in rows, each with entries of one kind.
fn pack(events: &[AuditEvent]) -> Result<Vec<PackedEntries>, Fault> {
    let mut packed = Vec::new();
    for kind in AuditKind::ALL {
        let numbered = (0..).zip(events);
        let of_kind = numbered.filter(|(_, event)| event.action.kind() == kind);
        let of_kind: Vec<(u64, &AuditEvent)> = of_kind.collect();
        for together in of_kind.chunks(ENTRIES_IN_A_ROW) {
            packed.push(PackedEntries {
                kind: kind.number(),
                position: together.first().map_or(0, |(sequence, _)| *sequence),
                entries: together.len() as u64,
                bytes: encode(together)?,
            });
        }
    }
    Ok(packed)
}

/// Encodes entries of one row as [`AuditRecord`]s. Their sequences are relative to the first.
fn encode(entries: &[(u64, &AuditEvent)]) -> Result<Vec<u8>, Fault> {
    let first = entries.first().map_or(0, |(sequence, _)| *sequence);
    let entries = entries.iter();
    let relative: Vec<_> = entries.map(|(at, event)| (at - first, event)).collect();
    let row = row::encode_all::<AuditRecord>(&relative)?;
    Ok(deflate::compress_to_vec(&row, COMPRESSION))
}

/// Appends entries. The entries of each kind are sorted.
pub(super) fn append(tables: &mut Tables<'_>, entries: &Entries) -> Result<(), Fault> {
    match &entries.packed {
        Some(packed) => append_packed(tables, packed),
        None => append_packed(tables, &pack(&entries.events)?),
    }
}

fn append_packed(tables: &mut Tables<'_>, packed: &[PackedEntries]) -> Result<(), Fault> {
    if packed.is_empty() {
        return Ok(());
    }
    let last = META.get(tables, LAST_AUDIT)?.unwrap_or_default();
    let entries: u64 = packed.iter().map(|row| row.entries).sum();
    META.put(tables, LAST_AUDIT, &(last + entries))?;
    for row in packed {
        let number = end(tables.open(Name::audit_log)?, row.kind)?;
        let first = last + 1 + row.position;
        put_row(tables, row.kind, first, (number, row.entries, &row.bytes))?;
    }
    Ok(())
}

/// Writes entries that have sequences. The entries of each kind are sorted.
pub(super) fn put(tables: &mut Tables<'_>, entries: &[AuditRecord]) -> Result<(), Fault> {
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
            let number = end(tables.open(Name::audit_log)?, kind)?;
            put_row(tables, kind, first, (number, together.len() as u64, &bytes))?;
        }
    }
    Ok(())
}

fn put_row(
    tables: &mut Tables<'_>,
    kind: u8,
    first: u64,
    (number, entries, bytes): (u64, u64, &[u8]),
) -> Result<(), Fault> {
    let [number, entries] = [number, entries].map(u64::to_be_bytes);
    let row = [&number, &entries, bytes].concat();
    tables.put(Name::audit_log, &key(kind, first), row)
}

fn key(kind: u8, first: u64) -> Bytes {
    Parts::new().byte(kind).number(first).end()
}

/// The sequence of the first entry, according to the key.
fn first_of(key: &[u8]) -> Result<u64, Fault> {
    let mut rest = Rest(key);
    rest.byte()?;
    Ok(rest.number()?)
}

/// The number of the first entry, the number of entries, and the entries.
fn parts(row: &[u8]) -> Result<(u64, u64, &[u8]), Fault> {
    let mut rest = Rest(row);
    Ok((rest.number()?, rest.number()?, rest.0))
}

/// The number of the next entry of a kind, which need not be 0 for the first.
fn end(table: &impl ReadableTable<&'static [u8], &'static [u8]>, kind: u8) -> Result<u64, Fault> {
    let Some((_, row)) = last(table, &Keys::with(&[kind]))? else {
        return Ok(0);
    };
    let (number, entries, _) = parts(&row)?;
    Ok(number + entries)
}

/// The entries of a row.
pub(super) fn entries(key: &[u8], row: &[u8]) -> Result<Vec<AuditRecord>, Fault> {
    let first = first_of(key)?;
    let (_, _, entries) = parts(row)?;
    let entries = inflate::decompress_to_vec(entries);
    let entries = entries.map_err(|error| Fault::Row(error.to_string()))?;
    let mut records: Vec<AuditRecord> = row::decode_all(&entries)?;
    for record in &mut records {
        record.sequence += first;
    }
    Ok(records)
}

/// The entries of a row; `None` and a note if they cannot be read.
fn readable(
    tx: &mut impl Read,
    (key, row): (&[u8], &[u8]),
) -> Result<Option<Vec<AuditRecord>>, Fault> {
    match entries(key, row) {
        Err(Fault::Row(reason)) => {
            let table = Name::audit_log;
            tx.note(Note::PassedOver { table, reason });
            Ok(None)
        }
        entries => entries.map(Some),
    }
}

fn list(
    snapshot: &mut Snapshot<'_>,
    range: AuditRange,
    limit: usize,
) -> Result<Vec<AuditRecord>, Fault> {
    let mut found = Vec::new();
    for kind in AuditKind::ALL.map(AuditKind::number) {
        found.extend(list_kind(snapshot, kind, range, limit)?);
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
    snapshot: &mut Snapshot<'_>,
    kind: u8,
    range: AuditRange,
    limit: usize,
) -> Result<Vec<AuditRecord>, Fault> {
    let of_kind = Keys::with(&[kind]);
    let mut found = Vec::new();
    match range {
        AuditRange::After(after) => {
            let wanted = key(kind, after.saturating_add(1));
            // The row with this entry may start at an earlier entry.
            let before = of_kind.clone().before(&next(&wanted));
            let row = last(snapshot.open(Name::audit_log)?, &before)?;
            let from = row.map_or(wanted, |(key, _)| key);
            let mut keys = Keys { from, ..of_kind };
            while found.len() < limit
                && let Some((key, row)) = first(snapshot, &keys)?
            {
                let entries = readable(snapshot, (&key, &row))?.into_iter().flatten();
                found.extend(entries.filter(|entry| entry.sequence > after));
                keys = keys.behind(&key);
            }
        }
        AuditRange::Before(before) => {
            let before = before.unwrap_or(u64::MAX);
            let mut keys = of_kind.before(&key(kind, before));
            while found.len() < limit
                && let Some((key, row)) = last(snapshot.open(Name::audit_log)?, &keys)?
            {
                let entries = readable(snapshot, (&key, &row))?;
                let newest_first = entries.unwrap_or_default().into_iter().rev();
                found.extend(newest_first.filter(|entry| entry.sequence < before));
                keys = keys.before(&key);
            }
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// The row with the lowest key.
fn first(tx: &mut impl Read, keys: &Keys) -> Result<Option<(Bytes, Bytes)>, Fault> {
    let mut first = None;
    tx.range(Name::audit_log, keys, 1, |key, row| {
        first = Some((key.to_vec(), row.to_vec()));
        Ok(())
    })?;
    Ok(first)
}

/// Number of entries. Entries of a kind are removed from the oldest on, so there is no gap between two numbers.
pub(super) fn count(snapshot: &mut Snapshot<'_>) -> Result<u64, Fault> {
    let mut count = 0;
    for kind in AuditKind::ALL.map(AuditKind::number) {
        if let Some((_, row)) = first(snapshot, &Keys::with(&[kind]))? {
            count += end(snapshot.open(Name::audit_log)?, kind)? - parts(&row)?.0;
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
    let kept_from = end(tables.open(Name::audit_log)?, kind)?.saturating_sub(most);
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
    let mut removed = 0;
    while removed < limit
        && let Some((oldest, row)) = first(tables, &Keys::with(&[kind]))?
    {
        let Some(entries) = readable(tables, (&oldest, &row))? else {
            // An unreadable row would block the removal of all later rows.
            tables.remove(Name::audit_log, &oldest)?;
            removed += 1;
            continue;
        };
        let (number, ..) = parts(&row)?;
        let gone = (number..)
            .zip(&entries)
            .take(limit - removed)
            .take_while(|(number, entry)| goes(*number, &entry.event))
            .count();
        if gone == 0 {
            break;
        }
        tables.remove(Name::audit_log, &oldest)?;
        let rest = entries.iter().skip(gone);
        let rest: Vec<_> = rest.map(|entry| (entry.sequence, &entry.event)).collect();
        if let Some((first, _)) = rest.first() {
            let bytes = encode(&rest)?;
            let row = (number + gone as u64, rest.len() as u64, &*bytes);
            put_row(tables, kind, *first, row)?;
        }
        removed += gone;
    }
    Ok(removed)
}
