//! All rows of a file, for a copy to or from another store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redb::{Database, ReadableDatabase as _};
use tempfile::NamedTempFile;
use tokio::sync::mpsc::{Receiver, Sender};

use super::backup::{RestoreError, draft, put_in_place};
use super::tables::{Snapshot, Tables};
use super::{audit, open, revocations};
use crate::StoreError;
use crate::codec::{Bytes, Keys};
use crate::fault::Fault;
use crate::records::{BATCH, Batch, Records, audit_entry, audit_row, copied, stays};
use crate::tx::tables::Name;
use crate::tx::{Read as _, Tx as _};

pub(crate) struct FileRecords {
    database: Arc<Database>,
    /// The new file, and its path.
    target: Option<(NamedTempFile, PathBuf)>,
}

impl FileRecords {
    /// Opens a file that no token service uses, such as a backup, and checks it.
    pub(crate) fn source(path: &Path) -> Result<Self, RestoreError> {
        let mut database = open::existing(path)?;
        match database.check_integrity() {
            Ok(true) => Ok(Self {
                database: Arc::new(database),
                target: None,
            }),
            Ok(false) | Err(_) => Err(RestoreError::Damaged(path.to_owned())),
        }
    }

    /// Makes a file that gets its name, `path`, with [`Records::keep`].
    pub(crate) fn target(path: &Path) -> Result<Self, RestoreError> {
        let draft = draft(path)?;
        Ok(Self {
            database: Arc::new(open::without_journal(draft.path())?),
            target: Some((draft, path.to_owned())),
        })
    }

    async fn blocking(
        &self,
        work: impl FnOnce(&Database) -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), StoreError> {
        let database = Arc::clone(&self.database);
        let done = tokio::task::spawn_blocking(move || work(&database));
        let done = done.await;
        Ok(done.map_err(|error| StoreError::Failed(error.to_string()))??)
    }
}

#[async_trait]
impl Records for FileRecords {
    async fn read(&mut self, to: Sender<Batch>) -> Result<(), StoreError> {
        self.blocking(move |database| {
            let transaction = database.begin_read()?;
            let mut snapshot = Snapshot::new(&transaction, Duration::ZERO);
            for table in copied() {
                let rows = Vec::new();
                let to = &to;
                let mut outlet = Outlet { to, table, rows };
                read(&mut snapshot, &mut outlet)?;
                outlet.send()?;
            }
            Ok(())
        })
        .await
    }

    async fn write(&mut self, mut from: Receiver<Batch>) -> Result<(), StoreError> {
        self.blocking(move |database| {
            let transaction = database.begin_write()?;
            {
                let mut tables = Tables::new(&transaction);
                while let Some(batch) = from.blocking_recv() {
                    write(&mut tables, &batch)?;
                }
            }
            Ok(transaction.commit()?)
        })
        .await
    }

    async fn keep(self: Box<Self>) -> Result<(), StoreError> {
        // Closes the file.
        drop(self.database);
        let kept = self.target.map(|(draft, path)| put_in_place(draft, &path));
        let kept = kept.transpose();
        kept.map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(())
    }
}

/// Gathers rows of a table, and sends them.
struct Outlet<'a> {
    to: &'a Sender<Batch>,
    table: Name,
    rows: Vec<(Bytes, Bytes)>,
}

impl Outlet<'_> {
    fn add(&mut self, row: (Bytes, Bytes)) -> Result<(), Fault> {
        self.rows.push(row);
        if self.rows.len() < BATCH {
            return Ok(());
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), Fault> {
        let batch = Batch {
            table: self.table,
            rows: std::mem::take(&mut self.rows),
        };
        let sent = self.to.blocking_send(batch);
        sent.map_err(|_| Fault::Row("nobody takes it".into()))
    }
}

fn read(snapshot: &mut Snapshot<'_>, to: &mut Outlet<'_>) -> Result<(), Fault> {
    let table = to.table;
    snapshot.range(table, &Keys::all(), usize::MAX, |key, row| {
        if table == Name::audit_log {
            let entries = audit::entries(key, row)?;
            let mut rows = entries.iter().map(audit_row);
            rows.try_for_each(|row| to.add(row?))
        } else if stays(table, key, row) {
            Ok(())
        } else {
            to.add((key.to_vec(), row.to_vec()))
        }
    })
}

fn write(tables: &mut Tables<'_>, batch: &Batch) -> Result<(), Fault> {
    if batch.table == Name::audit_log {
        let entries = batch.rows.iter().map(|(key, row)| audit_entry(key, row));
        return audit::put(tables, &entries.collect::<Result<Vec<_>, _>>()?);
    }
    for (key, row) in &batch.rows {
        tables.put(batch.table, key, row.clone())?;
        if batch.table == Name::revoked {
            revocations::put_position(tables, row)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::RedbStore;
    use super::*;
    use crate::conformance::{ACCESS, fill};
    use crate::{Place, Store as _, copy};
    use tempfile::TempDir;

    /// Every row, as text that starts with the name of its table.
    fn all_rows(snapshot: &mut Snapshot<'_>) -> Vec<String> {
        let mut rows = Vec::new();
        for table in Name::ALL {
            let all = snapshot.range(*table, &Keys::all(), usize::MAX, |key, row| {
                let [key, row] = [key, row].map(<[u8]>::escape_ascii);
                rows.push(format!("{} {key} {row}", table.text()));
                Ok(())
            });
            all.unwrap();
        }
        rows
    }

    /// All tables, but without what a copy writes in another way: the audit log (other rows), the feed's identity, and numbers
    /// that are 0.
    fn dump(path: &Path) -> Vec<String> {
        let database = open::existing(path).unwrap();
        let transaction = database.begin_read().unwrap();
        let rows = all_rows(&mut Snapshot::new(&transaction, ACCESS));
        let other = ["audit_log", "meta feed_"];
        let is_other = |row: &String| {
            let is_zero =
                row.starts_with("meta ") && row.ends_with(&format!(" {}", r"\x00".repeat(8)));
            is_zero || other.iter().any(|other| row.starts_with(other))
        };
        rows.into_iter().filter(|row| !is_other(row)).collect()
    }

    #[tokio::test]
    async fn a_copy_has_the_same_rows_and_indexes() {
        let folder = TempDir::new().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let store = RedbStore::open(&from, ACCESS).unwrap();
        fill(&store, 5).await;
        store.close().await;
        let copied = copy(Place::Redb(&from), Place::Redb(&to), |_, _, _| {});
        copied.await.unwrap();
        let (before, after) = (dump(&from), dump(&to));
        assert!(before.len() > 100);
        assert_eq!(before, after);
        for table in Name::ALL {
            let is_filled = before.iter().any(|row| row.starts_with(table.text()));
            let is_left_out = *table == Name::audit_log;
            assert!(is_filled || is_left_out, "{} has no row", table.text());
        }
    }
}
