//! Sealed signing keys.

use std::sync::Arc;

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::audit;
use super::tables::{SIGNING_KEYS, all_json, decode_json, encode_json, found_json};
use crate::{SigningKeyStore, StoreError};
use domain::clock::Timestamp;
use domain::{AuditEvent, SealedSigningKey};

#[async_trait]
impl SigningKeyStore for RedbStore {
    async fn signing_keys(&self) -> Result<Vec<SealedSigningKey>, StoreError> {
        self.read(|transaction| {
            let keys = all_json(transaction, SIGNING_KEYS)?;
            Ok(SealedSigningKey::oldest_first(keys))
        })
    }

    async fn add_signing_key(
        &self,
        key: SealedSigningKey,
        unless_after: Option<Timestamp>,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, _| {
            let row = encode_json(&key)?;
            let table = tables.signing_keys.open()?;
            for entry in table.iter()? {
                let other: SealedSigningKey = decode_json(entry?.1.value())?;
                let later = unless_after.is_none_or(|after| after < other.created_at);
                if other.algorithm == key.algorithm && later {
                    return Ok(false);
                }
            }
            table.insert(key.kid.as_str(), row.as_slice())?;
            audit::append(tables, &entries)?;
            Ok(true)
        })
        .await
    }

    async fn retire_signing_key(
        &self,
        kid: String,
        retired_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.write(move |tables, _| {
            let table = tables.signing_keys.open()?;
            let Some::<SealedSigningKey>(mut key) = found_json(table.get(kid.as_str())?)? else {
                return Ok(());
            };
            key.retired_at = retired_at;
            table.insert(kid.as_str(), encode_json(&key)?.as_slice())?;
            Ok(())
        })
        .await
    }

    async fn forget_signing_key(
        &self,
        kid: String,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, _| {
            let known = tables.signing_keys.open()?.remove(kid.as_str())?.is_some();
            audit::append_if(tables, known, &entries)
        })
        .await
    }
}
