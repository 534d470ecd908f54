//! The journal of the file: what the transactions since the last checkpoint wrote, row by row.
//!
//! redb opens a file quickly after a crash only if the last durable commit recorded which pages are in use. Such a commit
//! costs CPU time and two syncs, and the record grows with the file. So only some commits are durable in redb:
//! checkpoints. Between two checkpoints, a transaction is durable once the journal has its rows, which takes one write and
//! one sync. A start after a crash opens redb at the last checkpoint, and writes the rows of the journal.
//!
//! Layout: the journal's identity, which the file of the store names too, and the journal's length (8 bytes each, little
//! endian), and from [`FIRST`] on one record for each transaction: a SHA-256 digest of the rest, the identity, the number
//! of the checkpoint before, the position among the records since, the length of the rows in bytes (8 bytes each, little
//! endian), and the rows. After each checkpoint, the records start at [`FIRST`] again, so older records may follow the
//! last record. A crash can tear the last record alone, because each record is written after the sync of the one before.
//! Like redb, the journal rests on disks that change no byte outside of a write: of the last record, damage cannot be told
//! from a crash.

use std::io;

use redb::StorageBackend;

use domain::digest::Digest;

/// Length in bytes. It limits how many rows a start reads, and how much one checkpoint writes at once.
pub(super) const CAPACITY: u64 = 1024 * 1024;

/// Position of the first record.
const FIRST: u64 = 4096;

const DIGEST: usize = 32;
const HEADER: usize = DIGEST + 4 * 8;

/// Bytes per write when the journal is filled with zeros.
const PART: usize = 4096;

/// A journal that takes transactions. After an error, its content is unknown: read it anew.
#[derive(Debug)]
pub(super) struct Journal {
    backend: Box<dyn StorageBackend>,
    id: u64,
    checkpoint: u64,
    /// Number of records since the checkpoint.
    records: u64,
    end: u64,
    record: Vec<u8>,
}

impl Journal {
    /// Starts an empty journal with the identity `id`. Allocates its space, so that a sync does not have to.
    pub(super) fn start(backend: Box<dyn StorageBackend>, id: u64) -> io::Result<Self> {
        if backend.len()? != CAPACITY {
            backend.set_len(0)?;
            backend.set_len(CAPACITY)?;
            for part in (0..CAPACITY).step_by(PART) {
                backend.write(part, &[0; PART])?;
            }
        }
        backend.write(0, head(id, CAPACITY).as_flattened())?;
        backend.sync_data()?;
        Ok(Self {
            backend,
            id,
            checkpoint: 0,
            records: 0,
            end: FIRST,
            record: Vec::new(),
        })
    }

    /// Makes the rows of a transaction durable. Returns `false` if the journal has no room for them: the transaction must
    /// become a checkpoint.
    pub(super) fn append(&mut self, rows: &[u8]) -> io::Result<bool> {
        let length = (HEADER + rows.len()) as u64;
        if CAPACITY - self.end < length {
            return Ok(false);
        }
        self.record.clear();
        self.record.extend([0; DIGEST]);
        let numbers = [self.id, self.checkpoint, self.records, rows.len() as u64];
        for number in numbers {
            self.record.extend(number.to_le_bytes());
        }
        self.record.extend_from_slice(rows);
        let (digest, covered) = self.record.split_at_mut(DIGEST);
        digest.copy_from_slice(Digest::of(covered).as_bytes());
        self.backend.write(self.end, &self.record)?;
        self.backend.sync_data()?;
        self.end += length;
        self.records += 1;
        Ok(true)
    }

    /// Number of the next checkpoint.
    pub(super) const fn next_checkpoint(&self) -> u64 {
        self.checkpoint + 1
    }

    /// Forgets all records, after [`Self::next_checkpoint`] is durable in the file.
    pub(super) const fn checkpoint_done(&mut self) {
        self.checkpoint += 1;
        self.records = 0;
        self.end = FIRST;
    }
}

const fn head(id: u64, length: u64) -> [[u8; 8]; 2] {
    [id.to_le_bytes(), length.to_le_bytes()]
}

/// The rows of each transaction since the checkpoint; `None` if the journal has another identity than `id`, or is not whole.
///
/// # Errors
/// An I/O error. `InvalidData` if a record is damaged that was followed by another one.
pub(super) fn read(
    backend: &dyn StorageBackend,
    id: u64,
    checkpoint: u64,
) -> io::Result<Option<Vec<Vec<u8>>>> {
    let length = backend.len()?;
    let mut found = [[0; 8]; 2];
    if length < FIRST {
        return Ok(None);
    }
    backend.read(0, found.as_flattened_mut())?;
    if found != head(id, length) {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    backend.read(0, &mut bytes)?;
    let mut records = Vec::new();
    let mut rest = bytes.get(FIRST as usize..).unwrap_or_default();
    while let Some((rows, behind)) = first_record(rest, [id, checkpoint, records.len() as u64]) {
        records.push(rows.to_vec());
        rest = behind;
    }
    if has_record_after(rest, [id, checkpoint, records.len() as u64]) {
        let damaged = format!(
            "record {} is damaged, and a later record is there: restore a backup",
            records.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, damaged));
    }
    Ok(Some(records))
}

/// True if `bytes` contain a whole record, at any place, that was written after the one with these numbers.
fn has_record_after(bytes: &[u8], [id, checkpoint, number]: [u64; 3]) -> bool {
    let since = [id, checkpoint].map(u64::to_le_bytes);
    bytes.windows(HEADER).enumerate().any(|(start, header)| {
        let found = header.get(DIGEST..).unwrap_or_default();
        let found = found.strip_prefix(since.as_flattened());
        let Some((found, _)) = found.and_then(<[u8]>::split_first_chunk::<8>) else {
            return false;
        };
        let (found, record) = (u64::from_le_bytes(*found), bytes.get(start..));
        let whole = record.and_then(|record| first_record(record, [id, checkpoint, found]));
        found > number && whole.is_some()
    })
}

/// The rows of the record at the start of `bytes`, and what is behind the record; `None` if the record is not complete or
/// has other `numbers`.
fn first_record(bytes: &[u8], numbers: [u64; 3]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let (digest, found) = header.split_first_chunk::<DIGEST>()?;
    let (found, length) = found.split_last_chunk::<8>()?;
    if found != numbers.map(u64::to_le_bytes).as_flattened() {
        return None;
    }
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (rows, behind) = rest.split_at_checked(length)?;
    let covered = bytes.get(DIGEST..HEADER + length)?;
    (Digest::of(covered) == Digest::from_bytes(*digest)).then_some((rows, behind))
}
