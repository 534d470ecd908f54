//! Second factors that users set up.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::audit;
use super::credentials;
use super::fault::Fault;
use super::grants;
use super::names;
use super::operation::Connection;
use super::registry_index;
use super::revocations::announce;
use super::sessions;
use super::value::timestamp;
use crate::row::{decode, decode_json, encode};
use crate::{CredentialStore, RevocationStore as _, StoreError, Use};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{
    AuditEvent, Credentials, CredentialsVersion, Extent, SecondFactor, SignIns, User, Username,
};

#[async_trait]
impl CredentialStore for PostgresStore {
    async fn credentials(&self, username: Username) -> Result<Option<Credentials>, StoreError> {
        self.statement(async move |client| {
            let select = "SELECT users.username, users.body, second_factors.body FROM users
            LEFT JOIN second_factors ON second_factors.username = users.username";
            let Some(row) = names::row(client, select, &username).await? else {
                return Ok(None);
            };
            let own = match row.try_get::<_, Option<&[u8]>>(2)? {
                Some(body) => Some(decode(body)?),
                None => None,
            };
            Ok(Some(Credentials::of(decode_json(row.try_get(1)?)?, own)))
        })
        .await
    }

    async fn second_factor(&self, username: Username) -> Result<Option<SecondFactor>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT body FROM second_factors WHERE username = $1";
            client.row(sql, &[&username.as_str()]).await
        })
        .await
    }

    async fn sign_ins(&self, usernames: Vec<Username>) -> Result<Vec<SignIns>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT second_factors.username IS NOT NULL, last_sign_ins.at
            FROM unnest($1::text[]) WITH ORDINALITY AS asked (username, position)
            LEFT JOIN second_factors USING (username) LEFT JOIN last_sign_ins USING (username)
            ORDER BY position";
            let names: Vec<&str> = usernames.iter().map(Username::as_str).collect();
            let found = client.query(sql, &[&names]).await?;
            let of = |(row, username): (&Row, &Username)| {
                Ok(SignIns {
                    username: username.clone(),
                    has_own_second_factor: row.try_get(0)?,
                    last_at: row.try_get::<_, Option<i64>>(1)?.map(timestamp),
                })
            };
            found.iter().zip(&usernames).map(of).collect()
        })
        .await
    }

    async fn set_second_factor(
        &self,
        username: Username,
        second_factor: Option<SecondFactor>,
        rests_on: Option<CredentialsVersion>,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<Option<CredentialsVersion>, StoreError> {
        let access_token_lifetime = self.longest_token();
        self.transaction(async move |client| {
            let version = CredentialsVersion::new(credentials::next_version(client).await?);
            let Some(user) = credentials::user(client, &username)
                .await?
                .filter(|user| rests_on.is_none_or(|version| user.still_has(version)))
            else {
                return Ok(None);
            };
            let changed = User {
                credentials_version: version,
                ..user.clone()
            };
            // The index does not contain versions, so the change needs no turn.
            registry_index::replace_user(client, &user, &changed).await?;
            match &second_factor {
                Some(second_factor) => put(client, &username, second_factor).await?,
                None => remove(client, username.as_str()).await?,
            }
            sessions::end_all(client, username.as_str()).await?;
            let ended = grants::end_where(client, username.as_str(), now, |grant| {
                !grant.rests_on(&changed)
            });
            for revoked in ended.await? {
                let extent = Extent::of(now, access_token_lifetime);
                announce(client, &revoked, extent).await?;
            }
            audit::append(client, &audit).await?;
            Ok(Some(version))
        })
        .await
    }

    async fn use_recovery_code(&self, username: Username, code: Digest) -> Result<Use, StoreError> {
        self.transaction(async move |client| {
            let Some(mut second_factor) = locked(client, &username).await? else {
                return Ok(Use::Again);
            };
            if !second_factor.use_up(&code) {
                return Ok(Use::Again);
            }
            put(client, &username, &second_factor).await?;
            Ok(Use::First)
        })
        .await
    }
}

pub(super) async fn remove(client: &Connection<'_>, username: &str) -> Result<(), Fault> {
    let sql = "DELETE FROM second_factors WHERE username = $1";
    client.execute(sql, &[&username]).await?;
    Ok(())
}

/// The second factor that the user set up. Locks its row until this transaction ends.
pub(super) async fn locked(
    client: &Connection<'_>,
    username: &Username,
) -> Result<Option<SecondFactor>, Fault> {
    let sql = "SELECT body FROM second_factors WHERE username = $1 FOR UPDATE";
    client.row(sql, &[&username.as_str()]).await
}

pub(super) async fn put(
    client: &Connection<'_>,
    username: &Username,
    second_factor: &SecondFactor,
) -> Result<(), Fault> {
    let sql = "INSERT INTO second_factors (username, body) VALUES ($1, $2)
        ON CONFLICT (username) DO UPDATE SET body = excluded.body";
    let body = encode(second_factor)?;
    client.execute(sql, &[&username.as_str(), &body]).await?;
    Ok(())
}
