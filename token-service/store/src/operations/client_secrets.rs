//! When client secrets were added and used. A separate table, so that a use does not rewrite the client.

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::Runs;
use crate::codec::Keys;
use crate::fault::Fault;
use crate::tx::tables::{CLIENT_SECRETS, SecretRow, client_secret, of_client};
use crate::tx::{Read, Tx};
use crate::{ClientSecretStore, StoreError};
use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::ended_by::Before;
use domain::{Client, ClientId, SecretTimes, SecretUse};

#[async_trait]
impl<R: Runs> ClientSecretStore for R {
    async fn secret_times(
        &self,
        client_ids: Vec<ClientId>,
    ) -> Result<Vec<SecretTimes>, StoreError> {
        self.read(move |tx| {
            let secrets_of = |client_id| Keys::with(&of_client(client_id));
            tx.ahead(|| {
                let all = client_ids.iter().map(secrets_of);
                all.map(|keys| CLIENT_SECRETS.want_rows(keys, usize::MAX))
            });
            let mut found = Vec::new();
            for client_id in &client_ids {
                // A client has few.
                for (key, times) in CLIENT_SECRETS.rows(tx, &secrets_of(client_id), usize::MAX)? {
                    found.push(times_of(client_id, &key, times)?);
                }
            }
            Ok(found)
        })
        .await
    }

    /// Each use is a separate operation: none of them needs another.
    async fn note_secret_uses(&self, uses: Vec<SecretUse>) -> Result<(), StoreError> {
        let noted = uses.into_iter().map(|used| {
            self.guarded(move |tx| {
                let key = client_secret(&used.client_id, used.secret.digest());
                // The secret may have been removed since.
                let Some(before) = CLIENT_SECRETS.get(tx, &key)? else {
                    return Ok(());
                };
                let last_used_at = before.last_used_at.max(Some(used.at));
                let after = SecretRow {
                    last_used_at,
                    ..before
                };
                CLIENT_SECRETS.put(tx, &key, &after)
            })
        });
        try_join_all(noted).await?;
        Ok(())
    }
}

fn times_of(client_id: &ClientId, key: &[u8], times: SecretRow) -> Result<SecretTimes, Fault> {
    let digest = key.last_chunk().copied();
    let digest = digest.ok_or_else(|| Fault::Row("the key of a client secret".into()))?;
    Ok(SecretTimes {
        client_id: client_id.clone(),
        secret: ClientSecret::from_digest(Digest::from_bytes(digest)),
        added_at: times.added_at,
        last_used_at: times.last_used_at,
    })
}

/// Updates the secrets of a client that changes to the secrets `after`: new secrets get the current time, removed secrets are
/// deleted.
pub(crate) fn change(
    tx: &mut impl Tx,
    client_id: &ClientId,
    before: &Before<Client>,
    after: &[ClientSecret],
    now: Timestamp,
) -> Result<(), Fault> {
    let stored;
    let before = match before {
        Before::Absent => &[],
        Before::Read(client) => client.secrets(),
        Before::Unreadable => {
            let all = CLIENT_SECRETS.ids(tx, &of_client(client_id), usize::MAX)?;
            let all = all.into_iter().map(Digest::from_bytes);
            stored = all.map(ClientSecret::from_digest).collect::<Vec<_>>();
            &stored
        }
    };
    for ended in before.iter().filter(|secret| !after.contains(secret)) {
        CLIENT_SECRETS.remove(tx, &client_secret(client_id, ended.digest()))?;
    }
    let added = SecretRow {
        added_at: now,
        last_used_at: None,
    };
    for secret in after.iter().filter(|secret| !before.contains(secret)) {
        CLIENT_SECRETS.put(tx, &client_secret(client_id, secret.digest()), &added)?;
    }
    Ok(())
}
