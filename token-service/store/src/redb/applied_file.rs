//! The registrations file that a start applied last (D-27).

use redb::{ReadTransaction, ReadableTable as _};

use super::fault::Fault;
use super::tables::{APPLIED_FILE, Tables};
use domain::{AppliedFile, FileChange};

/// The only key of the table.
const KEY: u32 = 0;

pub(super) fn read(transaction: &ReadTransaction) -> Result<Option<AppliedFile>, Fault> {
    let row = transaction.open_table(APPLIED_FILE)?.get(KEY)?;
    Ok(row.and_then(|row| AppliedFile::from_bytes(row.value())))
}

/// Returns `false`, before anything is written, if the store has another file than the change expects.
pub(super) fn change(tables: &mut Tables<'_>, change: FileChange) -> Result<bool, Fault> {
    if change == FileChange::Keep {
        return Ok(true);
    }
    let table = tables.applied_file.open()?;
    let row = table.get(KEY)?;
    let found = row.and_then(|row| AppliedFile::from_bytes(row.value()));
    let Some(after) = change.of(found) else {
        return Ok(false);
    };
    match after {
        Some(file) => drop(table.insert(KEY, file.to_bytes().as_slice())?),
        None => drop(table.remove(KEY)?),
    }
    Ok(true)
}
