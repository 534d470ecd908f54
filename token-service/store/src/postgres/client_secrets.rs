//! When client secrets were added and used. A separate table, so that a use does not rewrite the client.

use async_trait::async_trait;

use super::PostgresStore;
use super::fault::Fault;
use super::operation::Connection;
use super::value::{seconds, timestamp};
use crate::row::RowError;
use crate::{ClientSecretStore, StoreError};
use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{ClientId, SecretTimes, SecretUse};

#[async_trait]
impl ClientSecretStore for PostgresStore {
    async fn secret_times(
        &self,
        client_ids: Vec<ClientId>,
    ) -> Result<Vec<SecretTimes>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT client_id, digest, added_at, last_used_at FROM client_secrets
            WHERE client_id = ANY($1)";
            let client_ids: Vec<&str> = client_ids.iter().map(ClientId::as_str).collect();
            let found = client.query(sql, &[&client_ids]).await?;
            let unreadable = || RowError("a client id, or a digest of 32 bytes".into());
            found
                .iter()
                .map(|row| {
                    let digest = <[u8; 32]>::try_from(row.try_get::<_, &[u8]>(1)?);
                    let digest = digest.map(Digest::from_bytes).map_err(|_| unreadable())?;
                    Ok(SecretTimes {
                        client_id: ClientId::parse(row.try_get(0)?).ok_or_else(unreadable)?,
                        secret: ClientSecret::from_digest(digest),
                        added_at: timestamp(row.try_get(2)?),
                        last_used_at: row.try_get::<_, Option<i64>>(3)?.map(timestamp),
                    })
                })
                .collect()
        })
        .await
    }

    async fn note_secret_uses(&self, uses: Vec<SecretUse>) -> Result<(), StoreError> {
        self.transaction(async move |client| {
            for used in &uses {
                // No row if the secret was removed since.
                let sql = "UPDATE client_secrets SET last_used_at = $3 WHERE client_id = $1 AND digest = $2
                    AND (last_used_at IS NULL OR last_used_at < $3)";
                let digest = used.secret.digest().as_bytes().as_slice();
                let client_id = used.client_id.as_str();
                client.execute(sql, &[&client_id, &digest, &seconds(used.at)]).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Updates the secrets of a client that changes from `before` to `after`: new secrets get the current time, removed
/// secrets are deleted.
pub(super) async fn change(
    client: &Connection<'_>,
    client_id: &ClientId,
    before: &[ClientSecret],
    after: &[ClientSecret],
    now: Timestamp,
) -> Result<(), Fault> {
    let client_id = client_id.as_str();
    for ended in before.iter().filter(|secret| !after.contains(secret)) {
        let sql = "DELETE FROM client_secrets WHERE client_id = $1 AND digest = $2";
        let digest = ended.digest().as_bytes().as_slice();
        client.execute(sql, &[&client_id, &digest]).await?;
    }
    for added in after.iter().filter(|secret| !before.contains(secret)) {
        let sql = "INSERT INTO client_secrets (client_id, digest, added_at) VALUES ($1, $2, $3)
            ON CONFLICT (client_id, digest) DO UPDATE SET added_at = excluded.added_at, last_used_at = NULL";
        let digest = added.digest().as_bytes().as_slice();
        client
            .execute(sql, &[&client_id, &digest, &seconds(now)])
            .await?;
    }
    Ok(())
}
