//! Values that may be used once: ids of assertions and TOTP time steps. One guarded statement each.

use async_trait::async_trait;

use super::PostgresStore;
use super::value::{number, seconds};
use crate::{OnceId, OnceStore, StoreError, Use};
use domain::Username;
use domain::clock::Timestamp;

#[async_trait]
impl OnceStore for PostgresStore {
    async fn use_once(
        &self,
        id: OnceId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Use, StoreError> {
        self.statement(async move |client| {
            // An expired entry that is not yet swept counts as absent.
            let sql = "INSERT INTO used_once (digest, expires_at) VALUES ($1, $2)
            ON CONFLICT (digest) DO UPDATE SET expires_at = excluded.expires_at
            WHERE used_once.expires_at <= $3";
            let digest = id.as_bytes().as_slice();
            let (expires_at, now) = (seconds(expires_at), seconds(now));
            let rows = client.execute(sql, &[&digest, &expires_at, &now]).await?;
            Ok(outcome(rows))
        })
        .await
    }

    async fn is_used(&self, id: OnceId, now: Timestamp) -> Result<bool, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT 1 FROM used_once WHERE digest = $1 AND expires_at > $2";
            let digest = id.as_bytes().as_slice();
            let found = client.query_opt(sql, &[&digest, &seconds(now)]).await?;
            Ok(found.is_some())
        })
        .await
    }

    async fn use_totp_step(&self, username: Username, step: u64) -> Result<Use, StoreError> {
        self.statement(async move |client| {
            let sql = "INSERT INTO totp_steps (username, step) VALUES ($1, $2)
            ON CONFLICT (username) DO UPDATE SET step = excluded.step
            WHERE totp_steps.step < excluded.step";
            let rows = client
                .execute(sql, &[&username.as_str(), &number(step)])
                .await?;
            Ok(outcome(rows))
        })
        .await
    }
}

/// A written row means that this was the first use.
const fn outcome(rows: u64) -> Use {
    if rows > 0 { Use::First } else { Use::Again }
}
