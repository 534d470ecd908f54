//! When client secrets were added and used. A separate table, so that a use does not rewrite the client.

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::fault::Fault;
use super::tables::{CLIENT_SECRETS, Tables};
use crate::{ClientSecretStore, StoreError};
use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{ClientId, SecretTimes, SecretUse};

#[async_trait]
impl ClientSecretStore for RedbStore {
    async fn secret_times(
        &self,
        client_ids: Vec<ClientId>,
    ) -> Result<Vec<SecretTimes>, StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(CLIENT_SECRETS)?;
            let mut found = Vec::new();
            for client_id in &client_ids {
                let name = client_id.as_str();
                for entry in table.range((name, &FIRST)..=(name, &LAST))? {
                    let (key, times) = entry?;
                    let (added_at, last_used_at) = times.value();
                    found.push(SecretTimes {
                        client_id: client_id.clone(),
                        secret: ClientSecret::from_digest(Digest::from_bytes(*key.value().1)),
                        added_at: Timestamp::from_seconds(added_at),
                        last_used_at: (last_used_at > 0)
                            .then_some(Timestamp::from_seconds(last_used_at)),
                    });
                }
            }
            Ok(found)
        })
    }

    async fn note_secret_uses(&self, uses: Vec<SecretUse>) -> Result<(), StoreError> {
        self.write(move |tables, _| {
            for SecretUse {
                client_id,
                secret,
                at,
            } in &uses
            {
                let key = (client_id.as_str(), secret.digest().as_bytes());
                let table = tables.client_secrets.open()?;
                let times = table.get(key)?.map(|times| times.value());
                // The secret may have been removed since.
                if let Some((added_at, last)) = times {
                    table.insert(key, (added_at, last.max(at.seconds())))?;
                }
            }
            Ok(())
        })
        .await
    }
}

const FIRST: [u8; 32] = [0; 32];
const LAST: [u8; 32] = [0xff; 32];

/// Updates the secrets of a client that changes from `before` to `after`: new secrets get the current time, removed
/// secrets are deleted.
pub(super) fn change(
    tables: &mut Tables<'_>,
    client_id: &ClientId,
    before: &[ClientSecret],
    after: &[ClientSecret],
    now: Timestamp,
) -> Result<(), Fault> {
    let client_id = client_id.as_str();
    for ended in before.iter().filter(|secret| !after.contains(secret)) {
        let key = (client_id, ended.digest().as_bytes());
        tables.client_secrets.open()?.remove(key)?;
    }
    for added in after.iter().filter(|secret| !before.contains(secret)) {
        let key = (client_id, added.digest().as_bytes());
        let table = tables.client_secrets.open()?;
        table.insert(key, (now.seconds(), 0))?;
    }
    Ok(())
}
