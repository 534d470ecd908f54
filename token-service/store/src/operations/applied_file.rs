//! The digest of the registrations file that a start applied last (D-27).

use crate::fault::Fault;
use crate::tx::tables::APPLIED_FILE;
use crate::tx::{Read, Tx, Want};
use domain::FileChange;
use domain::digest::Digest;

/// The only key of the table.
const KEY: u64 = 0;

/// An unreadable digest counts as absent.
pub(crate) fn get(tx: &mut impl Read) -> Result<Option<Digest>, Fault> {
    APPLIED_FILE.readable(tx, &KEY)
}

pub(crate) fn want() -> Want {
    APPLIED_FILE.want(&KEY)
}

/// Returns `false`, before anything is written, if the store has another file than the change expects.
pub(crate) fn change(tx: &mut impl Tx, change: FileChange) -> Result<bool, Fault> {
    if change == FileChange::Keep {
        return Ok(true);
    }
    let found = get(tx)?;
    match change.of(found) {
        Some(Some(file)) => APPLIED_FILE.put(tx, &KEY, &file)?,
        Some(None) => APPLIED_FILE.remove(tx, &KEY)?,
        None => return Ok(false),
    }
    Ok(true)
}
