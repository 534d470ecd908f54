//! A table whose changed rows are recorded for the [journal](super::journal).

use std::borrow::Borrow;
use std::ops::Deref;

use redb::{AccessGuard, Key, Table, TableDefinition, TableHandle as _, Value};

use super::fault::Fault;
use super::rows::{Change, Rows};

/// A table of a write transaction. It has the reading methods of [`Table`], and those changes that are recorded.
pub(super) struct Recorded<'txn, K: Key + 'static, V: Value + 'static> {
    table: Table<'txn, K, V>,
    definition: TableDefinition<'static, K, V>,
    rows: Option<&'txn Rows>,
}

impl<'txn, K: Key + 'static, V: Value + 'static> Deref for Recorded<'txn, K, V> {
    type Target = Table<'txn, K, V>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl<'txn, K: Key + 'static, V: Value + 'static> Recorded<'txn, K, V> {
    pub(super) const fn new(
        table: Table<'txn, K, V>,
        definition: TableDefinition<'static, K, V>,
        rows: Option<&'txn Rows>,
    ) -> Self {
        Self {
            table,
            definition,
            rows,
        }
    }

    /// As [`Table::insert`].
    pub(super) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<Option<AccessGuard<'_, V>>, Fault> {
        if let Some(rows) = self.rows {
            let (key, value) = (K::as_bytes(key.borrow()), V::as_bytes(value.borrow()));
            rows.add(self.definition.name(), key.as_ref(), Some(value.as_ref()))?;
        }
        Ok(self.table.insert(key, value)?)
    }

    /// As [`Table::remove`].
    pub(super) fn remove<'k>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
    ) -> Result<Option<AccessGuard<'_, V>>, Fault> {
        if let Some(rows) = self.rows {
            rows.add(
                self.definition.name(),
                K::as_bytes(key.borrow()).as_ref(),
                None,
            )?;
        }
        Ok(self.table.remove(key)?)
    }

    pub(super) fn replay(&mut self, row: &Change<'_>) -> Result<(), Fault> {
        let key = K::from_bytes(row.key.0);
        match &row.value {
            Some(value) => drop(self.table.insert(key, V::from_bytes(value.0))?),
            None => drop(self.table.remove(key)?),
        }
        Ok(())
    }
}
