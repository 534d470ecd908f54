//! When client secrets were added and used. In a table of its own, so that a use does not write the client anew.

use deadpool_postgres::GenericClient;

use super::fault::{Fault, readable};
use super::operation::{Operation, execute, query, query_opt};
use super::value::{seconds, timestamp};
use crate::row::{RowError, decode_json};
use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{Client, ClientId, SecretTimes, SecretUse};

/// Follows a client from `before` to `after`: a secret that is new was added now, one that is gone is forgotten.
pub(super) async fn change(
    client: &impl GenericClient,
    client_id: &ClientId,
    before: &[ClientSecret],
    after: &[ClientSecret],
    now: Timestamp,
) -> Result<(), Fault> {
    let client_id = client_id.as_str();
    for ended in before.iter().filter(|secret| !after.contains(secret)) {
        let sql = "DELETE FROM client_secrets WHERE client_id = $1 AND digest = $2";
        let digest = ended.digest().as_bytes().as_slice();
        execute(client, sql, &[&client_id, &digest]).await?;
    }
    for added in after.iter().filter(|secret| !before.contains(secret)) {
        let sql = "INSERT INTO client_secrets (client_id, digest, added_at) VALUES ($1, $2, $3)
            ON CONFLICT (client_id, digest) DO UPDATE SET added_at = excluded.added_at, last_used_at = NULL";
        let digest = added.digest().as_bytes().as_slice();
        execute(client, sql, &[&client_id, &digest, &seconds(now)]).await?;
    }
    Ok(())
}

/// Notes uses of secrets that still are their clients'.
pub(super) struct Note(pub(super) Vec<SecretUse>);

impl Operation for Note {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        for used in &self.0 {
            let client_id = used.client_id.as_str();
            // Locked, so that a secret that ends in this moment leaves no row.
            let sql = "SELECT body FROM clients WHERE client_id = $1 FOR SHARE";
            let Some(row) = query_opt(client, sql, &[&client_id]).await? else {
                continue;
            };
            let registered = decode_json::<Client>(row.try_get(0)?).map_err(Fault::from);
            let registered = readable("client", registered)?;
            if !registered.is_some_and(|registered| registered.secrets().contains(&used.secret)) {
                continue;
            }
            let sql = "INSERT INTO client_secrets (client_id, digest, last_used_at) VALUES ($1, $2, $3)
                ON CONFLICT (client_id, digest) DO UPDATE SET last_used_at = excluded.last_used_at
                WHERE client_secrets.last_used_at IS NULL OR client_secrets.last_used_at < excluded.last_used_at";
            let digest = used.secret.digest().as_bytes().as_slice();
            execute(client, sql, &[&client_id, &digest, &seconds(used.at)]).await?;
        }
        Ok(())
    }
}

/// What is known of the secrets of these clients.
pub(super) struct List(pub(super) Vec<ClientId>);

impl Operation for List {
    type Outcome = Vec<SecretTimes>;

    async fn run(&self, client: &impl GenericClient) -> Result<Vec<SecretTimes>, Fault> {
        let sql = "SELECT client_id, digest, added_at, last_used_at FROM client_secrets
            WHERE client_id = ANY($1)";
        let client_ids: Vec<&str> = self.0.iter().map(ClientId::as_str).collect();
        let found = query(client, sql, &[&client_ids]).await?;
        let unreadable = || RowError("a client id, or a digest of 32 bytes".into());
        found
            .iter()
            .map(|row| {
                let digest = <[u8; 32]>::try_from(row.try_get::<_, &[u8]>(1)?);
                let digest = digest.map(Digest::from_bytes).map_err(|_| unreadable())?;
                Ok(SecretTimes {
                    client_id: ClientId::parse(row.try_get(0)?).ok_or_else(unreadable)?,
                    secret: ClientSecret::from_digest(digest),
                    added_at: row.try_get::<_, Option<i64>>(2)?.map(timestamp),
                    last_used_at: row.try_get::<_, Option<i64>>(3)?.map(timestamp),
                })
            })
            .collect()
    }
}
