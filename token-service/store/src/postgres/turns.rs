//! Operations that would wait for the same lock take turns within the process, before they take a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Waiting, MutexGuard};
use tokio::time::timeout;

use super::limits::LEASE;
use crate::StoreError;
use crate::codec::Bytes;
use crate::tx::tables::Name;
use crate::tx::{Lock, Want};

type Row = (Name, Bytes);

#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<Row, Arc<Waiting<()>>>>);

/// A place in the queue for a row.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    row: Row,
    queue: Arc<Waiting<()>>,
}

impl Turns {
    /// A place in the queue for the user whose row is to be locked, or else for the first row that is.
    pub(super) fn queue(&self, wants: &[Want]) -> Option<Turn<'_>> {
        let locks = wants.iter().filter_map(|want| match want {
            Want::Row { table, key, lock } if *lock == Lock::Own => Some((*table, key)),
            _ => None,
        });
        let (table, key) =
            locks.min_by_key(|(table, key)| (*table != Name::users, *table, *key))?;
        let row = (table, key.clone());
        let queue = Arc::clone(self.queues().entry(row.clone()).or_default());
        Some(Turn {
            turns: self,
            row,
            queue,
        })
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, HashMap<Row, Arc<Waiting<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Waits as long as for a connection.
    pub(super) async fn wait(&self) -> Result<MutexGuard<'_, ()>, StoreError> {
        let turn = timeout(LEASE, self.queue.lock()).await;
        turn.map_err(|_| StoreError::Overloaded)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.queues();
        // Two that leave at the same time must not both count each other.
        drop(std::mem::take(&mut self.queue));
        if queues
            .get(&self.row)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            queues.remove(&self.row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(table: Name, key: &str) -> Want {
        Want::Row {
            table,
            key: key.into(),
            lock: Lock::Own,
        }
    }

    /// Takes as long as an operation waits for its turn: 2 seconds.
    #[tokio::test]
    async fn operations_of_a_user_take_turns_and_leave_nothing() {
        let turns = Turns::default();
        let ada = [lock(Name::meta, "turn"), lock(Name::users, "ada")];
        let (first, second) = (turns.queue(&ada).unwrap(), turns.queue(&ada[1..]).unwrap());
        let other = turns.queue(&[lock(Name::users, "grace")]).unwrap();
        let held = first.wait().await.unwrap();
        assert_eq!(second.wait().await.err(), Some(StoreError::Overloaded));
        assert!(other.queue.try_lock().is_ok());
        drop(held);
        drop((first, other));
        drop(second.wait().await.unwrap());
        drop(second);
        assert!(turns.queues().is_empty());
        assert!(turns.queue(&[]).is_none());
    }
}
