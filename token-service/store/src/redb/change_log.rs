//! The sequence of changes of clients, users and legacy instances.

use redb::{ReadTransaction, ReadableTable};

use super::fault::Fault;
use super::tables::{META, REGISTRY_VERSION_KEY, Tables, counter};
use domain::registry_change::CHANGES_KEPT;
use domain::{ObjectName, RegistryChanges};

/// The position in the sequence of changes.
pub(super) fn position(transaction: &ReadTransaction) -> Result<u64, Fault> {
    counter(&transaction.open_table(META)?, REGISTRY_VERSION_KEY)
}

pub(super) fn last_change(tables: &mut Tables<'_>) -> Result<u64, Fault> {
    counter(&**tables.meta.open()?, REGISTRY_VERSION_KEY)
}

pub(super) fn changes_behind(
    log: &impl ReadableTable<u64, &'static str>,
    after: u64,
    limit: usize,
    last: u64,
) -> Result<RegistryChanges, Fault> {
    let rows = log.range(after.saturating_add(1)..)?.take(limit);
    let rows = rows.map(|entry| {
        let (position, row) = entry?;
        let object = ObjectName::from_key(row.value())
            .ok_or_else(|| Fault::Row("the name of an object that changed".into()))?;
        Ok::<_, Fault>((position.value(), object))
    });
    RegistryChanges::behind(after, last, rows)
}

/// Raises the position by 1 for each object, and deletes the oldest changes.
pub(super) fn note_changes(
    tables: &mut Tables<'_>,
    touched: impl IntoIterator<Item = ObjectName>,
) -> Result<(), Fault> {
    let mut last = last_change(tables)?;
    let log = tables.registry_changes.open()?;
    for object in touched {
        last += 1;
        log.insert(last, object.key().as_str())?;
        log.remove(last.saturating_sub(CHANGES_KEPT))?;
    }
    tables.meta.open()?.insert(REGISTRY_VERSION_KEY, last)?;
    Ok(())
}
