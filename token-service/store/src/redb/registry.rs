//! Clients and users, and what a change of them ends.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redb::{ReadTransaction, ReadableTable};
use serde::de::DeserializeOwned;

use super::RedbStore;
use super::fault::{Fault, readable};
use super::revocations::{announce, tokens_from};
use super::tables::{
    CLIENTS, LEGACY_INSTANCES, META, REGISTRY_CHANGES, REGISTRY_COUNTS, REGISTRY_NAMES,
    REGISTRY_VERSION_KEY, REMEMBERED, REMEMBERED_AT_START, Registrations, Tables, USERS, all_json,
    decode_json, encode_json, registration, row,
};
use super::{
    audit, client_secrets, credentials, grants, names, registry_index, remembered, second_factors,
    sessions,
};
use crate::row::Before;
use crate::{RegistrationStore, StoreError, issued_until};
use domain::clock::Timestamp;
use domain::password_hash;
use domain::registry_change::CHANGES_KEPT;
use domain::registry_index::{CountedKind, NamedKind, email_value, expiry_of, origin_values};
use domain::remembered::ObjectKind;
use domain::{
    AppliedFile, CertificateExpiry, Client, ClientId, ClientVersion, CredentialsVersion, Excerpt,
    Extent, LegacyInstance, ObjectName, Premises, RegistryChange, RegistryChanges, RegistryOutcome,
    RegistrySummary, Revoked, Touched, User, Username,
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
            let memory = transaction.open_table(REMEMBERED)?;
            let (mut clients, mut users, mut remembered) = (Vec::new(), Vec::new(), Vec::new());
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
                remembered.extend(row(&memory, "remembered file", &object.key())?);
            }
            Ok(Excerpt::new(clients, users)
                .with_legacy_instances(all_json(transaction, LEGACY_INSTANCES)?)
                .with_remembered(remembered)
                .at(position(transaction)?))
        })
        .await
    }

    async fn registry_summary(&self) -> Result<RegistrySummary, StoreError> {
        self.read(|transaction| {
            let counts = transaction.open_table(REGISTRY_COUNTS)?;
            let all = |kind| registry_index::counted(&counts, kind);
            let scopes = all(CountedKind::Scope)?.map(|row| Ok(row?.1));
            let schemes: Vec<(u64, String)> =
                all(CountedKind::PasswordScheme)?.collect::<Result<_, Fault>>()?;
            let longest = |kind| -> Result<usize, Fault> {
                let last = all(kind)?.next_back().transpose()?;
                Ok(last.map_or(0, |(length, _)| length.try_into().unwrap_or(usize::MAX)))
            };
            Ok(RegistrySummary {
                version: position(transaction)?,
                scopes: scopes.collect::<Result<_, Fault>>()?,
                password_schemes: password_hash::most_expensive(schemes.into_iter()).into(),
                longest_user_id: longest(CountedKind::UserIdLength)?,
                longest_legacy_client_id: longest(CountedKind::LegacyClientIdLength)?,
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

    async fn single_sign_on_users(&self, email: String) -> Result<Vec<Username>, StoreError> {
        let Some(email) = email_value(&email) else {
            return Ok(Vec::new());
        };
        self.read(|transaction| {
            let names = transaction.open_table(REGISTRY_NAMES)?;
            let found = registry_index::named(&names, NamedKind::SingleSignOn, &email, "")?;
            let found =
                found.filter_map(|name| name.map(|name| Username::parse(&name)).transpose());
            found.take(2).collect()
        })
    }

    async fn client_bound_to(&self, username: Username) -> Result<Option<ClientId>, StoreError> {
        self.read(|transaction| {
            let names = transaction.open_table(REGISTRY_NAMES)?;
            let kind = NamedKind::BoundUser;
            let mut found = registry_index::named(&names, kind, username.as_str(), "")?;
            let found = found.next().transpose()?;
            Ok(found.and_then(|name| ClientId::parse(&name)))
        })
    }

    async fn legacy_clients(&self, after: String, limit: usize) -> Result<Vec<Client>, StoreError> {
        self.read(|transaction| {
            let names = transaction.open_table(REGISTRY_NAMES)?;
            let clients = transaction.open_table(CLIENTS)?;
            let found = registry_index::named(&names, NamedKind::LegacyClient, "", &after)?;
            let found = found.filter_map(|name| match name {
                Ok(name) => row(&clients, "client", &name).transpose(),
                Err(fault) => Some(Err(fault)),
            });
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

    async fn remembered_objects(
        &self,
        at_start: bool,
        after: Option<ObjectName>,
        limit: usize,
    ) -> Result<Vec<ObjectName>, StoreError> {
        let after = after.map(|after| after.key()).unwrap_or_default();
        self.read(|transaction| {
            if at_start {
                objects_behind(&transaction.open_table(REMEMBERED_AT_START)?, &after, limit)
            } else {
                objects_behind(&transaction.open_table(REMEMBERED)?, &after, limit)
            }
        })
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
        self.read_much(remembered::applied_file).await
    }

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        let entries = audit::encoded(Arc::clone(&change.audit)).await?;
        self.write(move |tables, access_token_lifetime| {
            if let Some(planned_on) = change.planned_on {
                let last = last_change(tables)?;
                let log = tables.registry_changes.open()?;
                let changes = changes_behind(log, planned_on, usize::MAX, last)?;
                if Premises::of(&change).are_overtaken_by(&changes) {
                    return Ok(RegistryOutcome::Overtaken);
                }
            }
            if !remembered::change_file(tables, &change.applied_file)? {
                return Ok(RegistryOutcome::Overtaken);
            }
            note_changes(tables, &change.touches())?;
            let mut changing = Changing {
                tables,
                now,
                access_token_lifetime,
            };
            for client_id in &change.remove_clients {
                changing.remove_client(client_id)?;
            }
            for client in &change.put_clients {
                changing.put_client(client)?;
            }
            for username in &change.remove_users {
                changing.remove_user(username)?;
            }
            for user in &change.put_users {
                changing.put_user(user)?;
            }
            for hostname in &change.remove_legacy_instances {
                tables.legacy_instances.open()?.remove(hostname.as_str())?;
            }
            for instance in &change.put_legacy_instances {
                let row = encode_json(instance)?;
                tables
                    .legacy_instances
                    .open()?
                    .insert(instance.hostname.as_str(), row.as_slice())?;
            }
            remembered::change(tables, &change)?;
            audit::append(tables, &entries)?;
            Ok(RegistryOutcome::Changed)
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
                note_changes(tables, &[user.into()])?;
            }
            Ok(())
        })
        .await
    }
}

/// The position in the sequence of changes.
fn position(transaction: &ReadTransaction) -> Result<u64, Fault> {
    let position = transaction.open_table(META)?.get(REGISTRY_VERSION_KEY)?;
    Ok(position.map_or(0, |position| position.value()))
}

/// The objects whose keys follow `after`, sorted by key.
fn objects_behind<V: redb::Value + 'static>(
    table: &impl ReadableTable<&'static str, V>,
    after: &str,
    limit: usize,
) -> Result<Vec<ObjectName>, Fault> {
    let keys = behind(table, after)?.filter_map(|entry| match entry {
        Ok((key, _)) => ObjectName::from_key(key.value()).map(Ok),
        Err(error) => Some(Err(error.into())),
    });
    keys.take(limit).collect()
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

fn last_change(tables: &mut Tables<'_>) -> Result<u64, Fault> {
    let last = tables.meta.open()?.get(REGISTRY_VERSION_KEY)?;
    Ok(last.map_or(0, |last| last.value()))
}

fn changes_behind(
    log: &impl ReadableTable<u64, (&'static str, bool)>,
    after: u64,
    limit: usize,
    last: u64,
) -> Result<RegistryChanges, Fault> {
    let rows = log.range(after.saturating_add(1)..)?.take(limit);
    let rows = rows.map(|entry| {
        let (position, row) = entry?;
        let (key, is_legacy) = row.value();
        let object = ObjectName::from_key(key)
            .ok_or_else(|| Fault::Row("the name of an object that changed".into()))?;
        Ok::<_, Fault>((position.value(), Touched { object, is_legacy }))
    });
    RegistryChanges::behind(after, last, rows)
}

/// Raises the position by 1 for each object, and deletes the oldest changes.
pub(super) fn note_changes(tables: &mut Tables<'_>, touched: &[Touched]) -> Result<(), Fault> {
    let mut last = last_change(tables)?;
    let log = tables.registry_changes.open()?;
    for Touched { object, is_legacy } in touched {
        last += 1;
        log.insert(last, (object.key().as_str(), *is_legacy))?;
        log.remove(last.saturating_sub(CHANGES_KEPT))?;
    }
    tables.meta.open()?.insert(REGISTRY_VERSION_KEY, last)?;
    Ok(())
}

struct Changing<'a, 'txn> {
    tables: &'a mut Tables<'txn>,
    now: Timestamp,
    access_token_lifetime: Duration,
}

impl Changing<'_, '_> {
    fn put_client(&mut self, client: &Client) -> Result<(), Fault> {
        let id = &client.client_id;
        let before = registry_index::client_before(self.tables, id)?;
        let version = match before.known() {
            Some(before) if !client.ends_what_rests_on(before) => before.version,
            _ => ClientVersion::new(credentials::next_version(self.tables)?),
        };
        let versioned = Client {
            version,
            tokens_from: tokens_from(self.tables, [Revoked::Client(id.clone())])?,
            ..client.clone()
        };
        registry_index::put_client(self.tables, before.known(), &versioned)?;
        let secrets = before.known().map(Client::secrets).unwrap_or_default();
        client_secrets::change(self.tables, id, secrets, client.secrets(), self.now)?;
        if before.may_be(|before| before.enabled) && !client.enabled {
            self.end_client(id)?;
        }
        Ok(())
    }

    fn remove_client(&mut self, client_id: &ClientId) -> Result<(), Fault> {
        let removed = registry_index::remove_client(self.tables, client_id)?;
        if matches!(removed, Before::Absent) {
            return Ok(());
        }
        let secrets = removed.known().map(Client::secrets).unwrap_or_default();
        client_secrets::change(self.tables, client_id, secrets, &[], self.now)?;
        self.end_client(client_id)
    }

    fn put_user(&mut self, user: &User) -> Result<(), Fault> {
        let key = user.username.as_str();
        let before = registry_index::user_before(self.tables, &user.username)?;
        let credentials_version = match before.known() {
            Some(before) if !user.ends_what_rests_on(before) => before.credentials_version,
            _ => CredentialsVersion::new(credentials::next_version(self.tables)?),
        };
        let versioned = User {
            credentials_version,
            tokens_from: tokens_from(self.tables, Revoked::of_user(user))?,
            ..user.clone()
        };
        registry_index::put_user(self.tables, before.known(), &versioned)?;
        let before = match before {
            Before::Absent => return Ok(()),
            Before::Unreadable => return self.end_user(&user.username),
            Before::Read(before) => before,
        };
        if before.totp_secret_sealed != user.totp_secret_sealed {
            second_factors::remove(self.tables, key)?;
        }
        if before.enabled && !user.enabled {
            return self.end_user(&user.username);
        }
        let credentials_changed = user.has_other_credentials_than(&before);
        if credentials_changed {
            sessions::end_all(self.tables, key)?;
        }
        for grant_id in grants::of_user(self.tables, key)? {
            let grant = readable("grant", grants::get(self.tables, grant_id))?.flatten();
            let account = grant.map(|grant| grant.account);
            let unlinked = account.is_some_and(|account| !user.accounts.contains(&account));
            if credentials_changed || unlinked {
                grants::revoke(self.tables, grant_id, self.now, self.access_token_lifetime)?;
            }
        }
        for account in before.unlinked_by(user) {
            self.announce(Revoked::account(&user.username, account))?;
        }
        Ok(())
    }

    fn remove_user(&mut self, username: &Username) -> Result<(), Fault> {
        let key = username.as_str();
        let removed = registry_index::remove_user(self.tables, username)?;
        if !matches!(removed, Before::Absent) {
            self.tables.totp_steps.open()?.remove(key)?;
            second_factors::remove(self.tables, key)?;
            self.end_user(username)?;
        }
        Ok(())
    }

    fn end_client(&mut self, client_id: &ClientId) -> Result<(), Fault> {
        for grant_id in grants::of_client(self.tables, client_id.as_str())? {
            grants::end(self.tables, grant_id, self.now)?;
        }
        self.announce(Revoked::Client(client_id.clone()))
    }

    fn end_user(&mut self, username: &Username) -> Result<(), Fault> {
        sessions::end_all(self.tables, username.as_str())?;
        for grant_id in grants::of_user(self.tables, username.as_str())? {
            if grants::end(self.tables, grant_id, self.now)?
                && grants::is_legacy(self.tables, grant_id)?
            {
                self.announce(Revoked::Grant(grant_id))?;
            }
        }
        self.announce(Revoked::User(username.clone()))
    }

    fn announce(&mut self, revoked: Revoked) -> Result<(), Fault> {
        let at = if revoked.is_up_to_a_time() {
            issued_until(self.now)
        } else {
            self.now
        };
        let extent = Extent::of(at, self.access_token_lifetime);
        announce(self.tables, revoked, extent)?;
        Ok(())
    }
}
