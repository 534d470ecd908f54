//! Clients and users, and what ends when they change.

use std::time::Duration;

use async_trait::async_trait;
use redb::{ReadTransaction, ReadableTable as _};

use super::RedbStore;
use super::fault::{Fault, readable};
use super::revocations::announce;
use super::tables::{
    CLIENTS, LEGACY_INSTANCES, META, REGISTRY_VERSION_KEY, REMEMBERED, Tables, USERS, all_json,
    decode_json, encode_json,
};
use super::{client_secrets, credentials, grants, second_factors, sessions};
use crate::{RegistrationStore, StoreError, issued_until};
use domain::clock::Timestamp;
use domain::{
    Client, ClientId, Extent, GrantId, IntegrationType, LegacyInstance, RegistryChange,
    RegistryOutcome, Remembered, Revoked, User, Username,
};

#[async_trait]
impl RegistrationStore for RedbStore {
    async fn registry(&self) -> Result<(Vec<Client>, Vec<User>), StoreError> {
        self.read(|transaction| {
            Ok((
                readable_json("client", transaction, CLIENTS)?,
                readable_json("user", transaction, USERS)?,
            ))
        })
    }

    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError> {
        self.read(|transaction| all_json(transaction, LEGACY_INSTANCES))
    }

    async fn registry_version(&self) -> Result<u64, StoreError> {
        self.read(|transaction| {
            let version = transaction.open_table(META)?.get(REGISTRY_VERSION_KEY)?;
            Ok(version.map_or(0, |version| version.value()))
        })
    }

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        self.write(move |tables, access_token_lifetime| {
            let found = next_version(tables, change.planned_on)?;
            if found == RegistryOutcome::Overtaken {
                return Ok(found);
            }
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
            for object in &change.forget {
                tables.remembered.open()?.remove(object.key().as_str())?;
            }
            for remembered in &change.remember {
                let (key, row) = (remembered.object.key(), encode_json(remembered)?);
                let table = tables.remembered.open()?;
                table.insert(key.as_str(), row.as_slice())?;
            }
            Ok(RegistryOutcome::Changed)
        })
        .await
    }

    async fn remembered(&self) -> Result<Vec<Remembered>, StoreError> {
        self.read(|transaction| all_json(transaction, REMEMBERED))
    }

    async fn rehash_password(
        &self,
        username: Username,
        hash: String,
        stronger: String,
    ) -> Result<(), StoreError> {
        self.write(move |tables, _| {
            let key = username.as_str();
            let mut user: User = match tables.users.open()?.get(key)? {
                Some(row) => decode_json(row.value())?,
                None => return Ok(()),
            };
            if user.rehash(&hash, stronger) {
                let row = encode_json(&user)?;
                tables.users.open()?.insert(key, row.as_slice())?;
                next_version(tables, None)?;
            }
            Ok(())
        })
        .await
    }
}

/// Moves the version on, unless it is not the one that the change was planned on.
pub(super) fn next_version(
    tables: &mut Tables<'_>,
    planned_on: Option<u64>,
) -> Result<RegistryOutcome, Fault> {
    let meta = tables.meta.open()?;
    let version = meta
        .get(REGISTRY_VERSION_KEY)?
        .map_or(0, |version| version.value());
    if planned_on.is_some_and(|planned_on| planned_on != version) {
        return Ok(RegistryOutcome::Overtaken);
    }
    meta.insert(REGISTRY_VERSION_KEY, version + 1)?;
    Ok(RegistryOutcome::Changed)
}

struct Changing<'a, 'txn> {
    tables: &'a mut Tables<'txn>,
    now: Timestamp,
    access_token_lifetime: Duration,
}

impl Changing<'_, '_> {
    fn put_client(&mut self, client: &Client) -> Result<(), Fault> {
        let row = encode_json(client)?;
        let key = client.client_id.as_str();
        let before: Option<Client> = match self.tables.clients.open()?.get(key)? {
            Some(row) => Some(decode_json(row.value())?),
            None => None,
        };
        self.tables.clients.open()?.insert(key, row.as_slice())?;
        let secrets = before.as_ref().map(Client::secrets).unwrap_or_default();
        let (id, now) = (&client.client_id, self.now);
        client_secrets::change(self.tables, id, secrets, client.secrets(), now)?;
        if before.is_some_and(|before| before.enabled && !client.enabled) {
            self.end_client(&client.client_id)?;
        }
        Ok(())
    }

    fn remove_client(&mut self, client_id: &ClientId) -> Result<(), Fault> {
        let removed = self.tables.clients.open()?.remove(client_id.as_str())?;
        let removed = removed.map(|row| decode_json::<Client>(row.value()));
        if let Some(client) = removed {
            let client = readable("client", client)?;
            let secrets = client.as_ref().map(Client::secrets).unwrap_or_default();
            client_secrets::change(self.tables, client_id, secrets, &[], self.now)?;
            self.end_client(client_id)?;
        }
        Ok(())
    }

    fn put_user(&mut self, user: &User) -> Result<(), Fault> {
        let key = user.username.as_str();
        let before = credentials::user(self.tables, &user.username)?;
        let credentials_version = match &before {
            Some(before) if !user.ends_what_rests_on(before) => before.credentials_version,
            _ => credentials::next_version(self.tables)?,
        };
        let row = encode_json(&User {
            credentials_version,
            ..user.clone()
        })?;
        self.tables.users.open()?.insert(key, row.as_slice())?;
        let Some(before) = before else {
            return Ok(());
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
        let existed = self.tables.users.open()?.remove(key)?.is_some();
        if existed {
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
            if grants::end(self.tables, grant_id, self.now)? && self.is_legacy(grant_id)? {
                self.announce(Revoked::Grant(grant_id))?;
            }
        }
        self.announce(Revoked::User(username.clone()))
    }

    /// Whether a grant is one of the legacy flow, whose tokens do not name the user.
    fn is_legacy(&mut self, grant_id: GrantId) -> Result<bool, Fault> {
        let Some(grant) = grants::get(self.tables, grant_id)? else {
            return Ok(false);
        };
        let client: Option<Client> =
            match self.tables.clients.open()?.get(grant.client_id.as_str())? {
                Some(row) => Some(decode_json(row.value())?),
                None => None,
            };
        // Without its client the grant ended before, and with it all tokens of the client.
        Ok(client
            .is_some_and(|client| matches!(client.integration, IntegrationType::Legacy { .. })))
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

/// All rows but those that cannot be read: who is not registered is refused, and the others go on.
fn readable_json<T: serde::de::DeserializeOwned>(
    what: &'static str,
    transaction: &ReadTransaction,
    definition: redb::TableDefinition<'_, &'static str, &'static [u8]>,
) -> Result<Vec<T>, Fault> {
    let table = transaction.open_table(definition)?;
    let rows = table.iter()?.filter_map(|entry| match entry {
        Ok((_, row)) => readable(what, decode_json(row.value())).transpose(),
        Err(error) => Some(Err(error.into())),
    });
    rows.collect()
}
