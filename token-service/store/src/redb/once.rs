//! Values that may be used once: ids of assertions and TOTP time steps.

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::tables::USED_ONCE;
use crate::{OnceId, OnceStore, StoreError, Use};
use domain::Username;
use domain::clock::Timestamp;

#[async_trait]
impl OnceStore for RedbStore {
    async fn use_once(
        &self,
        id: OnceId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Use, StoreError> {
        self.write(move |tables, _| {
            let key = id.as_bytes();
            let ids = tables.used_once.open()?;
            // An expired entry that is not yet swept counts as absent.
            let known = ids.get(key)?.map(|expiry| expiry.value());
            if known.is_some_and(|expiry| expiry > now.seconds()) {
                return Ok(Use::Again);
            }
            ids.insert(key, expires_at.seconds())?;
            Ok(Use::First)
        })
        .await
    }

    async fn is_used(&self, id: OnceId, now: Timestamp) -> Result<bool, StoreError> {
        self.read(|transaction| {
            let ids = transaction.open_table(USED_ONCE)?;
            let expiry = ids.get(id.as_bytes())?;
            Ok(expiry.is_some_and(|expiry| expiry.value() > now.seconds()))
        })
    }

    async fn use_totp_step(&self, username: Username, step: u64) -> Result<Use, StoreError> {
        self.write(move |tables, _| {
            let steps = tables.totp_steps.open()?;
            let last = steps.get(username.as_str())?.map(|last| last.value());
            if last.is_some_and(|last| step <= last) {
                return Ok(Use::Again);
            }
            steps.insert(username.as_str(), step)?;
            Ok(Use::First)
        })
        .await
    }
}
