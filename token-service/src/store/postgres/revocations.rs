//! The feed of revocations.
//!
//! Sequences come from a counter that is raised in the same transaction as the entry is written. Its row stays locked
//! until the commit, so entries become visible in the order of their sequences and without gaps: a reader that has
//! seen one will never have missed an earlier one. (A sequence of the database is handed out before the commit, and
//! transactions may commit in another order.)

use deadpool_postgres::GenericClient;

use super::fault::Fault;
use super::operation::{Operation, execute, query, query_opt};
use super::value::{rows, seconds, timestamp, unsigned};
use crate::clock::Timestamp;
use crate::store::row::{decode, encode};
use crate::store::{Revocation, Revoked, TokenReference};

/// Adds an entry behind the last one. To be the last statement of its transaction: all other revocations wait for it.
pub(super) struct Announce {
    pub(super) revoked: Revoked,
    pub(super) at: Timestamp,
    pub(super) expires_at: Timestamp,
}

impl Operation for Announce {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let sql = "WITH next AS (
                UPDATE counters SET value = value + 1 WHERE name = 'last_revocation' RETURNING value
            )
            INSERT INTO revocations (sequence, revoked, at, expires_at) SELECT value, $1, $2, $3 FROM next";
        let revoked = encode(&self.revoked)?;
        let times = (seconds(self.at), seconds(self.expires_at));
        execute(client, sql, &[&revoked, &times.0, &times.1]).await?;
        Ok(())
    }
}

/// Whether anything that a token depends on is revoked.
pub(super) struct IsRevoked(pub(super) TokenReference);

impl Operation for IsRevoked {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        let Self(token) = self;
        let sql = "SELECT 1 FROM revocations
            WHERE revoked IN ($1, $2) OR (revoked IN ($3, $4) AND at >= $5) LIMIT 1";
        let grant = encode(&Revoked::Grant(token.grant_id))?;
        let itself = encode(&Revoked::Token(token.token_id))?;
        let its_client = encode(&Revoked::Client(token.client_id.clone()))?;
        let user = encode(&Revoked::User(token.username.clone()))?;
        let issued_at = seconds(token.issued_at);
        let found = query_opt(
            client,
            sql,
            &[&grant, &itself, &its_client, &user, &issued_at],
        )
        .await?;
        Ok(found.is_some())
    }
}

/// The highest sequence that was ever used.
pub(super) struct Last;

impl Operation for Last {
    type Outcome = u64;

    async fn run(&self, client: &impl GenericClient) -> Result<u64, Fault> {
        counter(client, "last_revocation").await
    }
}

/// The value of a counter.
pub(super) async fn counter(client: &impl GenericClient, name: &str) -> Result<u64, Fault> {
    let sql = "SELECT value FROM counters WHERE name = $1";
    match query_opt(client, sql, &[&name]).await? {
        Some(row) => Ok(unsigned(row.try_get(0)?)),
        None => Ok(0),
    }
}

/// Entries behind a position.
pub(super) struct Since {
    pub(super) since: u64,
    pub(super) limit: usize,
}

impl Operation for Since {
    type Outcome = Vec<Revocation>;

    async fn run(&self, client: &impl GenericClient) -> Result<Vec<Revocation>, Fault> {
        let sql = "SELECT sequence, revoked, at, expires_at FROM revocations
            WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let since = super::value::number(self.since);
        let entries = query(client, sql, &[&since, &rows(self.limit)]).await?;
        entries
            .iter()
            .map(|row| {
                Ok(Revocation {
                    sequence: unsigned(row.try_get(0)?),
                    revoked: decode(row.try_get(1)?)?,
                    at: timestamp(row.try_get(2)?),
                    expires_at: timestamp(row.try_get(3)?),
                })
            })
            .collect()
    }
}
