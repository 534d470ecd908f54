//! Sealed values, and sealing them with another key.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::change_log::{note_changes, turn};
use super::credentials;
use super::fault::{Fault, readable};
use super::operation::Connection;
use super::registry_index;
use crate::row::{decode, decode_json, encode, encode_json};
use crate::{SealedStore, StoreError};
use domain::object::{ObjectKind, ObjectName};
use domain::{SealedSigningKey, SealedValue, SecondFactor, User, Username};

#[async_trait]
impl SealedStore for PostgresStore {
    async fn sealed_root(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT body FROM sealed WHERE name = $1";
            match client.query_opt(sql, &[&ROOT]).await? {
                Some(row) => Ok(Some(row.try_get(0)?)),
                None => Ok(None),
            }
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
        self.transaction(async move |client| match &value {
            SealedValue::Root => reseal_root(client, before.as_ref(), &after).await,
            SealedValue::SigningKey(kid) => {
                reseal_signing_key(client, kid, before.as_ref(), &after).await
            }
            SealedValue::RegisteredTotpSecret(username) => {
                reseal_registered(client, username, before.as_ref(), &after).await
            }
            SealedValue::OwnTotpSecret(username) => {
                reseal_own(client, username, before.as_ref(), &after).await
            }
        })
        .await
    }
}

/// Name of the root key of the tags.
const ROOT: &str = "root";

async fn reseal_root(
    client: &Connection<'_>,
    before: Option<&Vec<u8>>,
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
            client.execute(sql, &[&ROOT, &after, before]).await?
        }
    };
    Ok(rows > 0)
}

async fn reseal_signing_key(
    client: &Connection<'_>,
    kid: &str,
    before: Option<&Vec<u8>>,
    after: &[u8],
) -> Result<bool, Fault> {
    let sql = "SELECT body FROM signing_keys WHERE kid = $1 FOR UPDATE";
    let Some(row) = client.query_opt(sql, &[&kid]).await? else {
        return Ok(false);
    };
    let mut key: SealedSigningKey = decode_json(row.try_get(0)?)?;
    if Some(&key.sealed_pkcs8) != before {
        return Ok(false);
    }
    key.sealed_pkcs8 = after.to_vec();
    let sql = "UPDATE signing_keys SET body = $2 WHERE kid = $1";
    client.execute(sql, &[&kid, &encode_json(&key)?]).await?;
    Ok(true)
}

async fn reseal_registered(
    client: &Connection<'_>,
    username: &Username,
    before: Option<&Vec<u8>>,
    after: &[u8],
) -> Result<bool, Fault> {
    // A registry change that was planned earlier must not restore the old sealed value.
    let last = turn(client).await?;
    let found = credentials::user(client, username).await?;
    let Some(user) = found.filter(|user| {
        user.totp_secret_sealed.is_some() && user.totp_secret_sealed.as_ref() == before
    }) else {
        return Ok(false);
    };
    let changed = User {
        totp_secret_sealed: Some(after.to_vec()),
        ..user.clone()
    };
    registry_index::replace_user(client, &user, &changed).await?;
    let object = ObjectName::new(ObjectKind::User, username.as_str());
    note_changes(client, last, [object]).await?;
    Ok(true)
}

async fn reseal_own(
    client: &Connection<'_>,
    username: &Username,
    before: Option<&Vec<u8>>,
    after: &[u8],
) -> Result<bool, Fault> {
    let username = username.as_str();
    let sql = "SELECT body FROM second_factors WHERE username = $1 FOR UPDATE";
    let Some(row) = client.query_opt(sql, &[&username]).await? else {
        return Ok(false);
    };
    let mut second_factor: SecondFactor = decode(row.try_get(0)?)?;
    if Some(&second_factor.totp_secret_sealed) != before {
        return Ok(false);
    }
    second_factor.totp_secret_sealed = after.to_vec();
    let sql = "UPDATE second_factors SET body = $2 WHERE username = $1";
    client
        .execute(sql, &[&username, &encode(&second_factor)?])
        .await?;
    Ok(true)
}
