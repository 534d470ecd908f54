//! What the store remembers of applied files (D-27).

use redb::{ReadTransaction, ReadableTable as _};

use super::fault::Fault;
use super::tables::{APPLIED_FILE, Tables, encode_json};
use domain::{AppliedFile, FileChange, RegistryChange};

pub(super) fn applied_file(transaction: &ReadTransaction) -> Result<Option<AppliedFile>, Fault> {
    let table = transaction.open_table(APPLIED_FILE)?;
    let parts = table.iter()?.map(|part| Ok(part?.1.value().to_vec()));
    let parts: Vec<Vec<u8>> = parts.collect::<Result<_, Fault>>()?;
    Ok(AppliedFile::from_parts(&parts))
}

/// Returns `false`, before anything is written, if the store has another file than the change expects.
pub(super) fn change_file(tables: &mut Tables<'_>, change: &FileChange) -> Result<bool, Fault> {
    let after = match change {
        FileChange::Keep => return Ok(true),
        FileChange::Forget => None,
        FileChange::Replace { before, after } => {
            let header = tables.applied_file.open()?.get(0)?;
            let found = header.and_then(|header| AppliedFile::digest_in(header.value()));
            if found != *before {
                return Ok(false);
            }
            after.as_ref()
        }
    };
    let table = tables.applied_file.open()?;
    table.clear()?;
    let parts = after.into_iter().flat_map(|file| file.parts());
    for (number, part) in (0..).zip(parts) {
        table.insert(number, part.as_slice())?;
    }
    Ok(true)
}

pub(super) fn change(tables: &mut Tables<'_>, change: &RegistryChange) -> Result<(), Fault> {
    for object in &change.forget {
        let key = object.key();
        tables.remembered.open()?.remove(key.as_str())?;
        tables.remembered_at_start.open()?.remove(key.as_str())?;
    }
    for remembered in &change.remember {
        let (key, row) = (remembered.object.key(), encode_json(remembered)?);
        let table = tables.remembered.open()?;
        table.insert(key.as_str(), row.as_slice())?;
        let at_start = tables.remembered_at_start.open()?;
        if remembered.start.is_some() {
            at_start.insert(key.as_str(), ())?;
        } else {
            at_start.remove(key.as_str())?;
        }
    }
    Ok(())
}
