//! Signing keys, sealed.

use deadpool_postgres::GenericClient;

use super::fault::Fault;
use super::operation::{Operation, execute, query, query_opt};
use super::value::seconds;
use crate::row::{decode_json, encode_json};
use domain::SealedSigningKey;
use domain::clock::Timestamp;

/// Adds a key, unless one of its algorithm was made after `unless_after`.
pub(super) struct Add {
    pub(super) key: SealedSigningKey,
    pub(super) unless_after: Option<Timestamp>,
}

impl Operation for Add {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        // One at a time: the second looks at what the first has added.
        let turn = "UPDATE counters SET value = value + 1 WHERE name = 'signing_keys'";
        execute(client, turn, &[]).await?;
        let sql = "INSERT INTO signing_keys (kid, algorithm, created_at, body)
            SELECT $1, $2, $3, $4 WHERE NOT EXISTS (
                SELECT 1 FROM signing_keys WHERE algorithm = $2 AND created_at > $5
            )";
        let algorithm = self.key.algorithm.name();
        let after = self.unless_after.map_or(-1, seconds);
        let body = encode_json(&self.key)?;
        let created_at = seconds(self.key.created_at);
        let kid = &self.key.kid;
        let rows = execute(client, sql, &[kid, &algorithm, &created_at, &body, &after]).await?;
        Ok(rows > 0)
    }
}

/// Sets when a key stopped to sign.
pub(super) struct Retire {
    pub(super) kid: String,
    pub(super) retired_at: Option<Timestamp>,
}

impl Operation for Retire {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let sql = "SELECT body FROM signing_keys WHERE kid = $1 FOR UPDATE";
        let Some(row) = query_opt(client, sql, &[&self.kid]).await? else {
            return Ok(());
        };
        let mut key: SealedSigningKey = decode_json(row.try_get(0)?)?;
        key.retired_at = self.retired_at;
        let sql = "UPDATE signing_keys SET body = $2 WHERE kid = $1";
        execute(client, sql, &[&self.kid, &encode_json(&key)?]).await?;
        Ok(())
    }
}

/// Removes a key. `false` when there is none.
pub(super) struct Forget(pub(super) String);

impl Operation for Forget {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        let sql = "DELETE FROM signing_keys WHERE kid = $1";
        Ok(execute(client, sql, &[&self.0]).await? > 0)
    }
}

/// All keys, oldest first.
pub(super) struct All;

impl Operation for All {
    type Outcome = Vec<SealedSigningKey>;

    async fn run(&self, client: &impl GenericClient) -> Result<Vec<SealedSigningKey>, Fault> {
        let sql = "SELECT body FROM signing_keys";
        let found = query(client, sql, &[]).await?;
        let keys: Result<_, Fault> = found
            .iter()
            .map(|row| Ok(decode_json(row.try_get(0)?)?))
            .collect();
        Ok(SealedSigningKey::oldest_first(keys?))
    }
}
