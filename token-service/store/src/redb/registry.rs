//! Clients and users, and what a change of them ends.

use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use redb::{ReadTransaction, ReadableTable};
use serde::de::DeserializeOwned;

use super::RedbStore;
use super::change_log::{changes_behind, note_changes, position};
use super::fault::{Fault, readable};
use super::tables::{
    CLIENTS, LEGACY_INSTANCES, REGISTRY_CHANGES, REGISTRY_COUNTS, REGISTRY_NAMES, Registrations,
    USERS, all_json, decode_json, registration, row,
};
use super::{applied_file, audit, changing, credentials, names, registry_index};
use crate::{RegistrationStore, StoreError};
use domain::clock::Timestamp;
use domain::object::ObjectKind;
use domain::password_scheme::{self, UsedScheme};
use domain::registry_index::{CountedKind, NamedKind, expiry_of, managed_of, origin_values};
use domain::{
    AppliedFile, CertificateExpiry, Client, ClientId, Excerpt, LegacyInstance, ObjectName,
    RegistryChange, RegistryChanges, RegistryOutcome, RegistrySummary, User, Username,
};

#[async_trait]
impl RegistrationStore for RedbStore {
    async fn client_with_bound_user(
        &self,
        client_id: ClientId,
    ) -> Result<Option<(Client, Option<User>)>, StoreError> {
        self.read(|transaction| {
            let found = registration(transaction, CLIENTS, client_id.as_str())?;
            let Some(client): Option<Client> = found else {
                return Ok(None);
            };
            let user = match client.bound_user() {
                Some(username) => registration(transaction, USERS, username.as_str())?,
                None => None,
            };
            Ok(Some((client, user)))
        })
    }

    async fn user(&self, username: Username) -> Result<Option<User>, StoreError> {
        self.read(|transaction| names::user(transaction, &username))
    }

    async fn clients(&self, after: String, limit: usize) -> Result<Vec<Client>, StoreError> {
        self.read(|transaction| registrations(transaction, CLIENTS, &after, limit))
    }

    async fn users(&self, after: String, limit: usize) -> Result<Vec<User>, StoreError> {
        self.read(|transaction| registrations(transaction, USERS, &after, limit))
    }

    async fn excerpt(&self, mut objects: Vec<ObjectName>) -> Result<Excerpt, StoreError> {
        objects.sort();
        objects.dedup();
        self.read_much(move |transaction| {
            let client_rows = transaction.open_table(CLIENTS)?;
            let (mut clients, mut users) = (Vec::new(), Vec::new());
            for object in &objects {
                match object.kind {
                    ObjectKind::Client => {
                        clients.extend(row(&client_rows, "client", &object.name)?)
                    }
                    ObjectKind::User => {
                        if let Some(username) = Username::parse(&object.name) {
                            users.extend(names::user(transaction, &username)?);
                        }
                    }
                    ObjectKind::LegacyInstance => {}
                }
            }
            Ok(Excerpt::new(clients, users)
                .with_legacy_instances(all_json(transaction, LEGACY_INSTANCES)?)
                .at(position(transaction)?))
        })
        .await
    }

    async fn registry_summary(&self) -> Result<RegistrySummary, StoreError> {
        self.read(|transaction| {
            let counts = transaction.open_table(REGISTRY_COUNTS)?;
            let all = |kind| registry_index::counted(&counts, kind);
            let scopes = all(CountedKind::Scope)?.map(|row| Ok(row?.0));
            let schemes = all(CountedKind::PasswordScheme)?.map(|row| {
                let (scheme, users) = row?;
                Ok(UsedScheme { scheme, users })
            });
            let schemes = schemes.collect::<Result<_, Fault>>()?;
            Ok(RegistrySummary {
                version: position(transaction)?,
                scopes: scopes.collect::<Result<_, Fault>>()?,
                password_schemes: password_scheme::most_used(schemes).into(),
                legacy_instances: all_json(transaction, LEGACY_INSTANCES)?,
            })
        })
    }

    async fn allows_origin(&self, origin: String) -> Result<bool, StoreError> {
        self.read(|transaction| {
            let counts = transaction.open_table(REGISTRY_COUNTS)?;
            for counted in origin_values(&origin) {
                if counts.get(registry_index::counted_key(&counted))?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    async fn users_with(
        &self,
        kind: NamedKind,
        values: Vec<String>,
    ) -> Result<Vec<(String, Username)>, StoreError> {
        self.read_much(move |transaction| {
            let names = transaction.open_table(REGISTRY_NAMES)?;
            let mut found = Vec::new();
            for value in values {
                for name in registry_index::named(&names, kind, &value, "")?.take(2) {
                    let username = Username::parse(&name?);
                    found.extend(username.map(|username| (value.clone(), username)));
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
        self.read(|transaction| {
            let names = transaction.open_table(REGISTRY_NAMES)?;
            let kind = NamedKind::BoundUser;
            let found = registry_index::named(&names, kind, username.as_str(), "")?;
            let found =
                found.filter_map(|name| name.map(|name| ClientId::parse(&name)).transpose());
            found.take(limit).collect()
        })
    }

    async fn certificates_by_expiry(
        &self,
        limit: usize,
    ) -> Result<Vec<CertificateExpiry>, StoreError> {
        self.read(|transaction| {
            let names = transaction.open_table(REGISTRY_NAMES)?;
            let found = registry_index::values(&names, NamedKind::Certificate)?;
            let found = found.filter_map(|entry| match entry {
                Ok((value, name)) => expiry_of(&value, &name).map(Ok),
                Err(fault) => Some(Err(fault)),
            });
            found.take(limit).collect()
        })
    }

    async fn managed(&self) -> Result<Vec<(String, ObjectName)>, StoreError> {
        self.read_much(|transaction| {
            let names = transaction.open_table(REGISTRY_NAMES)?;
            let found = registry_index::values(&names, NamedKind::Managed)?;
            let found = found.filter_map(|entry| match entry {
                Ok((value, name)) => managed_of(value, &name).map(Ok),
                Err(fault) => Some(Err(fault)),
            });
            found.collect()
        })
        .await
    }

    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError> {
        self.read(|transaction| all_json(transaction, LEGACY_INSTANCES))
    }

    async fn registry_version(&self) -> Result<u64, StoreError> {
        self.read(position)
    }

    async fn registry_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<RegistryChanges, StoreError> {
        self.read(|transaction| {
            let last = position(transaction)?;
            let log = transaction.open_table(REGISTRY_CHANGES)?;
            changes_behind(&log, after, limit, last)
        })
    }

    async fn applied_file(&self) -> Result<Option<AppliedFile>, StoreError> {
        self.read(applied_file::read)
    }

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        let entries = audit::encoded(Arc::clone(&change.audit)).await?;
        self.write(move |tables, access_token_lifetime| {
            changing::change(tables, &change, &entries, now, access_token_lifetime)
        })
        .await
    }

    async fn rehash_password(
        &self,
        username: Username,
        hash: String,
        stronger: String,
    ) -> Result<(), StoreError> {
        self.write(move |tables, _| {
            let Some(before) = credentials::user(tables, &username)? else {
                return Ok(());
            };
            let mut user = before.clone();
            if user.rehash(&hash, stronger) {
                registry_index::put_user(tables, Some(&before), &user)?;
                let user = ObjectName::new(ObjectKind::User, username.as_str());
                note_changes(tables, [user])?;
            }
            Ok(())
        })
        .await
    }
}

/// Registrations with names after `after`, sorted by name.
fn registrations<T: DeserializeOwned>(
    transaction: &ReadTransaction,
    table: Registrations,
    after: &str,
    limit: usize,
) -> Result<Vec<T>, Fault> {
    let table = transaction.open_table(table)?;
    let rows = behind(&table, after)?.filter_map(|entry| match entry {
        Ok((_, row)) => readable("registration", decode_json(row.value())).transpose(),
        Err(error) => Some(Err(error.into())),
    });
    rows.take(limit).collect()
}

/// Rows with keys after a name; all rows if the name is empty.
pub(super) fn behind<'t, V: redb::Value + 'static>(
    table: &'t impl ReadableTable<&'static str, V>,
    after: &str,
) -> Result<redb::Range<'t, &'static str, V>, Fault> {
    Ok(table.range::<&str>((Bound::Excluded(after), Bound::Unbounded))?)
}
