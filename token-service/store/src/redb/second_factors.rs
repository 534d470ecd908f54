//! Second factors that users set up.

use std::sync::Arc;

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::fault::Fault;
use super::revocations::announce;
use super::tables::{LAST_SIGN_INS, SECOND_FACTORS, Tables, USERS, decode_json, encode, found};
use super::{audit, credentials, grants, names, registry_index, sessions};
use crate::{CredentialStore, StoreError, Use};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    AuditEvent, Credentials, CredentialsVersion, Extent, SecondFactor, SignIns, User, Username,
};

#[async_trait]
impl CredentialStore for RedbStore {
    async fn credentials(&self, username: Username) -> Result<Option<Credentials>, StoreError> {
        self.read(|transaction| {
            let Some(name) = names::registered(transaction, &username)? else {
                return Ok(None);
            };
            let key = name.as_str();
            let Some(user) = transaction.open_table(USERS)?.get(key)? else {
                return Ok(None);
            };
            let own = found(transaction.open_table(SECOND_FACTORS)?.get(key)?)?;
            Ok(Some(Credentials::of(decode_json(user.value())?, own)))
        })
    }

    async fn second_factor(&self, username: Username) -> Result<Option<SecondFactor>, StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(SECOND_FACTORS)?;
            found(table.get(username.as_str())?)
        })
    }

    async fn sign_ins(&self, usernames: Vec<Username>) -> Result<Vec<SignIns>, StoreError> {
        self.read(|transaction| {
            let factors = transaction.open_table(SECOND_FACTORS)?;
            let last = transaction.open_table(LAST_SIGN_INS)?;
            let of = |username: Username| {
                let at = last.get(username.as_str())?;
                Ok(SignIns {
                    has_own_second_factor: factors.get(username.as_str())?.is_some(),
                    last_at: at.map(|at| Timestamp::from_seconds(at.value())),
                    username,
                })
            };
            usernames.into_iter().map(of).collect()
        })
    }

    async fn set_second_factor(
        &self,
        username: Username,
        second_factor: Option<SecondFactor>,
        rests_on: Option<CredentialsVersion>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<Option<CredentialsVersion>, StoreError> {
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, lifetime| {
            let Some(user) = credentials::user(tables, &username)?
                .filter(|user| rests_on.is_none_or(|version| user.still_has(version)))
            else {
                return Ok(None);
            };
            let version = CredentialsVersion::new(credentials::next_version(tables)?);
            let renewed = User {
                credentials_version: version,
                ..user.clone()
            };
            registry_index::put_user(tables, Some(&user), &renewed)?;
            sessions::end_all(tables, username.as_str())?;
            let ended = grants::end_where(tables, username.as_str(), now, |grant| {
                !grant.rests_on(&renewed)
            });
            for revoked in ended? {
                announce(tables, revoked, Extent::of(now, lifetime))?;
            }
            match &second_factor {
                Some(second_factor) => put(tables, username.as_str(), second_factor)?,
                None => remove(tables, username.as_str())?,
            }
            audit::append(tables, &entries)?;
            Ok(Some(version))
        })
        .await
    }

    async fn use_recovery_code(&self, username: Username, code: Digest) -> Result<Use, StoreError> {
        self.write(move |tables, _| {
            let username = username.as_str();
            let found = found(tables.second_factors.open()?.get(username)?)?;
            let Some::<SecondFactor>(mut second_factor) = found else {
                return Ok(Use::Again);
            };
            if !second_factor.use_up(&code) {
                return Ok(Use::Again);
            }
            put(tables, username, &second_factor)?;
            Ok(Use::First)
        })
        .await
    }
}

pub(super) fn remove(tables: &mut Tables<'_>, username: &str) -> Result<(), Fault> {
    tables.second_factors.open()?.remove(username)?;
    Ok(())
}

fn put(tables: &mut Tables<'_>, username: &str, second_factor: &SecondFactor) -> Result<(), Fault> {
    let row = encode(second_factor)?;
    let table = tables.second_factors.open()?;
    table.insert(username, row.as_slice())?;
    Ok(())
}
