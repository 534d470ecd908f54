//! Sealed signing keys.

use std::sync::Arc;

use async_trait::async_trait;

use super::PostgresStore;
use super::audit;
use super::fault::Fault;
use super::operation::Connection;
use super::value::seconds;
use crate::row::encode_json;
use crate::{SigningKeyStore, StoreError};
use domain::clock::Timestamp;
use domain::{AuditEvent, SealedSigningKey};

#[async_trait]
impl SigningKeyStore for PostgresStore {
    async fn signing_keys(&self) -> Result<Vec<SealedSigningKey>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT body FROM signing_keys";
            let keys = client.all_json(sql, &[]).await?;
            Ok(SealedSigningKey::oldest_first(keys))
        })
        .await
    }

    async fn add_signing_key(
        &self,
        key: SealedSigningKey,
        unless_after: Option<Timestamp>,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        self.transaction(async move |client| {
            // Locks the keys, so that the second of two transactions sees the key that the first transaction added.
            let turn = "UPDATE counters SET value = value + 1 WHERE name = 'signing_keys'";
            client.execute(turn, &[]).await?;
            let sql = "INSERT INTO signing_keys (kid, algorithm, created_at, body)
            SELECT $1, $2, $3, $4 WHERE NOT EXISTS (
                SELECT 1 FROM signing_keys WHERE algorithm = $2 AND created_at > $5
            )";
            let algorithm = key.algorithm.name();
            let after = unless_after.map_or(-1, seconds);
            let body = encode_json(&key)?;
            let created_at = seconds(key.created_at);
            let kid = &key.kid;
            let rows = client
                .execute(sql, &[kid, &algorithm, &created_at, &body, &after])
                .await?;
            audit::append_if(client, rows > 0, &audit).await
        })
        .await
    }

    async fn retire_signing_key(
        &self,
        kid: String,
        retired_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.transaction(async move |client| {
            let Some(mut key) = locked(client, &kid).await? else {
                return Ok(());
            };
            key.retired_at = retired_at;
            replace(client, &key).await
        })
        .await
    }

    async fn forget_signing_key(
        &self,
        kid: String,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        self.transaction(async move |client| {
            let sql = "DELETE FROM signing_keys WHERE kid = $1";
            let known = client.execute(sql, &[&kid]).await? > 0;
            audit::append_if(client, known, &audit).await
        })
        .await
    }
}

/// The key with this `kid`. Locks its row until this transaction ends.
pub(super) async fn locked(
    client: &Connection<'_>,
    kid: &str,
) -> Result<Option<SealedSigningKey>, Fault> {
    let sql = "SELECT body FROM signing_keys WHERE kid = $1 FOR UPDATE";
    client.json(sql, &[&kid]).await
}

pub(super) async fn replace(client: &Connection<'_>, key: &SealedSigningKey) -> Result<(), Fault> {
    let sql = "UPDATE signing_keys SET body = $2 WHERE kid = $1";
    client.execute(sql, &[&key.kid, &encode_json(key)?]).await?;
    Ok(())
}
