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
//! last record. A crash can tear only the last record, because each record is written after the sync of the one before.
//! At [`MARK`] is a record with the number of the next record. It is written after each sync and each checkpoint, and durable
//! with the next sync. So a start finds out that durable records are missing, or that the file is older than the journal.
//! Before the file gets a checkpoint, the mark has its number, and is durable. So a start also finds out that the journal is
//! older than the file. Like redb, the journal rests on disks that change no byte outside of a write.

use std::io;

use redb::StorageBackend;

use domain::digest::Digest;

/// Length in bytes. It limits how many rows a start reads, and how much one checkpoint writes at once.
pub(super) const CAPACITY: u64 = 1024 * 1024;

/// Position of the mark, in its own sector.
const MARK: u64 = 512;

/// Position of the first record.
const FIRST: u64 = 4096;

const DIGEST: usize = 32;
const HEADER: usize = DIGEST + 4 * 8;

/// Bytes per write when the journal is filled with zeros.
const PART: usize = 4096;

/// A journal that takes transactions. After an error, its content is unknown: read it again.
#[derive(Debug)]
pub(super) struct Journal {
    backend: Box<dyn StorageBackend>,
    capacity: u64,
    id: u64,
    checkpoint: u64,
    /// Number of records since the checkpoint.
    records: u64,
    end: u64,
    record: Vec<u8>,
}

impl Journal {
    /// Starts an empty journal with the identity `id`. Allocates its space, `capacity` bytes, so that a sync does not have to.
    pub(super) fn start(
        backend: Box<dyn StorageBackend>,
        id: u64,
        capacity: u64,
    ) -> io::Result<Self> {
        if backend.len()? != capacity {
            backend.set_len(0)?;
            backend.set_len(capacity)?;
            for part in (0..capacity).step_by(PART) {
                backend.write(part, &[0; PART])?;
            }
        }
        backend.write(0, head(id, capacity).as_flattened())?;
        backend.sync_data()?;
        Ok(Self {
            backend,
            capacity,
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
        if self.capacity - self.end < length {
            return Ok(false);
        }
        self.write(self.end, rows)?;
        self.backend.sync_data()?;
        self.end += length;
        self.records += 1;
        self.write(MARK, &[])?;
        Ok(true)
    }

    fn write(&mut self, at: u64, rows: &[u8]) -> io::Result<()> {
        self.record.clear();
        self.record.extend([0; DIGEST]);
        let numbers = [self.id, self.checkpoint, self.records, rows.len() as u64];
        for number in numbers {
            self.record.extend(number.to_le_bytes());
        }
        self.record.extend_from_slice(rows);
        let (digest, covered) = self.record.split_at_mut(DIGEST);
        digest.copy_from_slice(Digest::of(covered).as_bytes());
        self.backend.write(at, &self.record)
    }

    /// Announces the next checkpoint, before the file gets it, and returns its number.
    pub(super) fn announce_checkpoint(&mut self) -> io::Result<u64> {
        let next = self.checkpoint + 1;
        self.write(MARK, &next.to_le_bytes())?;
        self.backend.sync_data()?;
        Ok(next)
    }

    /// Forgets all records, after the announced checkpoint is durable in the file.
    pub(super) fn checkpoint_done(&mut self) -> io::Result<()> {
        self.checkpoint += 1;
        self.records = 0;
        self.end = FIRST;
        self.write(MARK, &[])
    }
}

const fn head(id: u64, length: u64) -> [[u8; 8]; 2] {
    [id.to_le_bytes(), length.to_le_bytes()]
}

/// The rows of each transaction since the checkpoint; `None` if the journal has another identity than `id`, or is not whole.
///
/// # Errors
/// An I/O error. `InvalidData` if a durable record is missing, or if the journal is of a later or earlier checkpoint.
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
    let latest = latest(&bytes, id).unwrap_or_default();
    if latest.0 > checkpoint {
        let other = "the file is older than its journal: put the file of this journal back, or restore a backup";
        return Err(invalid(other.into()));
    }
    if latest > (checkpoint, records.len() as u64) {
        let missing = records.len();
        return Err(invalid(format!(
            "record {missing} is missing or damaged: restore a backup"
        )));
    }
    if latest.0 < checkpoint && announced(&bytes, id) != Some(checkpoint) {
        let other = "the journal is older than its file: put the journal of this file back, or restore a backup";
        return Err(invalid(other.into()));
    }
    Ok(Some(records))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The highest checkpoint and number of whole records of the journal, at any place.
fn latest(bytes: &[u8], id: u64) -> Option<(u64, u64)> {
    let starts = bytes.windows(HEADER).enumerate();
    let ids = id.to_le_bytes();
    let records =
        starts.filter(|(_, header)| header.get(DIGEST..DIGEST + 8) == Some(ids.as_slice()));
    let records = records.filter_map(|(start, _)| whole_record(bytes.get(start..)?, id));
    records.map(|(numbers, _)| numbers).max()
}

/// The checkpoint that the mark announces.
fn announced(bytes: &[u8], id: u64) -> Option<u64> {
    let (_, rows) = whole_record(bytes.get(MARK as usize..)?, id)?;
    Some(u64::from_le_bytes(*rows.first_chunk()?))
}

/// Checkpoint and number of the record at the start of `bytes`, and its rows; `None` if the record is not complete.
fn whole_record(bytes: &[u8], id: u64) -> Option<((u64, u64), &[u8])> {
    let (numbers, _) = bytes.get(DIGEST..HEADER)?.as_chunks::<8>();
    let [_, checkpoint, number, _] = numbers else {
        return None;
    };
    let [checkpoint, number] = [*checkpoint, *number].map(u64::from_le_bytes);
    let (rows, _) = first_record(bytes, [id, checkpoint, number])?;
    Some(((checkpoint, number), rows))
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
