//! What an operation sees of a store: one transaction over tables of bytes.
//!
//! Rules for an operation:
//! 1. It is synchronous and deterministic: time, randomness and configuration are arguments. It may run several times.
//! 2. It has no effect but [`Tx::put`], [`Tx::remove`], [`Tx::append`] and [`Read::note`].
//! 3. It reads through [`Table`], so only `domain` names the fields of a row.
//! 4. It says first what it will read ([`Read::ahead`]), as far as the request names it. A read that it does not announce costs a
//!    round trip.
//! 5. Rows that it may fail to decode come before its first write: a file commits what an operation wrote before it failed.
//! 6. A range has a limit, or a bound that the table keeps: a cap, or one owner.

pub(crate) mod tables;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use self::tables::Name;
use crate::codec::{Bytes, Key, Keys};
use crate::fault::Fault;
use crate::row;
use domain::ended_by::Before;
use domain::{AuditEvent, Extent, Revoked};

/// The reading half of a transaction. What an operation reads holds until its writes are durable, or the operation runs again.
pub(crate) trait Read {
    /// What `read` returns for the row. Lends the row, because a file has it at hand.
    fn get<T>(
        &mut self,
        table: Name,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault>;

    /// Calls `each` with key and row of at most `limit` rows, by key.
    fn range(
        &mut self,
        table: Name,
        keys: &Keys,
        limit: usize,
        each: impl FnMut(&[u8], &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault>;

    /// What the operation will read. A distant store reads it at once; a file ignores it without a call of the function.
    fn ahead<I: IntoIterator<Item = Want>>(&mut self, wanted: impl FnOnce() -> I);

    /// What happened, for the log and the metrics. Reported once, after the commit.
    fn note(&mut self, note: Note);

    /// The longest lifetime of any access token that can still be valid.
    fn longest_token(&self) -> Duration;
}

pub(crate) trait Tx: Read {
    fn put(&mut self, table: Name, key: &[u8], row: Bytes) -> Result<(), Fault>;

    fn remove(&mut self, table: Name, key: &[u8]) -> Result<(), Fault>;

    /// Appends to the feed or the audit log. The position follows: with the commit in a file, or after it in PostgreSQL.
    fn append(&mut self, entry: Entry<'_>) -> Result<(), Fault>;
}

/// An entry of the feed or of the audit log.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entry<'a> {
    /// Replaces the row of [`REVOKED`](tables::REVOKED). The operation has merged the extent with that of the row.
    Revoked(&'a Revoked, Extent),
    Audit(&'a Entries),
}

/// Entries of the audit log, in the forms in which the stores append them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries {
    pub(crate) events: Arc<[AuditEvent]>,
    /// The rows of a file, if they were made before the operation.
    pub(crate) packed: Option<Vec<PackedEntries>>,
}

/// Several entries of one kind, in the form of a row of a file.
#[derive(Debug, Clone)]
pub(crate) struct PackedEntries {
    pub(crate) kind: u8,
    /// Position of the first entry among the entries that are appended together.
    pub(crate) position: u64,
    pub(crate) entries: u64,
    pub(crate) bytes: Bytes,
}

impl Entries {
    pub(crate) fn new(events: Arc<[AuditEvent]>) -> Self {
        let packed = None;
        Self { events, packed }
    }
}

/// A row or rows that an operation will read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Want {
    Row {
        table: Name,
        key: Bytes,
        lock: Lock,
    },
    Rows {
        table: Name,
        keys: Keys,
        limit: usize,
    },
}

/// Who else may use a row until the transaction ends. A missing row locks nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    None,
    /// Nobody changes the row.
    Share,
    /// Nobody else shares, locks or changes the row.
    Own,
}

/// What an operation leaves to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// Entries of a kind ended to make room for a new entry of the user.
    EndedForRoom {
        kind: &'static str,
        user: String,
        ended: usize,
    },
    /// A row cannot be read, and the operation went on without the row.
    PassedOver { table: Name, reason: String },
}

impl Note {
    pub(crate) fn report(&self) {
        match self {
            Self::EndedForRoom { kind, user, ended } => crate::room::note(kind, user, *ended),
            Self::PassedOver { table, reason } => row::pass_over(table.text(), reason),
        }
    }
}

/// The bytes of a row.
pub(crate) trait Form: Sized {
    fn encode(&self) -> Result<Bytes, Fault>;
    fn decode(row: &[u8]) -> Result<Self, Fault>;
}

/// A table with keys `K` and rows `V`. The keys of an index are bytes, which one function for each index makes.
pub(crate) struct Table<K: ?Sized, V> {
    name: Name,
    types: PhantomData<fn(&K) -> V>,
}

impl<K: Key + ?Sized, V: Form> Table<K, V> {
    pub(crate) const fn new(name: Name) -> Self {
        Self {
            name,
            types: PhantomData,
        }
    }

    pub(crate) const fn name(&self) -> Name {
        self.name
    }

    pub(crate) fn get(&self, tx: &mut impl Read, key: &K) -> Result<Option<V>, Fault> {
        tx.get(self.name, &key.bytes(), V::decode)
    }

    pub(crate) fn has(&self, tx: &mut impl Read, key: &K) -> Result<bool, Fault> {
        let found = tx.get(self.name, &key.bytes(), |_| Ok(()))?;
        Ok(found.is_some())
    }

    /// As [`Self::get`], but `None` and a note if the row cannot be read.
    pub(crate) fn readable(&self, tx: &mut impl Read, key: &K) -> Result<Option<V>, Fault> {
        let row = self.get(tx, key);
        Ok(self.passed_over(tx, row)?.flatten())
    }

    /// The row before a change.
    pub(crate) fn before(&self, tx: &mut impl Read, key: &K) -> Result<Before<V>, Fault> {
        let row = self.get(tx, key);
        Ok(match self.passed_over(tx, row)? {
            Some(Some(row)) => Before::Read(row),
            Some(None) => Before::Absent,
            None => Before::Unreadable,
        })
    }

    /// `None` and a note if the row cannot be read.
    fn passed_over<T>(
        &self,
        tx: &mut impl Read,
        row: Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match row {
            Err(Fault::Row(reason)) => {
                let table = self.name;
                tx.note(Note::PassedOver { table, reason });
                Ok(None)
            }
            row => row.map(Some),
        }
    }

    pub(crate) fn put(&self, tx: &mut impl Tx, key: &K, row: &V) -> Result<(), Fault> {
        tx.put(self.name, &key.bytes(), row.encode()?)
    }

    pub(crate) fn remove(&self, tx: &mut impl Tx, key: &K) -> Result<(), Fault> {
        tx.remove(self.name, &key.bytes())
    }

    /// The last `N` bytes of at most `limit` keys that begin with `prefix`.
    pub(crate) fn ids<const N: usize>(
        &self,
        tx: &mut impl Read,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<[u8; N]>, Fault> {
        let mut ids = Vec::new();
        tx.range(self.name, &Keys::with(prefix), limit, |key, _| {
            let id = key.last_chunk().copied();
            let short = || Fault::Row(format!("a key of {} is too short", self.name.text()));
            ids.push(id.ok_or_else(short)?);
            Ok(())
        })?;
        Ok(ids)
    }

    /// At most `limit` rows, by key.
    pub(crate) fn rows(
        &self,
        tx: &mut impl Read,
        keys: &Keys,
        limit: usize,
    ) -> Result<Vec<(Bytes, V)>, Fault> {
        let mut rows = Vec::new();
        tx.range(self.name, keys, limit, |key, row| {
            rows.push((key.to_vec(), V::decode(row)?));
            Ok(())
        })?;
        Ok(rows)
    }

    /// At most `limit` rows that can be read, by key. Fewer than `limit` if no more follow.
    pub(crate) fn readable_rows(
        &self,
        tx: &mut impl Read,
        keys: &Keys,
        limit: usize,
    ) -> Result<Vec<(Bytes, V)>, Fault> {
        let mut found = Vec::new();
        let mut keys = keys.clone();
        loop {
            let (mut looked_at, wanted) = (0, limit - found.len());
            let mut unreadable = Vec::new();
            tx.range(self.name, &keys.clone(), wanted, |key, row| {
                looked_at += 1;
                match V::decode(row) {
                    Ok(row) => found.push((key.to_vec(), row)),
                    Err(Fault::Row(reason)) => unreadable.push((key.to_vec(), reason)),
                    Err(fault) => return Err(fault),
                }
                Ok(())
            })?;
            let last = unreadable.last().map(|(key, _)| key.clone());
            for (_, reason) in unreadable {
                let table = self.name;
                tx.note(Note::PassedOver { table, reason });
            }
            let Some(last) = last.filter(|_| looked_at == wanted) else {
                return Ok(found);
            };
            let last = found.last().map_or(&last, |(key, _)| key.max(&last));
            keys = keys.behind(last);
        }
    }

    pub(crate) fn want(&self, key: &K) -> Want {
        self.want_row(key, Lock::None)
    }

    /// Locks the row, so that nobody changes the row: for what an operation relies on.
    pub(crate) fn share(&self, key: &K) -> Want {
        self.want_row(key, Lock::Share)
    }

    /// Locks the row so that no other operation reads it to decide or changes it: for the owner of what an operation decides.
    pub(crate) fn lock(&self, key: &K) -> Want {
        self.want_row(key, Lock::Own)
    }

    fn want_row(&self, key: &K, lock: Lock) -> Want {
        Want::Row {
            table: self.name,
            key: key.bytes().into_owned(),
            lock,
        }
    }

    /// What [`Self::ids`] reads.
    pub(crate) fn want_ids(&self, prefix: &[u8], limit: usize) -> Want {
        self.want_rows(Keys::with(prefix), limit)
    }

    /// What [`Self::rows`] reads.
    pub(crate) const fn want_rows(&self, keys: Keys, limit: usize) -> Want {
        let table = self.name;
        Want::Rows { table, keys, limit }
    }
}
