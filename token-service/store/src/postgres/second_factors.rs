//! Second factors that people set up.

use std::time::Duration;

use deadpool_postgres::GenericClient;

use super::credentials;
use super::fault::Fault;
use super::grants;
use super::operation::{Operation, execute, query_opt};
use super::revocations::Announce;
use super::sessions;
use crate::Claim;
use crate::row::{decode, encode};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{CredentialsVersion, Extent, Revoked, SecondFactor, User, Username};

/// What a user has set up.
pub(super) struct Get(pub(super) Username);

impl Operation for Get {
    type Outcome = Option<SecondFactor>;

    async fn run(&self, client: &impl GenericClient) -> Result<Option<SecondFactor>, Fault> {
        let sql = "SELECT body FROM second_factors WHERE username = $1";
        match query_opt(client, sql, &[&self.0.as_str()]).await? {
            Some(row) => Ok(Some(decode(row.try_get(0)?)?)),
            None => Ok(None),
        }
    }
}

/// Sets up a second factor, or removes it, and ends what rests on the credentials before.
pub(super) struct Set {
    pub(super) username: Username,
    pub(super) second_factor: Option<SecondFactor>,
    pub(super) rests_on: Option<CredentialsVersion>,
    pub(super) now: Timestamp,
    pub(super) access_token_lifetime: Duration,
}

impl Operation for Set {
    type Outcome = Option<CredentialsVersion>;

    async fn run(&self, client: &impl GenericClient) -> Result<Self::Outcome, Fault> {
        let version = credentials::next_version(client).await?;
        let Some(user) = credentials::user(client, &self.username)
            .await?
            .filter(|user| self.rests_on.is_none_or(|version| user.still_has(version)))
        else {
            return Ok(None);
        };
        let changed = User {
            credentials_version: version,
            ..user
        };
        credentials::put(client, &changed).await?;
        let username = self.username.as_str();
        match &self.second_factor {
            Some(second_factor) => {
                let sql = "INSERT INTO second_factors (username, body) VALUES ($1, $2)
                    ON CONFLICT (username) DO UPDATE SET body = excluded.body";
                execute(client, sql, &[&username, &encode(second_factor)?]).await?;
            }
            None => remove(client, username).await?,
        }
        sessions::end_all(client, username).await?;
        let mut ended = Vec::new();
        for grant in grants::live_of_user(client, username).await? {
            if grants::end(client, grant.grant_id, self.now).await? {
                ended.push(grant.grant_id);
            }
        }
        for grant_id in ended {
            let entry = Announce {
                revoked: Revoked::Grant(grant_id),
                extent: Extent::of(self.now, self.access_token_lifetime),
            };
            entry.run(client).await?;
        }
        Ok(Some(version))
    }
}

/// Uses a recovery code up.
pub(super) struct ClaimRecoveryCode {
    pub(super) username: Username,
    pub(super) code: Digest,
}

impl Operation for ClaimRecoveryCode {
    type Outcome = Claim;

    async fn run(&self, client: &impl GenericClient) -> Result<Claim, Fault> {
        let username = self.username.as_str();
        let sql = "SELECT body FROM second_factors WHERE username = $1 FOR UPDATE";
        let Some(row) = query_opt(client, sql, &[&username]).await? else {
            return Ok(Claim::AlreadyClaimed);
        };
        let mut second_factor: SecondFactor = decode(row.try_get(0)?)?;
        if !second_factor.use_up(&self.code) {
            return Ok(Claim::AlreadyClaimed);
        }
        let sql = "UPDATE second_factors SET body = $2 WHERE username = $1";
        execute(client, sql, &[&username, &encode(&second_factor)?]).await?;
        Ok(Claim::Claimed)
    }
}

/// Forgets what a user set up.
pub(super) async fn remove(client: &impl GenericClient, username: &str) -> Result<(), Fault> {
    let sql = "DELETE FROM second_factors WHERE username = $1";
    execute(client, sql, &[&username]).await?;
    Ok(())
}
