//! Values that may be used once: ids of assertions and TOTP time steps.

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::tables::ASSERTION_IDS;
use crate::{AssertionId, Claim, OnceStore, StoreError};
use domain::Username;
use domain::clock::Timestamp;

#[async_trait]
impl OnceStore for RedbStore {
    async fn claim_jti(
        &self,
        id: AssertionId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        self.write(move |tables, _| {
            let key = id.as_bytes();
            let ids = tables.assertion_ids.open()?;
            // An expired entry that is not yet swept counts as absent.
            let known = ids.get(key)?.map(|expiry| expiry.value());
            if known.is_some_and(|expiry| expiry > now.seconds()) {
                return Ok(Claim::AlreadyClaimed);
            }
            ids.insert(key, expires_at.seconds())?;
            Ok(Claim::Claimed)
        })
        .await
    }

    async fn is_jti_claimed(&self, id: AssertionId, now: Timestamp) -> Result<bool, StoreError> {
        self.read(|transaction| {
            let ids = transaction.open_table(ASSERTION_IDS)?;
            let expiry = ids.get(id.as_bytes())?;
            Ok(expiry.is_some_and(|expiry| expiry.value() > now.seconds()))
        })
    }

    async fn claim_totp_step(&self, username: Username, step: u64) -> Result<Claim, StoreError> {
        self.write(move |tables, _| {
            let steps = tables.totp_steps.open()?;
            let last = steps.get(username.as_str())?.map(|last| last.value());
            if last.is_some_and(|last| step <= last) {
                return Ok(Claim::AlreadyClaimed);
            }
            steps.insert(username.as_str(), step)?;
            Ok(Claim::Claimed)
        })
        .await
    }
}
