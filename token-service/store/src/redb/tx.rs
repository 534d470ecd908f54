//! What operations write in a transaction of the file.

use super::tables::Tables;
use super::{audit, revocations};
use crate::codec::Bytes;
use crate::fault::Fault;
use crate::tx::tables::Name;
use crate::tx::{Entry, Tx};

impl Tx for Tables<'_> {
    fn put(&mut self, table: Name, key: &[u8], row: Bytes) -> Result<(), Fault> {
        self.record(table, key, Some(&row))?;
        self.open(table)?.insert(key, &*row)?;
        Ok(())
    }

    fn remove(&mut self, table: Name, key: &[u8]) -> Result<(), Fault> {
        self.record(table, key, None)?;
        self.open(table)?.remove(key)?;
        Ok(())
    }

    fn append(&mut self, entry: Entry<'_>) -> Result<(), Fault> {
        match entry {
            Entry::Revoked(revoked, extent) => revocations::append(self, revoked, extent),
            Entry::Audit(entries) => audit::append(self, entries),
        }
    }
}
