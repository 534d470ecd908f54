//! Second factors that people set up.

use deadpool_postgres::GenericClient;

use super::fault::Fault;
use super::operation::{Operation, execute, query_opt};
use super::sessions;
use crate::digest::Digest;
use crate::registry::Username;
use crate::store::row::{decode, encode};
use crate::store::{Claim, SecondFactor};

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

/// Sets up a second factor, or removes it, and ends the user's sessions.
pub(super) struct Set {
    pub(super) username: Username,
    pub(super) second_factor: Option<SecondFactor>,
}

impl Operation for Set {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let username = self.username.as_str();
        sessions::end_all(client, username).await?;
        let Some(second_factor) = &self.second_factor else {
            return remove(client, username).await;
        };
        let sql = "INSERT INTO second_factors (username, body) VALUES ($1, $2)
            ON CONFLICT (username) DO UPDATE SET body = excluded.body";
        execute(client, sql, &[&username, &encode(second_factor)?]).await?;
        Ok(())
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
