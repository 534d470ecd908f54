//! The sequence of changes of clients, users and legacy instances.

use crate::codec::{Keys, Rest};
use crate::fault::Fault;
use crate::tx::tables::{META, REGISTRY_CHANGES, REGISTRY_VERSION};
use crate::tx::{Read, Tx, Want};
use domain::registry_change::CHANGES_KEPT;
use domain::{ObjectName, RegistryChanges};

/// The position in the sequence of changes.
pub(crate) fn position(tx: &mut impl Read) -> Result<u64, Fault> {
    Ok(META.get(tx, REGISTRY_VERSION)?.unwrap_or_default())
}

pub(crate) fn want_position() -> Want {
    META.want(REGISTRY_VERSION)
}

/// Locks the registry, so that changes run one after the other.
pub(crate) fn turn() -> Want {
    META.lock(REGISTRY_VERSION)
}

/// At most `limit` objects that changed after position `after`.
pub(crate) fn changes_behind(
    tx: &mut impl Read,
    after: u64,
    limit: usize,
) -> Result<RegistryChanges, Fault> {
    let last = position(tx)?;
    let rows = REGISTRY_CHANGES.rows(tx, &behind(after), limit)?;
    let rows = rows.into_iter().map(|(key, object)| {
        let position = Rest(&key).number()?;
        Ok::<_, Fault>((position, object))
    });
    RegistryChanges::behind(after, last, rows)
}

/// What [`changes_behind`] reads.
pub(crate) fn wants(after: u64, limit: usize) -> [Want; 2] {
    let rows = REGISTRY_CHANGES.want_rows(behind(after), limit);
    [want_position(), rows]
}

fn behind(after: u64) -> Keys {
    Keys::all().behind(&after.to_be_bytes())
}

/// Raises the position by 1 for each object, and removes the oldest changes.
pub(crate) fn note_changes(
    tx: &mut impl Tx,
    touched: impl IntoIterator<Item = ObjectName>,
) -> Result<(), Fault> {
    let mut last = position(tx)?;
    for object in touched {
        last += 1;
        REGISTRY_CHANGES.put(tx, &last, &object)?;
        REGISTRY_CHANGES.remove(tx, &last.saturating_sub(CHANGES_KEPT))?;
    }
    META.put(tx, REGISTRY_VERSION, &last)
}
