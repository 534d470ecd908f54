//! Clients and users, and what ends when they change.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use super::PostgresStore;
use super::fault::{Fault, readable};
use super::operation::{Connection, Isolation, run};
use super::revocations::announce;
use super::value::{number, rows, unsigned};
use super::{client_secrets, credentials, grants, second_factors, sessions};
use crate::row::{decode_json, encode_json};
use crate::{RegistrationStore, RevocationStore as _, StoreError, issued_until};
use domain::clock::Timestamp;
use domain::{
    Client, ClientId, CredentialsVersion, Extent, IntegrationType, LegacyInstance, RegistryChange,
    RegistryOutcome, Remembered, Revoked, User, Username,
};

#[async_trait]
impl RegistrationStore for PostgresStore {
    async fn registry(&self) -> Result<(Vec<Client>, Vec<User>), StoreError> {
        self.snapshot(async move |client| {
            let clients = "SELECT client_id, body FROM clients WHERE client_id > $1
            ORDER BY client_id LIMIT $2";
            let users = "SELECT username, body FROM users WHERE username > $1
            ORDER BY username LIMIT $2";
            Ok((pages(client, clients).await?, pages(client, users).await?))
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

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        let access_token_lifetime = self.longest_token();
        self.transaction(async move |client| {
            let found = next_version(client, change.planned_on).await?;
            if found == RegistryOutcome::Overtaken {
                return Ok(found);
            }
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
            pages(client, sql).await
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
            next_version(client, None).await?;
            let Some(mut user) = credentials::user(client, &username).await? else {
                return Ok(());
            };
            if user.rehash(&hash, stronger.clone()) {
                credentials::put(client, &user).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Rows read by one statement: a million at once would take longer than a statement may.
const PAGE: usize = 2000;

/// All rows of a table, by a statement that reads a name and a body behind the name $1, at most $2 of them.
async fn pages<T: DeserializeOwned>(client: &Connection<'_>, sql: &str) -> Result<Vec<T>, Fault> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = client.query(sql, &[&after, &rows(PAGE)]).await?;
        for row in &page {
            // Who is not registered is refused, and the others go on.
            let entry = decode_json(row.try_get(1)?).map_err(Fault::from);
            all.extend(readable("registration", entry)?);
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = last.try_get(0)?,
            _ => return Ok(all),
        }
    }
}

/// Moves the version on, unless it is not the one that the change was planned on. First in every change, so that they
/// come one after the other.
pub(super) async fn next_version(
    client: &Connection<'_>,
    planned_on: Option<u64>,
) -> Result<RegistryOutcome, Fault> {
    let turn = "UPDATE counters SET value = value + 1 WHERE name = 'registry_version'
        AND ($1::BIGINT IS NULL OR value = $1)";
    let planned_on = planned_on.map(number);
    Ok(match client.execute(turn, &[&planned_on]).await? {
        0 => RegistryOutcome::Overtaken,
        _ => RegistryOutcome::Changed,
    })
}

struct Changing<'a> {
    client: &'a Connection<'a>,
    /// Of users whose credentials change.
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

    /// Whether a client is one of the legacy flow, whose tokens do not name the user.
    async fn is_legacy(&self, client_id: &ClientId) -> Result<bool, Fault> {
        let sql = "SELECT body FROM clients WHERE client_id = $1";
        let client: Option<Client> = self.stored(sql, client_id.as_str()).await?;
        // Without its client the grant ended before, and with it all tokens of the client.
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
