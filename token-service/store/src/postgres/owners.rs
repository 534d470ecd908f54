//! In tests: an operation writes no row of an owner that it has neither locked nor read, because another operation could decide
//! about the same owner at the same time.

use super::view::{Before, Seen, Write};
use crate::tx::Lock;
use crate::tx::tables::{Kind, Name, owners};

/// Panics if a write lacks its lock. A row that an operation has read and writes is as good as locked: if it changes meanwhile, the
/// operation runs again.
pub(super) fn assert_owned(seen: &Seen, writes: &[Write]) {
    for write in writes {
        let before = match &write.before {
            Before::Row(before) => Some(before),
            Before::Absent | Before::Unread => None,
        };
        // A row that was removed unread does not name its owner.
        let row = write.row.as_ref().or(before);
        let owners = match (row, write.table) {
            (None, Name::codes | Name::grants | Name::sessions) => continue,
            (row, table) => owners(table, &write.key, row.map_or(&[], Vec::as_slice)),
        };
        let key = String::from_utf8_lossy(&write.key);
        let owners = owners.unwrap_or_else(|_| vec![(write.table, write.key.clone())]);
        let is_owned = owners
            .iter()
            .any(|(table, key)| is_held(seen, writes, *table, key));
        assert!(
            is_owned || follows(writes, write),
            "{} {key:?} is written without a lock of one of {owners:?}",
            write.table.text()
        );
    }
}

/// Panics if a transaction replaces a grant that it has not locked: refreshes that go on would overtake it again and again.
pub(super) fn assert_locked(seen: &Seen, writes: &[Write]) {
    for write in writes.iter().filter(|write| write.table == Name::grants) {
        if let (Before::Row(_), Some(_)) = (&write.before, &write.row) {
            let lock = seen.lock(write.table, &write.key);
            assert_eq!(lock, Lock::Own, "a grant is replaced without a lock");
        }
    }
}

fn is_held(seen: &Seen, writes: &[Write], table: Name, key: &[u8]) -> bool {
    let mut rows = writes
        .iter()
        .filter(|write| write.table == table && write.key == key);
    seen.lock(table, key) == Lock::Own || rows.any(|write| write.before != Before::Unread)
}

/// True for an entry of an index whose row is written too. The key of the entry ends with the key of the row.
fn follows(writes: &[Write], entry: &Write) -> bool {
    let is_index = |table: Name| table.kind() == Kind::Index;
    let of_row = |row: &Write| !row.key.is_empty() && entry.key.ends_with(&row.key);
    let mut rows = writes.iter().filter(|row| !is_index(row.table));
    is_index(entry.table) && rows.any(of_row)
}
