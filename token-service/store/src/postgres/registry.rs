//! Clients and users, and what a change of them ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::change_log::{changes_behind, note_changes, turn};
use super::fault::Fault;
use super::operation::{Connection, Isolation, run};
use super::revocations::counter;
use super::value::{registration, registration_in, rows, unsigned};
use super::{applied_file, changing, credentials, names, registry_index};
use crate::{RegistrationStore, RevocationStore as _, StoreError};
use domain::clock::Timestamp;
use domain::object::ObjectKind;
use domain::password_scheme::{self, UsedScheme};
use domain::registry_index::{CountedKind, NamedKind, expiry_of, managed_of, origin_values};
use domain::{
    AppliedFile, CertificateExpiry, Client, ClientId, Excerpt, LegacyInstance, ObjectName,
    RegistryChange, RegistryChanges, RegistryOutcome, RegistrySummary, User, Username,
};

#[async_trait]
impl RegistrationStore for PostgresStore {
    async fn client_with_bound_user(
        &self,
        client_id: ClientId,
    ) -> Result<Option<(Client, Option<User>)>, StoreError> {
        self.statement(async move |client| {
            // The partial index of the table needs the kind in the text of the statement.
            let kind = NamedKind::BoundUser as i64;
            let sql = format!(
                "SELECT client_id, clients.body, username, users.body FROM clients
                LEFT JOIN registry_names ON kind = {kind} AND name = client_id
                LEFT JOIN users ON username = value
                WHERE client_id = $1"
            );
            let rows = client.query(&sql, &[&client_id.as_str()]).await?;
            client_and_bound_user(&rows)
        })
        .await
    }

    async fn user(&self, username: Username) -> Result<Option<User>, StoreError> {
        self.statement(async move |client| {
            let row = names::row(client, "SELECT username, body FROM users", &username);
            row.await?.map_or(Ok(None), |row| registration(&row))
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

    async fn excerpt(&self, mut names: Vec<ObjectName>) -> Result<Excerpt, StoreError> {
        names.sort();
        names.dedup();
        let (mut clients, mut users) = (Vec::new(), Vec::new());
        for object in &names {
            match object.kind {
                ObjectKind::Client => {
                    clients.extend(ClientId::parse(&object.name).map(String::from));
                }
                ObjectKind::User => users.extend(Username::parse(&object.name).map(String::from)),
                ObjectKind::LegacyInstance => {}
            }
        }
        let names: Arc<[Vec<String>; 2]> = Arc::new([clients, users]);
        self.snapshot(async move |client| {
            let [clients, users] = &*names;
            let sql = "SELECT client_id, body FROM clients WHERE client_id = ANY($1)";
            let clients = client.rows_named(sql, clients, registration).await?;
            let users = names::users(client, users).await?;
            Ok(Excerpt::new(clients, users)
                .with_legacy_instances(legacy_instances(client).await?)
                .at(counter(client, "registry_position").await?))
        })
        .await
    }

    async fn registry_summary(&self) -> Result<RegistrySummary, StoreError> {
        self.snapshot(async move |client| {
            let scopes = registry_index::counted(client, CountedKind::Scope).await?;
            let mut scopes: Vec<String> = scopes.into_iter().map(|(scope, _)| scope).collect();
            // The database may sort in the order of a language.
            scopes.sort();
            let schemes = registry_index::counted(client, CountedKind::PasswordScheme).await?;
            let schemes = schemes.into_iter();
            let schemes = schemes.map(|(scheme, users)| UsedScheme { scheme, users });
            Ok(RegistrySummary {
                version: counter(client, "registry_position").await?,
                scopes,
                password_schemes: password_scheme::most_used(schemes.collect()).into(),
                legacy_instances: legacy_instances(client).await?,
            })
        })
        .await
    }

    async fn allows_origin(&self, origin: String) -> Result<bool, StoreError> {
        let values = origin_values(&origin);
        if values.is_empty() {
            return Ok(false);
        }
        self.statement(async move |client| {
            let (kinds, values) = registry_index::keys(values.iter());
            let sql = "SELECT 1 FROM registry_counts WHERE (kind, value) IN
                (SELECT * FROM unnest($1::BIGINT[], $2::TEXT[])) LIMIT 1";
            let found = client.query_opt(sql, &[&kinds, &values]).await?;
            Ok(found.is_some())
        })
        .await
    }

    async fn users_with(
        &self,
        kind: NamedKind,
        values: Vec<String>,
    ) -> Result<Vec<(String, Username)>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT value, min(name), max(name) FROM registry_names
                WHERE kind = $1 AND value = ANY($2) GROUP BY value";
            let mut found = Vec::new();
            for row in client.query(sql, &[&(kind as i64), &values]).await? {
                let (first, last): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
                let last = Some(last).filter(|last| *last != first);
                for name in std::iter::once(first).chain(last) {
                    let username = Username::parse(name);
                    let value: String = row.try_get(0)?;
                    found.extend(username.map(|username| (value, username)));
                }
            }
            Ok(found)
        })
        .await
    }

    async fn clients_bound_to(
        &self,
        username: Username,
        limit: usize,
    ) -> Result<Vec<ClientId>, StoreError> {
        self.statement(async move |client| {
            let (kind, value) = (NamedKind::BoundUser, username.as_str());
            let names = registry_index::named(client, kind, value, rows(limit)).await?;
            Ok(names
                .iter()
                .filter_map(|name| ClientId::parse(name))
                .collect())
        })
        .await
    }

    async fn certificates_by_expiry(
        &self,
        limit: usize,
    ) -> Result<Vec<CertificateExpiry>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT value, name FROM registry_names WHERE kind = $1
                ORDER BY value, name LIMIT $2";
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let kind = NamedKind::Certificate as i64;
            let mut found = Vec::new();
            for row in client.query(sql, &[&kind, &limit]).await? {
                found.extend(expiry_of(row.try_get(0)?, row.try_get(1)?));
            }
            Ok(found)
        })
        .await
    }

    async fn managed(&self) -> Result<Vec<(String, ObjectName)>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT value, name FROM registry_names WHERE kind = $1";
            let rows = client.query(sql, &[&(NamedKind::Managed as i64)]).await?;
            let mut found = Vec::with_capacity(rows.len());
            for row in rows {
                found.extend(managed_of(row.try_get(0)?, row.try_get(1)?));
            }
            Ok(found)
        })
        .await
    }

    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError> {
        self.statement(async move |client| legacy_instances(client).await)
            .await
    }

    async fn registry_version(&self) -> Result<u64, StoreError> {
        let asked = async |client: &Connection<'_>| {
            let sql = "SELECT (SELECT value FROM counters WHERE name = 'registry_position'),
                (SELECT value FROM counters WHERE name = 'layout')";
            let row = client.query_opt(sql, &[]).await?;
            let counter = |index| -> Result<i64, Fault> {
                let value = row.as_ref().map(|row| row.try_get::<_, Option<i64>>(index));
                Ok(value.transpose()?.flatten().unwrap_or_default())
            };
            Ok((unsigned(counter(0)?), counter(1)?))
        };
        let (registry, layout) = run(&self.pool, Isolation::Statement, asked).await?;
        let before = self.layout.swap(layout, Ordering::AcqRel);
        self.knows_layout()?;
        if layout != before {
            tracing::info!(before, layout, "the layout in use has changed");
        }
        Ok(registry)
    }

    async fn registry_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<RegistryChanges, StoreError> {
        self.snapshot(async move |client| {
            let last = counter(client, "registry_position").await?;
            changes_behind(client, after, limit, last).await
        })
        .await
    }

    async fn applied_file(&self) -> Result<Option<AppliedFile>, StoreError> {
        self.statement(async move |client| applied_file::read(client).await)
            .await
    }

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        let access_token_lifetime = self.longest_token();
        self.transaction(async move |client| {
            changing::change(client, &change, now, access_token_lifetime).await
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
            let Some(before) = credentials::user(client, &username).await? else {
                return Ok(());
            };
            let mut user = before.clone();
            if user.rehash(&hash, stronger.clone()) {
                registry_index::replace_user(client, &before, &user).await?;
                let user = ObjectName::new(ObjectKind::User, username.as_str());
                note_changes(client, last, [user]).await?;
            }
            Ok(())
        })
        .await
    }
}

async fn legacy_instances(client: &Connection<'_>) -> Result<Vec<LegacyInstance>, Fault> {
    let sql = "SELECT body FROM legacy_instances ORDER BY hostname";
    client.all_json(sql, &[]).await
}

/// Reads a client and its bound user from rows with name and body of the client, and name and body of a user that the
/// index names. After an unreadable row of a client was replaced, the index also names the bound user of the old row.
fn client_and_bound_user(rows: &[Row]) -> Result<Option<(Client, Option<User>)>, Fault> {
    let client = rows.first().map(registration::<Client>).transpose()?;
    let Some(client) = client.flatten() else {
        return Ok(None);
    };
    let bound_user = client.bound_user().map(Username::as_str);
    for row in rows {
        let username: Option<&str> = row.try_get(2)?;
        if username.is_some() && username == bound_user {
            return Ok(Some((client, registration_in(row, 3)?)));
        }
    }
    Ok(Some((client, None)))
}
