//! Clients and users, and what a change of them ends.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::PostgresStore;
use super::fault::{Fault, readable};
use super::operation::{Connection, Isolation, run};
use super::revocations::{announce, counter};
use super::value::{number, rows, unsigned};
use super::{client_secrets, credentials, grants, second_factors, sessions};
use crate::row::{RowError, decode_json, encode_json};
use crate::{RegistrationStore, RevocationStore as _, StoreError, issued_until};
use domain::clock::Timestamp;
use domain::registry_change::CHANGES_KEPT;
use domain::remembered::ObjectKind;
use domain::{
    Client, ClientId, CredentialsVersion, Extent, IntegrationType, LegacyInstance, ObjectName,
    Premises, RegistryChange, RegistryChanges, RegistryOutcome, Remembered, Revoked, Touched, User,
    Username,
};

#[async_trait]
impl RegistrationStore for PostgresStore {
    async fn client(&self, client_id: ClientId) -> Result<Option<Client>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT client_id, body FROM clients WHERE client_id = $1";
            let row = client.query_opt(sql, &[&client_id.as_str()]).await?;
            row.map_or(Ok(None), |row| registration(&row))
        })
        .await
    }

    async fn user(&self, username: Username) -> Result<Option<User>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT username, body FROM users WHERE username = $1";
            let row = client.query_opt(sql, &[&username.as_str()]).await?;
            row.map_or(Ok(None), |row| registration(&row))
        })
        .await
    }

    async fn clients(&self, after: String, limit: usize) -> Result<Vec<Client>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT client_id, body FROM clients WHERE client_id > $1
                ORDER BY client_id LIMIT $2";
            client.rows_behind(sql, after, limit, registration).await
        })
        .await
    }

    async fn users(&self, after: String, limit: usize) -> Result<Vec<User>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT username, body FROM users WHERE username > $1
                ORDER BY username LIMIT $2";
            client.rows_behind(sql, after, limit, registration).await
        })
        .await
    }

    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT body FROM legacy_instances ORDER BY hostname";
            let found = client.query(sql, &[]).await?;
            found
                .iter()
                .map(|row| Ok(decode_json(row.try_get(0)?)?))
                .collect()
        })
        .await
    }

    async fn registry_version(&self) -> Result<u64, StoreError> {
        let asked = async |client: &Connection<'_>| {
            let sql = "SELECT (SELECT value FROM counters WHERE name = 'registry_version'),
                (SELECT value FROM counters WHERE name = 'schema_version')";
            let row = client.query_opt(sql, &[]).await?;
            let counter = |index| -> Result<i64, Fault> {
                let value = row.as_ref().map(|row| row.try_get::<_, Option<i64>>(index));
                Ok(value.transpose()?.flatten().unwrap_or_default())
            };
            Ok((unsigned(counter(0)?), counter(1)?))
        };
        let (registry, tables) = run(&self.pool, Isolation::Statement, asked).await?;
        self.tables.store(tables, Ordering::Release);
        self.knows_tables()?;
        Ok(registry)
    }

    async fn registry_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<RegistryChanges, StoreError> {
        self.snapshot(async move |client| {
            let last = counter(client, "registry_version").await?;
            changes_behind(client, after, limit, last).await
        })
        .await
    }

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        let access_token_lifetime = self.longest_token();
        self.transaction(async move |client| {
            let last = turn(client).await?;
            if let Some(planned_on) = change.planned_on {
                let changes = changes_behind(client, planned_on, usize::MAX, last).await?;
                if Premises::of(&change).are_overtaken_by(&changes) {
                    return Ok(RegistryOutcome::Overtaken);
                }
            }
            note_changes(client, last, &change.touches()).await?;
            let mut changing = Changing {
                client,
                credentials_version: credentials::next_version(client).await?,
                now,
                announced: Vec::new(),
            };
            for client_id in &change.remove_clients {
                changing.remove_client(client_id).await?;
            }
            for client in &change.put_clients {
                changing.put_client(client).await?;
            }
            for username in &change.remove_users {
                changing.remove_user(username).await?;
            }
            for user in &change.put_users {
                changing.put_user(user).await?;
            }
            for hostname in &change.remove_legacy_instances {
                let sql = "DELETE FROM legacy_instances WHERE hostname = $1";
                client.execute(sql, &[hostname]).await?;
            }
            for instance in &change.put_legacy_instances {
                let sql = "INSERT INTO legacy_instances (hostname, body) VALUES ($1, $2)
                ON CONFLICT (hostname) DO UPDATE SET body = excluded.body";
                client
                    .execute(sql, &[&instance.hostname, &encode_json(instance)?])
                    .await?;
            }
            for revoked in changing.announced {
                let at = if revoked.is_up_to_a_time() {
                    issued_until(now)
                } else {
                    now
                };
                let extent = Extent::of(at, access_token_lifetime);
                announce(client, &revoked, extent).await?;
            }
            for object in &change.forget {
                let sql = "DELETE FROM remembered WHERE object = $1";
                client.execute(sql, &[&object.key()]).await?;
            }
            for remembered in &change.remember {
                let sql = "INSERT INTO remembered (object, body) VALUES ($1, $2)
                ON CONFLICT (object) DO UPDATE SET body = excluded.body";
                let (key, row) = (remembered.object.key(), encode_json(remembered)?);
                client.execute(sql, &[&key, &row]).await?;
            }
            Ok(RegistryOutcome::Changed)
        })
        .await
    }

    async fn remembered(&self) -> Result<Vec<Remembered>, StoreError> {
        self.snapshot(async move |client| {
            let sql =
                "SELECT object, body FROM remembered WHERE object > $1 ORDER BY object LIMIT $2";
            let (after, limit) = (String::new(), usize::MAX);
            client.rows_behind(sql, after, limit, registration).await
        })
        .await
    }

    async fn rehash_password(
        &self,
        username: Username,
        hash: String,
        stronger: String,
    ) -> Result<(), StoreError> {
        self.transaction(async move |client| {
            let last = turn(client).await?;
            let Some(mut user) = credentials::user(client, &username).await? else {
                return Ok(());
            };
            if user.rehash(&hash, stronger.clone()) {
                credentials::put(client, &user).await?;
                let user = ObjectName::new(ObjectKind::User, username.as_str());
                note_changes(client, last, &[user.into()]).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Reads a registration from a row with name and body.
fn registration<T: DeserializeOwned>(row: &Row) -> Result<Option<T>, Fault> {
    readable(
        "registration",
        decode_json(row.try_get(1)?).map_err(Fault::from),
    )
}

/// Locks the registry for a change, and returns the position in the sequence of changes. Call it first in every change,
/// so that changes run one after the other.
pub(super) async fn turn(client: &Connection<'_>) -> Result<u64, Fault> {
    let sql = "SELECT value FROM counters WHERE name = 'registry_version' FOR UPDATE";
    let row = client.query_opt(sql, &[]).await?;
    let row = row.ok_or_else(|| RowError("the counter of the registry is missing".into()))?;
    Ok(unsigned(row.try_get(0)?))
}

/// Raises the position `last` by 1 for each object, and deletes the oldest changes.
pub(super) async fn note_changes(
    client: &Connection<'_>,
    last: u64,
    touched: &[Touched],
) -> Result<(), Fault> {
    let keys: Vec<String> = touched.iter().map(|touched| touched.object.key()).collect();
    let are_legacy: Vec<bool> = touched.iter().map(|touched| touched.is_legacy).collect();
    let sequences: Vec<i64> = (last + 1..).take(keys.len()).map(number).collect();
    let last = number(last + keys.len() as u64);
    let sql = "INSERT INTO registry_changes (sequence, object, is_legacy)
        SELECT * FROM unnest($1::BIGINT[], $2::TEXT[], $3::BOOLEAN[])";
    client
        .execute(sql, &[&sequences, &keys, &are_legacy])
        .await?;
    let sql = "DELETE FROM registry_changes WHERE sequence <= $1";
    client
        .execute(sql, &[&(last - number(CHANGES_KEPT))])
        .await?;
    let sql = "UPDATE counters SET value = $1 WHERE name = 'registry_version'";
    client.execute(sql, &[&last]).await?;
    Ok(())
}

async fn changes_behind(
    client: &Connection<'_>,
    after: u64,
    limit: usize,
    last: u64,
) -> Result<RegistryChanges, Fault> {
    let sql = "SELECT sequence, object, is_legacy FROM registry_changes
        WHERE sequence > $1 ORDER BY sequence LIMIT $2";
    let found = client.query(sql, &[&number(after), &rows(limit)]).await?;
    let rows = found.iter().map(|row| {
        let object = ObjectName::from_key(row.try_get(1)?)
            .ok_or_else(|| RowError("the name of an object that changed".into()))?;
        let is_legacy = row.try_get(2)?;
        Ok::<_, Fault>((unsigned(row.try_get(0)?), Touched { object, is_legacy }))
    });
    RegistryChanges::behind(after, last, rows)
}

struct Changing<'a> {
    client: &'a Connection<'a>,
    /// The new version for users whose credentials change.
    credentials_version: CredentialsVersion,
    now: Timestamp,
    announced: Vec<Revoked>,
}

impl Changing<'_> {
    async fn put_client(&mut self, client: &Client) -> Result<(), Fault> {
        let key = client.client_id.as_str();
        let sql = "SELECT body FROM clients WHERE client_id = $1";
        let before: Option<Client> = self.stored(sql, key).await?;
        let sql = "INSERT INTO clients (client_id, body) VALUES ($1, $2)
            ON CONFLICT (client_id) DO UPDATE SET body = excluded.body";
        self.client
            .execute(sql, &[&key, &encode_json(client)?])
            .await?;
        let secrets = before.as_ref().map(Client::secrets).unwrap_or_default();
        let (id, now) = (&client.client_id, self.now);
        client_secrets::change(self.client, id, secrets, client.secrets(), now).await?;
        if before.is_some_and(|before| before.enabled && !client.enabled) {
            self.end_client(&client.client_id).await?;
        }
        Ok(())
    }

    async fn remove_client(&mut self, client_id: &ClientId) -> Result<(), Fault> {
        let sql = "DELETE FROM clients WHERE client_id = $1";
        if self.client.execute(sql, &[&client_id.as_str()]).await? > 0 {
            let sql = "DELETE FROM client_secrets WHERE client_id = $1";
            self.client.execute(sql, &[&client_id.as_str()]).await?;
            self.end_client(client_id).await?;
        }
        Ok(())
    }

    async fn put_user(&mut self, user: &User) -> Result<(), Fault> {
        let key = user.username.as_str();
        let before = credentials::user(self.client, &user.username).await?;
        let credentials_version = match &before {
            Some(before) if !user.ends_what_rests_on(before) => before.credentials_version,
            _ => self.credentials_version,
        };
        let changed = User {
            credentials_version,
            ..user.clone()
        };
        credentials::put(self.client, &changed).await?;
        let Some(before) = before else {
            return Ok(());
        };
        if before.totp_secret_sealed != user.totp_secret_sealed {
            second_factors::remove(self.client, key).await?;
        }
        if before.enabled && !user.enabled {
            return self.end_user(&user.username).await;
        }
        let credentials_changed = user.has_other_credentials_than(&before);
        if credentials_changed {
            sessions::end_all(self.client, key).await?;
        }
        for grant in grants::live_of_user(self.client, key).await? {
            if credentials_changed || !user.accounts.contains(&grant.account) {
                self.end_grant(grant.grant_id).await?;
            }
        }
        let unlinked = before.unlinked_by(user);
        self.announced
            .extend(unlinked.map(|account| Revoked::account(&user.username, account)));
        Ok(())
    }

    async fn remove_user(&mut self, username: &Username) -> Result<(), Fault> {
        let key = username.as_str();
        let sql = "DELETE FROM users WHERE username = $1";
        if self.client.execute(sql, &[&key]).await? > 0 {
            let sql = "DELETE FROM totp_steps WHERE username = $1";
            self.client.execute(sql, &[&key]).await?;
            second_factors::remove(self.client, key).await?;
            self.end_user(username).await?;
        }
        Ok(())
    }

    async fn stored<T: serde::de::DeserializeOwned>(
        &self,
        sql: &str,
        key: &str,
    ) -> Result<Option<T>, Fault> {
        match self.client.query_opt(sql, &[&key]).await? {
            Some(row) => Ok(Some(decode_json(row.try_get(0)?)?)),
            None => Ok(None),
        }
    }

    async fn end_grant(&mut self, grant_id: domain::GrantId) -> Result<(), Fault> {
        if grants::end(self.client, grant_id, self.now).await? {
            self.announced.push(Revoked::Grant(grant_id));
        }
        Ok(())
    }

    async fn end_client(&mut self, client_id: &ClientId) -> Result<(), Fault> {
        grants::end_of_client(self.client, client_id.as_str(), self.now).await?;
        self.announced.push(Revoked::Client(client_id.clone()));
        Ok(())
    }

    /// True for a client of the legacy flow, whose tokens do not contain the username.
    async fn is_legacy(&self, client_id: &ClientId) -> Result<bool, Fault> {
        let sql = "SELECT body FROM clients WHERE client_id = $1";
        let client: Option<Client> = self.stored(sql, client_id.as_str()).await?;
        // If the client was removed, its grants and tokens were revoked then.
        Ok(client
            .is_some_and(|client| matches!(client.integration, IntegrationType::Legacy { .. })))
    }

    async fn end_user(&mut self, username: &Username) -> Result<(), Fault> {
        sessions::end_all(self.client, username.as_str()).await?;
        for grant in grants::live_of_user(self.client, username.as_str()).await? {
            if self.is_legacy(&grant.client_id).await? {
                self.announced.push(Revoked::Grant(grant.grant_id));
            }
        }
        grants::end_of_user(self.client, username.as_str(), self.now).await?;
        self.announced.push(Revoked::User(username.clone()));
        Ok(())
    }
}
