//! Backups of the file: made while the service runs, restored before it starts.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase as _};
use tempfile::NamedTempFile;

use super::open::{self, OpenError};
use super::opened::settle;
use super::tables::{Tables, copy_all};
use crate::BackupError;
use crate::fault::Fault;

impl From<Fault> for BackupError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.to_string())
    }
}

/// Why a backup was not restored. The target is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(
        "{0} exists already: name another file, or move the old store away first, with its -journal"
    )]
    TargetExists(PathBuf),
    #[error(transparent)]
    Unusable(#[from] OpenError),
    #[error("{0} is damaged: its checksums do not match")]
    Damaged(PathBuf),
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
}

/// Writes the current content of `database` to a new file at `to`.
pub(super) fn write(database: &Database, to: &Path) -> Result<(), BackupError> {
    let failed = |error: &dyn std::fmt::Display| BackupError::Failed(error.to_string());
    let snapshot = database.begin_read().map_err(Fault::from)?;
    let file = open::owners_alone(File::options().create_new(true), to)
        .map_err(|error| failed(&format!("{}: {error}", to.display())))?;
    let copy = open::builder()
        .create_file(file)
        .map_err(|error| failed(&error))?;
    let transaction = copy.begin_write().map_err(Fault::from)?;
    copy_all(&snapshot, &transaction)?;
    settle(&mut Tables::new(&transaction))?;
    transaction.commit().map_err(Fault::from)?;
    Ok(())
}

/// Checks the backup at `from` and writes it to `to`, which must not exist. Gives the revocation feed a new identity.
pub fn restore(from: &Path, to: &Path) -> Result<(), RestoreError> {
    // The check runs on a copy next to the target, because the backup must stay unchanged.
    let copy = draft(to)?;
    // Only the contents: the mode of the backup may be any, and only the owner may read the store.
    let contents = File::open(from).and_then(|mut from| io::copy(&mut from, &mut copy.as_file()));
    contents.map_err(file_error(from))?;
    let mut database = open::existing(copy.path())?;
    match database.check_integrity() {
        Ok(true) => {}
        Ok(false) | Err(_) => return Err(RestoreError::Damaged(from.to_owned())),
    }
    // Revocations after the backup used positions that the restored feed will use again.
    open::renew_feed(copy.path(), &database)?;
    drop(database);
    put_in_place(copy, to)
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> RestoreError {
    let path = path.to_owned();
    move |error| RestoreError::File { path, error }
}

/// An empty file next to `to`. Neither `to` nor its journal may exist. Only the owner can read the file.
pub(super) fn draft(to: &Path) -> Result<NamedTempFile, RestoreError> {
    let mut names = [to.to_owned(), open::journal_path(to)].into_iter();
    if let Some(taken) = names.find(|name| name.exists()) {
        return Err(RestoreError::TargetExists(taken));
    }
    let folder = to
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(file_error(folder))?;
    NamedTempFile::new_in(folder).map_err(file_error(folder))
}

/// Gives a draft its name once it is durable.
pub(super) fn put_in_place(copy: NamedTempFile, to: &Path) -> Result<(), RestoreError> {
    copy.as_file().sync_all().map_err(file_error(copy.path()))?;
    copy.persist_noclobber(to)
        .map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => RestoreError::TargetExists(to.to_owned()),
            _ => file_error(to)(error.error),
        })?;
    Ok(())
}
