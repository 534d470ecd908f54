//! Encryption keys: usage and resealing.

use super::views::{EncryptionKeyView, EncryptionKeysView};
use super::{AdminError, Administration};
use crate::audit_log::Entry;
use crate::encryption_key;
use domain::AuditAction;

impl Administration<'_> {
    /// Lists the keys of the file and the number of values that each sealed.
    ///
    /// # Errors
    /// [`AdminError::Store`] if the store fails.
    pub async fn encryption_keys(&self) -> Result<EncryptionKeysView, AdminError> {
        let store = &*self.service.store;
        let usage = encryption_key::usage(&self.service.encryption_key, store).await?;
        let current = usage.keys.first().map(|(id, _)| *id);
        let outdated = usage.keys.iter().map(|(_, count)| count).sum::<u64>() - usage.up_to_date;
        Ok(EncryptionKeysView {
            keys: usage
                .keys
                .iter()
                .map(|(id, count)| EncryptionKeyView {
                    id: id.to_string(),
                    current: Some(*id) == current,
                    sealed_values: *count,
                })
                .collect(),
            outdated,
            unreadable: usage.unreadable,
            resealed: None,
        })
    }

    /// Reseals all values with the current key.
    ///
    /// # Errors
    /// An error of the store or of sealing; values resealed before the error stay resealed.
    pub async fn reseal(&self) -> Result<EncryptionKeysView, AdminError> {
        let store = &*self.service.store;
        let resealed = encryption_key::reseal(&self.service.encryption_key, store).await;
        let resealed = resealed.map_err(|error| AdminError::Internal(error.to_string()))?;
        self.service.maintain_keys().await?;
        self.service.follow_registrations().await?;
        let keys = self.encryption_keys().await?;
        let current = keys.keys.first().map(|key| key.id.as_str());
        let detail = format!("{resealed} values, key {}", current.unwrap_or_default());
        let entry = Entry::new(AuditAction::StoreResealed).by_administrator(self.name);
        self.service.record(self.origin, entry.detail(detail));
        Ok(EncryptionKeysView {
            resealed: Some(resealed),
            ..keys
        })
    }
}
