//! The tables of the file in a transaction: bytes to bytes.

use std::ops::Bound;
use std::time::Duration;

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata as _, Table,
    TableDefinition, WriteTransaction,
};

use super::rows::{Change, Rows};
use crate::codec::{Bytes, Keys};
use crate::fault::Fault;
use crate::tx::tables::Name;
use crate::tx::{Note, Read, Tx as _, Want};
use domain::Layout;

/// Changes a file from one layout to the next.
pub(super) type Migration = fn(&mut Tables<'_>) -> Result<(), Fault>;

/// The first migration changes [`Layout::FIRST`] to the layout after it. A new table needs no migration.
pub(super) const MIGRATIONS: &[Migration] = &[];

// A version that does not know a layout must not open the file.
const _: () = assert!(
    MIGRATIONS.len() == (Layout::NEWEST.number() - Layout::FIRST.number()) as usize,
    "each layout needs a migration"
);

/// The number of the [`Layout`].
pub(super) const LAYOUT: &str = "layout";
/// Bits 64 to 127 of the identity of the revocation feed.
pub(super) const FEED_HIGH: &str = "feed_high";
/// Bits 0 to 63 of the identity of the revocation feed.
pub(super) const FEED_LOW: &str = "feed_low";
/// Identity of the [journal](super::journal) that the file needs; absent after a clean stop.
pub(super) const JOURNAL: &str = "journal";
/// Number of the last checkpoint of this journal.
pub(super) const CHECKPOINT: &str = "checkpoint";

type B = &'static [u8];

pub(super) const fn definition(table: Name) -> TableDefinition<'static, B, B> {
    TableDefinition::new(table.text())
}

/// A transaction, which opens tables.
pub(crate) trait Opens {
    type Opened: ReadableTable<B, B>;

    fn open(&self, table: Name) -> Result<Self::Opened, Fault>;
}

impl<'txn> Opens for &'txn WriteTransaction {
    type Opened = Table<'txn, B, B>;

    fn open(&self, table: Name) -> Result<Self::Opened, Fault> {
        Ok(self.open_table(definition(table))?)
    }
}

impl Opens for &ReadTransaction {
    type Opened = ReadOnlyTable<B, B>;

    fn open(&self, table: Name) -> Result<Self::Opened, Fault> {
        Ok(self.open_table(definition(table))?)
    }
}

/// The tables in a transaction. A table is opened when an operation first needs it, because opening requires a search.
pub(crate) struct TablesOf<'txn, T: Opens> {
    transaction: T,
    opened: [Option<T::Opened>; Name::ALL.len()],
    /// Records what operations change, for the [journal](super::journal).
    rows: Option<&'txn Rows>,
    /// What operations leave to report after the commit.
    pub(super) notes: Vec<Note>,
    pub(super) longest_token: Duration,
}

/// The tables in a write transaction.
pub(crate) type Tables<'txn> = TablesOf<'txn, &'txn WriteTransaction>;

/// What a read operation sees of the file.
pub(crate) type Snapshot<'txn> = TablesOf<'txn, &'txn ReadTransaction>;

impl<T: Opens> TablesOf<'_, T> {
    const fn on(transaction: T, longest_token: Duration) -> Self {
        Self {
            transaction,
            opened: [const { None }; Name::ALL.len()],
            rows: None,
            notes: Vec::new(),
            longest_token,
        }
    }

    pub(super) fn open(&mut self, table: Name) -> Result<&mut T::Opened, Fault> {
        let Some(opened) = self.opened.get_mut(table as usize) else {
            // An index that no array of all tables has.
            return Err(Fault::Row(format!("no table {}", table.text())));
        };
        let found = match opened.take() {
            Some(found) => found,
            None => self.transaction.open(table)?,
        };
        Ok(opened.insert(found))
    }
}

impl<'txn> Tables<'txn> {
    pub(super) const fn new(transaction: &'txn WriteTransaction) -> Self {
        Self::on(transaction, Duration::ZERO)
    }

    /// Adds every row that an operation changes to `rows`.
    pub(super) const fn recorded(transaction: &'txn WriteTransaction, rows: &'txn Rows) -> Self {
        let mut tables = Self::new(transaction);
        tables.rows = Some(rows);
        tables
    }

    /// True if an operation of the transaction needed the table.
    pub(super) fn is_open(&self, table: Name) -> bool {
        self.opened.get(table as usize).is_some_and(Option::is_some)
    }

    /// Opens every table, which creates it for readers.
    pub(super) fn create_all(&mut self) -> Result<(), Fault> {
        let mut all = Name::ALL.iter();
        all.try_for_each(|table| self.open(*table).map(drop))
    }

    /// Repeats a change of the journal. Runs before the migrations: a table that a migration reads keeps its name.
    pub(super) fn replay(&mut self, row: &Change<'_>) -> Result<(), Fault> {
        let mut names = Name::ALL.iter();
        let Some(table) = names.find(|name| name.text() == row.table) else {
            let name = row.table;
            return Err(Fault::Row(format!("the journal names the table {name}")));
        };
        match &row.value {
            Some(value) => self.put(*table, row.key.0, value.0.to_vec()),
            None => self.remove(*table, row.key.0),
        }
    }

    pub(super) fn record(&self, table: Name, key: &[u8], row: Option<&[u8]>) -> Result<(), Fault> {
        match self.rows {
            Some(rows) => rows.add(table.text(), key, row),
            None => Ok(()),
        }
    }
}

impl<T: Opens> Read for TablesOf<'_, T> {
    fn get<R>(
        &mut self,
        table: Name,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<R, Fault>,
    ) -> Result<Option<R>, Fault> {
        let row = self.open(table)?.get(key)?;
        row.map(|row| read(row.value())).transpose()
    }

    fn range(
        &mut self,
        table: Name,
        keys: &Keys,
        limit: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some(rows) = rows(self.open(table)?, keys)? else {
            return Ok(());
        };
        for entry in rows.take(limit) {
            let (key, row) = entry?;
            each(key.value(), row.value())?;
        }
        Ok(())
    }

    fn ahead<I: IntoIterator<Item = Want>>(&mut self, _: impl FnOnce() -> I) {}

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    fn longest_token(&self) -> Duration {
        self.longest_token
    }
}

impl<'txn> Snapshot<'txn> {
    pub(super) const fn new(transaction: &'txn ReadTransaction, longest_token: Duration) -> Self {
        Self::on(transaction, longest_token)
    }

    pub(super) fn count(&mut self, table: Name) -> Result<u64, Fault> {
        Ok(self.open(table)?.len()?)
    }

    /// Reports what the operation left to report.
    pub(super) fn report(&self) {
        self.notes.iter().for_each(Note::report);
    }
}

/// The row with the highest key.
pub(super) fn last(
    table: &impl ReadableTable<B, B>,
    keys: &Keys,
) -> Result<Option<(Bytes, Bytes)>, Fault> {
    let Some(mut rows) = rows(table, keys)? else {
        return Ok(None);
    };
    let last = rows.next_back().transpose()?;
    Ok(last.map(|(key, row)| (key.value().to_vec(), row.value().to_vec())))
}

/// `None` if no key can be among `keys`, for which redb need not be asked.
fn rows<'t>(
    table: &'t impl ReadableTable<B, B>,
    keys: &Keys,
) -> Result<Option<redb::Range<'t, B, B>>, Fault> {
    if keys.is_empty() {
        return Ok(None);
    }
    let to = keys.to.as_deref();
    let bounds = (
        Bound::Included(&*keys.from),
        to.map_or(Bound::Unbounded, Bound::Excluded),
    );
    Ok(Some(table.range::<&[u8]>(bounds)?))
}

/// Copies every row that `from` contains.
pub(super) fn copy_all(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), Fault> {
    for table in Name::ALL {
        let source = from.open_table(definition(*table))?;
        let mut target = to.open_table(definition(*table))?;
        for entry in source.iter()? {
            let (key, row) = entry?;
            target.insert(key.value(), row.value())?;
        }
    }
    Ok(())
}
