//! A copy of everything from one store to another.

use std::path::Path;

use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::postgres::{self, PostgresSettings};
use crate::records::{Batch, Records, copied, digest};
use crate::{StoreError, redb};

/// Batches that wait between the source and the target.
const QUEUE: usize = 4;

/// A store that no token service uses.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    Redb(&'a Path),
    Postgres(&'a PostgresSettings),
}

/// What was copied of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    pub table: &'static str,
    pub rows: u64,
    /// The sum of the digests of the rows, so that their order does not matter.
    pub digest: u128,
}

/// Why there is no copy. The target is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Redb(#[from] redb::RestoreError),
    #[error(transparent)]
    Postgres(#[from] postgres::OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the copy of the table {} is not what was copied: {} rows with digest {:032x}, expected {} with {:032x}",
        .found.table, .found.rows, .found.digest, .expected.rows, .expected.digest
    )]
    Differs { expected: Copied, found: Copied },
}

/// Copies everything to a new file or an empty database, reads the copy again, and compares numbers and digests of rows.
/// The revocation feed of the copy has a new identity. `progress` gets what happens, the table, and its rows so far.
///
/// # Errors
/// A [`CopyError`].
pub async fn copy(
    from: Place<'_>,
    to: Place<'_>,
    progress: impl Fn(&'static str, &'static str, u64),
) -> Result<Vec<Copied>, CopyError> {
    let mut source: Box<dyn Records> = match from {
        Place::Redb(path) => Box::new(redb::FileRecords::source(path)?),
        Place::Postgres(settings) => Box::new(postgres::DatabaseRecords::source(settings).await?),
    };
    let mut target: Box<dyn Records> = match to {
        Place::Redb(path) => Box::new(redb::FileRecords::target(path)?),
        Place::Postgres(settings) => Box::new(postgres::DatabaseRecords::target(settings).await?),
    };
    let (sender, read) = mpsc::channel(QUEUE);
    let (pass_on, to_write) = mpsc::channel(QUEUE);
    let (outcome, expected, written) = tokio::join!(
        source.read(sender),
        count(read, Some(pass_on), |table, rows| progress(
            "copied", table, rows
        )),
        target.write(to_write),
    );
    // First, because the source fails too if the target takes no more.
    written?;
    outcome?;
    let (sender, read) = mpsc::channel(QUEUE);
    let (outcome, found) = tokio::join!(
        target.read(sender),
        count(read, None, |table, rows| progress("verified", table, rows)),
    );
    outcome?;
    for (expected, found) in expected.iter().zip(found) {
        if *expected != found {
            let expected = *expected;
            return Err(CopyError::Differs { expected, found });
        }
    }
    target.keep().await?;
    Ok(expected)
}

/// Counts rows, and passes them on.
async fn count(
    mut rows: Receiver<Batch>,
    to: Option<Sender<Batch>>,
    progress: impl Fn(&'static str, u64),
) -> Vec<Copied> {
    let tables = copied();
    let mut counts: Vec<Copied> = tables
        .map(|table| Copied {
            table: table.text(),
            rows: 0,
            digest: 0,
        })
        .collect();
    while let Some(batch) = rows.recv().await {
        let name = batch.table.text();
        if let Some(of_table) = counts.iter_mut().find(|counted| counted.table == name) {
            of_table.rows += batch.rows.len() as u64;
            for (key, row) in &batch.rows {
                of_table.digest = of_table.digest.wrapping_add(digest(key, row));
            }
            progress(of_table.table, of_table.rows);
        }
        if let Some(to) = &to
            && to.send(batch).await.is_err()
        {
            break;
        }
    }
    counts
}
