//! Clients and users, and what ends when they change.

use std::time::Duration;

use deadpool_postgres::GenericClient;
use serde::de::DeserializeOwned;

use super::fault::{Fault, readable};
use super::operation::{Operation, execute, query, query_opt};
use super::revocations::Announce;
use super::value::{number, rows, unsigned};
use super::{client_secrets, credentials, grants, second_factors, sessions};
use crate::issued_until;
use crate::row::{decode_json, encode_json};
use domain::clock::Timestamp;
use domain::{
    Client, ClientId, CredentialsVersion, Extent, IntegrationType, LegacyInstance, RegistryChange,
    RegistryOutcome, Remembered, Revoked, User, Username,
};

/// All clients and users, of one moment.
pub(super) struct All;

impl Operation for All {
    type Outcome = (Vec<Client>, Vec<User>);

    async fn run(&self, client: &impl GenericClient) -> Result<Self::Outcome, Fault> {
        let clients = "SELECT client_id, body FROM clients WHERE client_id > $1
            ORDER BY client_id LIMIT $2";
        let users = "SELECT username, body FROM users WHERE username > $1
            ORDER BY username LIMIT $2";
        Ok((pages(client, clients).await?, pages(client, users).await?))
    }
}

/// Rows read by one statement: a million at once would take longer than a statement may.
const PAGE: usize = 2000;

/// All rows of a table, by a statement that reads a name and a body behind the name $1, at most $2 of them.
async fn pages<T: DeserializeOwned>(
    client: &impl GenericClient,
    sql: &str,
) -> Result<Vec<T>, Fault> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = query(client, sql, &[&after, &rows(PAGE)]).await?;
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

/// All hosts of the legacy flow, in the order of their names.
pub(super) struct LegacyInstances;

impl Operation for LegacyInstances {
    type Outcome = Vec<LegacyInstance>;

    async fn run(&self, client: &impl GenericClient) -> Result<Vec<LegacyInstance>, Fault> {
        let sql = "SELECT body FROM legacy_instances ORDER BY hostname";
        let found = query(client, sql, &[]).await?;
        found
            .iter()
            .map(|row| Ok(decode_json(row.try_get(0)?)?))
            .collect()
    }
}

/// How often the registry has changed, in tables of which version.
pub(super) struct Version;

impl Operation for Version {
    /// The version of the registry, and that of the tables.
    type Outcome = (u64, i64);

    async fn run(&self, client: &impl GenericClient) -> Result<(u64, i64), Fault> {
        let sql = "SELECT (SELECT value FROM counters WHERE name = 'registry_version'),
            (SELECT value FROM counters WHERE name = 'schema_version')";
        let row = query_opt(client, sql, &[]).await?;
        let counter = |index| -> Result<i64, Fault> {
            let value = row.as_ref().map(|row| row.try_get::<_, Option<i64>>(index));
            Ok(value.transpose()?.flatten().unwrap_or_default())
        };
        Ok((unsigned(counter(0)?), counter(1)?))
    }
}

/// Applies a change as a whole.
pub(super) struct Change {
    pub(super) change: RegistryChange,
    pub(super) now: Timestamp,
    pub(super) access_token_lifetime: Duration,
}

impl Operation for Change {
    type Outcome = RegistryOutcome;

    async fn run(&self, client: &impl GenericClient) -> Result<RegistryOutcome, Fault> {
        let found = next_version(client, self.change.planned_on).await?;
        if found == RegistryOutcome::Overtaken {
            return Ok(found);
        }
        let mut changing = Changing {
            client,
            credentials_version: credentials::next_version(client).await?,
            now: self.now,
            announced: Vec::new(),
        };
        for client_id in &self.change.remove_clients {
            changing.remove_client(client_id).await?;
        }
        for client in &self.change.put_clients {
            changing.put_client(client).await?;
        }
        for username in &self.change.remove_users {
            changing.remove_user(username).await?;
        }
        for user in &self.change.put_users {
            changing.put_user(user).await?;
        }
        for hostname in &self.change.remove_legacy_instances {
            let sql = "DELETE FROM legacy_instances WHERE hostname = $1";
            execute(client, sql, &[hostname]).await?;
        }
        for instance in &self.change.put_legacy_instances {
            let sql = "INSERT INTO legacy_instances (hostname, body) VALUES ($1, $2)
                ON CONFLICT (hostname) DO UPDATE SET body = excluded.body";
            execute(client, sql, &[&instance.hostname, &encode_json(instance)?]).await?;
        }
        for revoked in changing.announced {
            let at = if revoked.is_up_to_a_time() {
                issued_until(self.now)
            } else {
                self.now
            };
            let entry = Announce {
                revoked,
                extent: Extent::of(at, self.access_token_lifetime),
            };
            entry.run(client).await?;
        }
        for object in &self.change.forget {
            let sql = "DELETE FROM remembered WHERE object = $1";
            execute(client, sql, &[&object.key()]).await?;
        }
        for remembered in &self.change.remember {
            let sql = "INSERT INTO remembered (object, body) VALUES ($1, $2)
                ON CONFLICT (object) DO UPDATE SET body = excluded.body";
            let (key, row) = (remembered.object.key(), encode_json(remembered)?);
            execute(client, sql, &[&key, &row]).await?;
        }
        Ok(RegistryOutcome::Changed)
    }
}

/// Moves the version on, unless it is not the one that the change was planned on. First in every change, so that they
/// come one after the other.
pub(super) async fn next_version(
    client: &impl GenericClient,
    planned_on: Option<u64>,
) -> Result<RegistryOutcome, Fault> {
    let turn = "UPDATE counters SET value = value + 1 WHERE name = 'registry_version'
        AND ($1::BIGINT IS NULL OR value = $1)";
    let planned_on = planned_on.map(number);
    Ok(match execute(client, turn, &[&planned_on]).await? {
        0 => RegistryOutcome::Overtaken,
        _ => RegistryOutcome::Changed,
    })
}

/// What is remembered of the files that were applied.
pub(super) struct AllRemembered;

impl Operation for AllRemembered {
    type Outcome = Vec<Remembered>;

    async fn run(&self, client: &impl GenericClient) -> Result<Vec<Remembered>, Fault> {
        let sql = "SELECT object, body FROM remembered WHERE object > $1 ORDER BY object LIMIT $2";
        pages(client, sql).await
    }
}

/// Takes a stronger hash of the same password.
pub(super) struct Rehash {
    pub(super) username: Username,
    pub(super) hash: String,
    pub(super) stronger: String,
}

impl Operation for Rehash {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        next_version(client, None).await?;
        let Some(mut user) = credentials::user(client, &self.username).await? else {
            return Ok(());
        };
        if user.rehash(&self.hash, self.stronger.clone()) {
            credentials::put(client, &user).await?;
        }
        Ok(())
    }
}

struct Changing<'a, C> {
    client: &'a C,
    /// Of users whose credentials change.
    credentials_version: CredentialsVersion,
    now: Timestamp,
    announced: Vec<Revoked>,
}

impl<C: GenericClient> Changing<'_, C> {
    async fn put_client(&mut self, client: &Client) -> Result<(), Fault> {
        let key = client.client_id.as_str();
        let sql = "SELECT body FROM clients WHERE client_id = $1";
        let before: Option<Client> = self.stored(sql, key).await?;
        let sql = "INSERT INTO clients (client_id, body) VALUES ($1, $2)
            ON CONFLICT (client_id) DO UPDATE SET body = excluded.body";
        execute(self.client, sql, &[&key, &encode_json(client)?]).await?;
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
        if execute(self.client, sql, &[&client_id.as_str()]).await? > 0 {
            let sql = "DELETE FROM client_secrets WHERE client_id = $1";
            execute(self.client, sql, &[&client_id.as_str()]).await?;
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
        if execute(self.client, sql, &[&key]).await? > 0 {
            let sql = "DELETE FROM totp_steps WHERE username = $1";
            execute(self.client, sql, &[&key]).await?;
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
        match query_opt(self.client, sql, &[&key]).await? {
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
