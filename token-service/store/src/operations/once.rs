//! Values that may be used once: ids of assertions and TOTP time steps.

use async_trait::async_trait;

use super::Runs;
use crate::tx::tables::{TOTP_STEPS, USED_ONCE};
use crate::{OnceId, OnceStore, StoreError, Use};
use domain::Username;
use domain::clock::Timestamp;

#[async_trait]
impl<R: Runs> OnceStore for R {
    async fn use_once(
        &self,
        id: OnceId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Use, StoreError> {
        self.guarded(move |tx| {
            // An expired entry that is not yet swept counts as absent.
            if USED_ONCE.get(tx, &id)?.is_some_and(|until| until > now) {
                return Ok(Use::Again);
            }
            USED_ONCE.put(tx, &id, &expires_at)?;
            Ok(Use::First)
        })
        .await
    }

    async fn is_used(&self, id: OnceId, now: Timestamp) -> Result<bool, StoreError> {
        let until = self.read(move |tx| USED_ONCE.get(tx, &id)).await?;
        Ok(until.is_some_and(|until| until > now))
    }

    async fn use_totp_step(&self, username: Username, step: u64) -> Result<Use, StoreError> {
        self.guarded(move |tx| {
            let last = TOTP_STEPS.get(tx, &username)?;
            if last.is_some_and(|last| step <= last) {
                return Ok(Use::Again);
            }
            TOTP_STEPS.put(tx, &username, &step)?;
            Ok(Use::First)
        })
        .await
    }
}
