//! Sealed values, and sealing them with another key.

use async_trait::async_trait;

use super::{Runs, change_log, registry_index, signing_keys};
use crate::codec::{Keys, Rest};
use crate::fault::Fault;
use crate::tx::tables::{ROOT, SEALED, SECOND_FACTORS, SIGNING_KEYS, USERS};
use crate::tx::{Read, Tx};
use crate::{SealedStore, StoreError};
use domain::object::{ObjectKind, ObjectName};
use domain::{SealedValue, User, Username};

#[async_trait]
impl<R: Runs> SealedStore for R {
    async fn sealed_root(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|tx| SEALED.get(tx, ROOT)).await
    }

    async fn own_totp_secrets(
        &self,
        after: String,
        limit: usize,
    ) -> Result<Vec<(Username, Vec<u8>)>, StoreError> {
        self.snapshot(move |tx| own_totp_secrets(tx, &after, limit))
            .await
    }

    async fn reseal(
        &self,
        value: SealedValue,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<bool, StoreError> {
        self.owned(move |tx| reseal(tx, &value, before.as_deref(), &after))
            .await
    }
}

fn own_totp_secrets(
    tx: &mut impl Read,
    after: &str,
    limit: usize,
) -> Result<Vec<(Username, Vec<u8>)>, Fault> {
    let keys = Keys::all().behind(after.as_bytes());
    let own = SECOND_FACTORS.readable_rows(tx, &keys, limit)?;
    let of = |(key, own): (Vec<u8>, domain::SecondFactor)| {
        let username = Rest(&key).last().ok().and_then(Username::parse)?;
        Some((username, own.totp_secret_sealed))
    };
    Ok(own.into_iter().filter_map(of).collect())
}

fn reseal(
    tx: &mut impl Tx,
    value: &SealedValue,
    before: Option<&[u8]>,
    after: &[u8],
) -> Result<bool, Fault> {
    let is_before = |sealed: &Vec<u8>| Some(sealed.as_slice()) == before;
    let after = after.to_vec();
    match value {
        SealedValue::Root => {
            tx.ahead(|| [SEALED.lock(ROOT)]);
            if SEALED.get(tx, ROOT)?.as_deref() != before {
                return Ok(false);
            }
            SEALED.put(tx, ROOT, &after)?;
        }
        SealedValue::SigningKey(kid) => {
            tx.ahead(|| signing_keys::wants(kid));
            let key = SIGNING_KEYS.get(tx, kid)?;
            let Some(mut key) = key.filter(|key| is_before(&key.sealed_pkcs8)) else {
                return Ok(false);
            };
            key.sealed_pkcs8 = after;
            SIGNING_KEYS.put(tx, kid, &key)?;
        }
        SealedValue::RegisteredTotpSecret(username) => {
            tx.ahead(|| [change_log::turn(), USERS.lock(username)]);
            let user = USERS.get(tx, username)?;
            let Some(user) =
                user.filter(|user| user.totp_secret_sealed.as_ref().is_some_and(is_before))
            else {
                return Ok(false);
            };
            let resealed = User {
                totp_secret_sealed: Some(after),
                ..user.clone()
            };
            registry_index::replace_user(tx, &user, &resealed)?;
            // A registry change that was planned earlier must not restore the old sealed value.
            let object = ObjectName::new(ObjectKind::User, username.as_str());
            change_log::note_changes(tx, [object])?;
        }
        SealedValue::OwnTotpSecret(username) => {
            tx.ahead(|| [SECOND_FACTORS.lock(username)]);
            let own = SECOND_FACTORS.get(tx, username)?;
            let Some(mut own) = own.filter(|own| is_before(&own.totp_secret_sealed)) else {
                return Ok(false);
            };
            own.totp_secret_sealed = after;
            SECOND_FACTORS.put(tx, username, &own)?;
        }
    }
    Ok(true)
}
