//! The open file of a store, with its journal.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{Database, StorageBackend, WriteTransaction};

use super::journal::{CAPACITY, Journal};
use super::tables::{CHECKPOINT, JOURNAL, Tables};
use crate::fault::Fault;
use crate::tx::tables::META;

/// Dropping it closes the file, which then needs no journal.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) database: Database,
    journal: Mutex<Journal>,
    /// The journal's path, if the journal is a file.
    path: Option<PathBuf>,
}

impl Opened {
    /// Starts an empty journal for a file that needs none.
    pub(super) fn new(
        database: Database,
        journal: Box<dyn StorageBackend>,
        path: Option<PathBuf>,
        id: u64,
    ) -> Result<Self, Fault> {
        let journal = Journal::start(journal, id, CAPACITY)?;
        let transaction = durable(&database)?;
        {
            let mut tables = Tables::new(&transaction);
            META.put(&mut tables, JOURNAL, &id)?;
            META.put(&mut tables, CHECKPOINT, &0)?;
        }
        transaction.commit()?;
        Ok(Self {
            database,
            journal: Mutex::new(journal),
            path,
        })
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self) -> Result<(), Fault> {
        let transaction = durable(&self.database)?;
        settle(&mut Tables::new(&transaction))?;
        Ok(transaction.commit()?)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        match (self.settle(), &self.path) {
            (Ok(()), Some(path)) => {
                // A journal that stays is ignored.
                let _ = std::fs::remove_file(path);
            }
            (Ok(()), None) => {}
            (Err(error), _) => {
                tracing::warn!(%error, "the store was not closed: the next start reads its journal");
            }
        }
    }
}

/// Records that the file contains all that its journal has.
pub(super) fn settle(tables: &mut Tables<'_>) -> Result<(), Fault> {
    META.remove(tables, JOURNAL)?;
    META.remove(tables, CHECKPOINT)
}

/// Begins a transaction after which redb opens the file quickly, whatever the size of the file.
pub(super) fn durable(database: &Database) -> Result<WriteTransaction, Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}
