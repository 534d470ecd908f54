//! Clients, users and legacy instances. [`changing`] changes them.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Runs, applied_file, change_log, changing, names, registry_index};
use crate::codec::{Bytes, Keys};
use crate::fault::Fault;
use crate::tx::tables::{CLIENTS, LEGACY_INSTANCES, USERS};
use crate::tx::{Read, Want};
use crate::{RegistrationStore, StoreError};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::object::ObjectKind;
use domain::password_scheme::{self, UsedScheme};
use domain::registry_index::{CountedKind, NamedKind, expiry_of, origin_values};
use domain::{
    CertificateExpiry, Client, ClientId, Excerpt, LegacyInstance, ObjectName, RegistryChange,
    RegistryChanges, RegistryOutcome, RegistrySummary, User, Username,
};

#[async_trait]
impl<R: Runs> RegistrationStore for R {
    async fn client_with_bound_user(
        &self,
        client_id: ClientId,
    ) -> Result<Option<(Client, Option<User>)>, StoreError> {
        self.read(move |tx| client_with_bound_user(tx, &client_id))
            .await
    }

    async fn user(&self, username: Username) -> Result<Option<User>, StoreError> {
        self.read(move |tx| names::user(tx, &username)).await
    }

    async fn clients(&self, after: String, limit: usize) -> Result<Vec<Client>, StoreError> {
        self.read(move |tx| listed(CLIENTS.readable_rows(tx, &behind(&after), limit)))
            .await
    }

    async fn users(&self, after: String, limit: usize) -> Result<Vec<User>, StoreError> {
        self.read(move |tx| listed(USERS.readable_rows(tx, &behind(&after), limit)))
            .await
    }

    async fn legacy_instances(&self) -> Result<Vec<LegacyInstance>, StoreError> {
        self.read(|tx| legacy_instances(tx)).await
    }

    async fn registry_version(&self) -> Result<u64, StoreError> {
        self.position().await
    }

    async fn registry_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<RegistryChanges, StoreError> {
        self.read(move |tx| {
            tx.ahead(|| change_log::wants(after, limit));
            change_log::changes_behind(tx, after, limit)
        })
        .await
    }

    async fn excerpt(&self, mut objects: Vec<ObjectName>) -> Result<Excerpt, StoreError> {
        objects.sort();
        objects.dedup();
        self.snapshot(move |tx| excerpt(tx, &objects)).await
    }

    async fn registry_summary(&self) -> Result<RegistrySummary, StoreError> {
        self.read(|tx| summary(tx)).await
    }

    async fn allows_origin(&self, origin: String) -> Result<bool, StoreError> {
        self.read(move |tx| {
            let values = origin_values(&origin);
            registry_index::is_any_counted(tx, &values)
        })
        .await
    }

    async fn users_with(
        &self,
        kind: NamedKind,
        values: Vec<String>,
    ) -> Result<Vec<(String, Username)>, StoreError> {
        self.snapshot(move |tx| users_with(tx, kind, &values)).await
    }

    async fn clients_bound_to(
        &self,
        username: Username,
        limit: usize,
    ) -> Result<Vec<ClientId>, StoreError> {
        self.read(move |tx| {
            let kind = NamedKind::BoundUser;
            let names = registry_index::named(tx, kind, username.as_str(), limit)?;
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
        self.read(move |tx| {
            let values = registry_index::values(tx, NamedKind::Certificate, limit)?;
            let values = values.iter();
            Ok(values
                .filter_map(|(value, name)| expiry_of(value, name))
                .collect())
        })
        .await
    }

    async fn applied_file(&self) -> Result<Option<Digest>, StoreError> {
        self.read(|tx| applied_file::get(tx)).await
    }

    async fn change_registry(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<RegistryOutcome, StoreError> {
        let entries = self.entries(Arc::clone(&change.audit)).await?;
        self.owned(move |tx| changing::change(tx, &change, &entries, now))
            .await
    }

    async fn rehash_password(
        &self,
        username: Username,
        hash: String,
        stronger: String,
    ) -> Result<(), StoreError> {
        self.owned(move |tx| changing::rehash_password(tx, &username, &hash, &stronger))
            .await
    }
}

fn client_with_bound_user(
    tx: &mut impl Read,
    client_id: &ClientId,
) -> Result<Option<(Client, Option<User>)>, Fault> {
    let Some(client) = CLIENTS.readable(tx, client_id)? else {
        return Ok(None);
    };
    let user = match client.bound_user() {
        Some(username) => USERS.readable(tx, username)?,
        None => None,
    };
    Ok(Some((client, user)))
}

fn behind(name: &str) -> Keys {
    Keys::all().behind(name.as_bytes())
}

fn listed<T>(rows: Result<Vec<(Bytes, T)>, Fault>) -> Result<Vec<T>, Fault> {
    Ok(rows?
        .into_iter()
        .map(|(_, registration)| registration)
        .collect())
}

/// The registrations of these names, and all legacy instances.
fn excerpt(tx: &mut impl Read, objects: &[ObjectName]) -> Result<Excerpt, Fault> {
    let (mut client_ids, mut usernames) = (Vec::new(), Vec::new());
    for object in objects {
        match object.kind {
            ObjectKind::Client => client_ids.extend(ClientId::parse(&object.name)),
            ObjectKind::User => usernames.extend(Username::parse(&object.name)),
            ObjectKind::LegacyInstance => {}
        }
    }
    tx.ahead(|| {
        let clients = client_ids.iter().map(|id| CLIENTS.want(id));
        let users = usernames.iter().flat_map(names::wants);
        let common = [change_log::want_position(), want_legacy_instances()];
        clients.chain(users).chain(common)
    });
    let registered = names::all_registered(tx, &usernames)?;
    let mut clients = Vec::new();
    for client_id in &client_ids {
        clients.extend(CLIENTS.readable(tx, client_id)?);
    }
    let mut users = Vec::new();
    for username in &registered {
        users.extend(USERS.readable(tx, username)?);
    }
    Ok(Excerpt::new(clients, users)
        .with_legacy_instances(legacy_instances(tx)?)
        .at(change_log::position(tx)?))
}

/// What all registrations say together.
fn summary(tx: &mut impl Read) -> Result<RegistrySummary, Fault> {
    tx.ahead(|| {
        [
            change_log::want_position(),
            registry_index::want_counted(CountedKind::Scope),
            registry_index::want_counted(CountedKind::PasswordScheme),
            want_legacy_instances(),
        ]
    });
    let scopes = registry_index::counted(tx, CountedKind::Scope)?.into_iter();
    let schemes = registry_index::counted(tx, CountedKind::PasswordScheme)?.into_iter();
    let schemes = schemes.map(|(scheme, users)| UsedScheme { scheme, users });
    Ok(RegistrySummary {
        version: change_log::position(tx)?,
        scopes: scopes.map(|(scope, _)| scope).collect(),
        password_schemes: password_scheme::most_used(schemes.collect()).into(),
        legacy_instances: legacy_instances(tx)?,
    })
}

/// The users who have one of these values, each with the value: at most two for each value.
pub(crate) fn users_with(
    tx: &mut impl Read,
    kind: NamedKind,
    values: &[String],
) -> Result<Vec<(String, Username)>, Fault> {
    const OF_A_VALUE: usize = 2;
    tx.ahead(|| {
        let values = values.iter();
        values.map(|value| registry_index::want_named(kind, value, OF_A_VALUE))
    });
    let mut found = Vec::new();
    for value in values {
        for name in registry_index::named(tx, kind, value, OF_A_VALUE)? {
            found.extend(Username::parse(&name).map(|username| (value.clone(), username)));
        }
    }
    Ok(found)
}

fn legacy_instances(tx: &mut impl Read) -> Result<Vec<LegacyInstance>, Fault> {
    let rows = LEGACY_INSTANCES.rows(tx, &Keys::all(), usize::MAX)?;
    Ok(rows.into_iter().map(|(_, instance)| instance).collect())
}

fn want_legacy_instances() -> Want {
    LEGACY_INSTANCES.want_rows(Keys::all(), usize::MAX)
}
