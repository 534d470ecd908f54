//! The rows of a store in the form in which another store takes them: keys and rows as operations see them, with two exceptions.
//! A row of [`REVOKED`](crate::tx::tables::REVOKED) has its position in the feed, and a row of the audit log is one entry.

use async_trait::async_trait;
use tokio::sync::mpsc::{Receiver, Sender};

use crate::StoreError;
use crate::codec::{Bytes, Parts, Rest};
use crate::row::{self, RowError};
use crate::tx::tables::Name;
use domain::AuditRecord;
use domain::digest::Digest;

/// All rows of one store, open for nothing but a copy.
#[async_trait]
pub(crate) trait Records: Send {
    /// Sends all rows, in the order of [`copied`] and by key.
    async fn read(&mut self, to: Sender<Batch>) -> Result<(), StoreError>;
    /// Writes these rows. They are lost unless [`Self::keep`] follows.
    async fn write(&mut self, from: Receiver<Batch>) -> Result<(), StoreError>;
    async fn keep(self: Box<Self>) -> Result<(), StoreError>;
}

/// Rows of one table.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) table: Name,
    pub(crate) rows: Vec<(Bytes, Bytes)>,
}

/// Rows of a batch.
pub(crate) const BATCH: usize = 1000;

/// The highest position that the feed ever used: a number of [`META`](crate::tx::tables::META).
pub(crate) const LAST_REVOCATION: &str = "last_revocation";
/// The highest sequence that the audit log ever used: a number of [`META`](crate::tx::tables::META).
pub(crate) const LAST_AUDIT: &str = "last_audit";

/// The tables of a copy: all but the one that follows from [`REVOKED`](crate::tx::tables::REVOKED).
pub(crate) fn copied() -> impl Iterator<Item = Name> {
    let all = Name::ALL.iter().copied();
    all.filter(|table| *table != Name::revocations)
}

/// True for a row that stays in its store: a number about the store itself, or a number that is 0, which a store may lack.
pub(crate) fn stays(table: Name, key: &[u8], row: &[u8]) -> bool {
    let own: [&[u8]; 5] = [
        b"layout",
        b"feed_high",
        b"feed_low",
        b"journal",
        b"checkpoint",
    ];
    table == Name::meta && (own.contains(&key) || row == [0; 8])
}

/// An entry of the audit log as a row: kind and sequence to event.
pub(crate) fn audit_row(entry: &AuditRecord) -> Result<(Bytes, Bytes), RowError> {
    let kind = entry.event.action.kind().number();
    let key = Parts::new().byte(kind).number(entry.sequence).end();
    Ok((key, row::encode(&entry.event)?))
}

pub(crate) fn audit_entry(key: &[u8], row: &[u8]) -> Result<AuditRecord, RowError> {
    let mut rest = Rest(key);
    rest.byte()?;
    Ok(AuditRecord {
        sequence: rest.number()?,
        event: row::decode(row)?,
    })
}

/// 128 bits of a digest of key and row.
pub(crate) fn digest(key: &[u8], row: &[u8]) -> u128 {
    let length = (key.len() as u64).to_be_bytes();
    let digest = Digest::of(&[length.as_slice(), key, row].concat());
    let (first, _) = digest.as_bytes().split_at(16);
    first
        .iter()
        .fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}
