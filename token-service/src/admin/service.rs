//! Operations on the service as a whole.

use std::path::PathBuf;

use tempfile::TempDir;

use super::{AdminError, Administration};
use crate::audit_log::Entry;
use crate::config::StoreUrl;
use domain::AuditAction;

/// A copy of the store in a temporary folder, which is removed when this value is dropped.
#[derive(Debug)]
pub struct Backup {
    folder: TempDir,
}

impl Backup {
    /// Path of the copy.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("store")
    }
}

impl Administration<'_> {
    /// Copies the store during operation.
    ///
    /// # Errors
    /// [`AdminError::Backup`].
    pub async fn backup(&self) -> Result<Backup, AdminError> {
        // In the folder of the store, because the machine's temporary folder may be small or in memory.
        let beside = match &self.service.config.store {
            StoreUrl::Redb(store) => store.parent(),
            StoreUrl::Postgres(_) => None,
        };
        let beside = beside.filter(|folder| !folder.as_os_str().is_empty());
        let folder = match beside {
            Some(folder) => TempDir::with_prefix_in("backup-", folder),
            None => TempDir::with_prefix_in("backup-", "."),
        }
        .map_err(|error| AdminError::Internal(error.to_string()))?;
        let backup = Backup { folder };
        self.service.store.backup(&backup.file()).await?;
        let entry = Entry::new(AuditAction::BackupTaken).by_administrator(self.name);
        self.service.record(self.origin, entry);
        Ok(backup)
    }
}
