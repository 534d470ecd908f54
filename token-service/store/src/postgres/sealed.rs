//! Sealed values, and sealing them with another key.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::change_log::{note_changes, turn};
use super::fault::{Fault, readable};
use super::operation::Connection;
use super::{credentials, registry_index, second_factors, signing_keys};
use crate::row::decode;
use crate::{SealedStore, StoreError};
use domain::object::{ObjectKind, ObjectName};
use domain::{SealedValue, SecondFactor, User, Username};

#[async_trait]
impl SealedStore for PostgresStore {
    async fn sealed_root(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT body FROM sealed WHERE name = $1";
            let root = client.query_opt(sql, &[&ROOT]).await?;
            Ok(root.map(|root| root.try_get(0)).transpose()?)
        })
        .await
    }

    async fn own_totp_secrets(
        &self,
        after: String,
        limit: usize,
    ) -> Result<Vec<(Username, Vec<u8>)>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT username, body FROM second_factors WHERE username > $1
                ORDER BY username LIMIT $2";
            let secret = |row: &Row| {
                let body = decode::<SecondFactor>(row.try_get(1)?).map_err(Fault::from);
                let second_factor = readable("second factor", body)?;
                let username = Username::parse(row.try_get(0)?);
                let secret = second_factor.map(|second_factor| second_factor.totp_secret_sealed);
                Ok(username.zip(secret))
            };
            client.rows_behind(sql, after, limit, secret).await
        })
        .await
    }

    async fn reseal(
        &self,
        value: SealedValue,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<bool, StoreError> {
        self.transaction(async move |client| {
            let before = before.as_deref();
            let is_before = |sealed: &Vec<u8>| Some(sealed.as_slice()) == before;
            match &value {
                SealedValue::Root => return reseal_root(client, before, &after).await,
                SealedValue::SigningKey(kid) => {
                    let key = signing_keys::locked(client, kid).await?;
                    let Some(mut key) = key.filter(|key| is_before(&key.sealed_pkcs8)) else {
                        return Ok(false);
                    };
                    key.sealed_pkcs8 = after;
                    signing_keys::replace(client, &key).await?;
                }
                SealedValue::RegisteredTotpSecret(username) => {
                    // A registry change that was planned earlier must not restore the old sealed value.
                    let last = turn(client).await?;
                    let found = credentials::user(client, username).await?;
                    let Some(user) = found
                        .filter(|user| user.totp_secret_sealed.as_ref().is_some_and(is_before))
                    else {
                        return Ok(false);
                    };
                    let resealed = User {
                        totp_secret_sealed: Some(after),
                        ..user.clone()
                    };
                    registry_index::replace_user(client, &user, &resealed).await?;
                    let object = ObjectName::new(ObjectKind::User, username.as_str());
                    note_changes(client, last, [object]).await?;
                }
                SealedValue::OwnTotpSecret(username) => {
                    let own = second_factors::locked(client, username).await?;
                    let Some(mut own) = own.filter(|own| is_before(&own.totp_secret_sealed)) else {
                        return Ok(false);
                    };
                    own.totp_secret_sealed = after;
                    second_factors::put(client, username, &own).await?;
                }
            }
            Ok(true)
        })
        .await
    }
}

/// Name of the root key of the tags.
const ROOT: &str = "root";

async fn reseal_root(
    client: &Connection<'_>,
    before: Option<&[u8]>,
    after: &[u8],
) -> Result<bool, Fault> {
    let rows = match before {
        None => {
            let sql = "INSERT INTO sealed (name, body) VALUES ($1, $2)
                    ON CONFLICT (name) DO NOTHING";
            client.execute(sql, &[&ROOT, &after]).await?
        }
        Some(before) => {
            let sql = "UPDATE sealed SET body = $2 WHERE name = $1 AND body = $3";
            client.execute(sql, &[&ROOT, &after, &before]).await?
        }
    };
    Ok(rows > 0)
}
