//! Sealed values, and sealing them with another key.

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::change_log::note_changes;
use super::credentials;
use super::fault::readable;
use super::registry::behind;
use super::registry_index;
use super::tables::{
    ROOT_KEY, SEALED, SECOND_FACTORS, decode, encode, encode_json, found, found_json,
};
use crate::{SealedStore, StoreError};
use domain::object::{ObjectKind, ObjectName};
use domain::{SealedSigningKey, SealedValue, SecondFactor, User, Username};

#[async_trait]
impl SealedStore for RedbStore {
    async fn sealed_root(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|transaction| {
            let root = transaction.open_table(SEALED)?.get(ROOT_KEY)?;
            Ok(root.map(|root| root.value().to_vec()))
        })
    }

    async fn own_totp_secrets(
        &self,
        after: String,
        limit: usize,
    ) -> Result<Vec<(Username, Vec<u8>)>, StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(SECOND_FACTORS)?;
            let rows = behind(&table, &after)?.filter_map(|entry| {
                let (username, row) = match entry {
                    Ok(entry) => entry,
                    Err(error) => return Some(Err(error.into())),
                };
                let username = Username::parse(username.value())?;
                let row = readable("second factor", decode::<SecondFactor>(row.value()));
                let secret = |row: Option<SecondFactor>| Some((username, row?.totp_secret_sealed));
                row.map(secret).transpose()
            });
            rows.take(limit).collect()
        })
    }

    async fn reseal(
        &self,
        value: SealedValue,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<bool, StoreError> {
        self.write(move |tables, _| {
            let before = before.as_deref();
            match &value {
                SealedValue::Root => {
                    let table = tables.sealed.open()?;
                    let found = table.get(ROOT_KEY)?.map(|root| root.value().to_vec());
                    if found.as_deref() != before {
                        return Ok(false);
                    }
                    table.insert(ROOT_KEY, after.as_slice())?;
                }
                SealedValue::SigningKey(kid) => {
                    let table = tables.signing_keys.open()?;
                    let Some::<SealedSigningKey>(mut key) = found_json(table.get(kid.as_str())?)?
                    else {
                        return Ok(false);
                    };
                    if Some(key.sealed_pkcs8.as_slice()) != before {
                        return Ok(false);
                    }
                    key.sealed_pkcs8 = after;
                    table.insert(kid.as_str(), encode_json(&key)?.as_slice())?;
                }
                SealedValue::RegisteredTotpSecret(username) => {
                    let Some(user) = credentials::user(tables, username)?.filter(|user| {
                        user.totp_secret_sealed.is_some()
                            && user.totp_secret_sealed.as_deref() == before
                    }) else {
                        return Ok(false);
                    };
                    let resealed = User {
                        totp_secret_sealed: Some(after),
                        ..user.clone()
                    };
                    registry_index::put_user(tables, Some(&user), &resealed)?;
                    let object = ObjectName::new(ObjectKind::User, username.as_str());
                    // A registry change that was planned earlier must not restore the old sealed value.
                    note_changes(tables, [object])?;
                }
                SealedValue::OwnTotpSecret(username) => {
                    let table = tables.second_factors.open()?;
                    let found: Option<SecondFactor> = found(table.get(username.as_str())?)?;
                    let Some(mut second_factor) = found else {
                        return Ok(false);
                    };
                    if Some(second_factor.totp_secret_sealed.as_slice()) != before {
                        return Ok(false);
                    }
                    second_factor.totp_secret_sealed = after;
                    table.insert(username.as_str(), encode(&second_factor)?.as_slice())?;
                }
            }
            Ok(true)
        })
        .await
    }
}
