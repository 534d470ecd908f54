//! The feed of revocations to the gateways.
//!
//! Sequences come from a counter that is raised in the same transaction as the entry is written. Its row stays locked
//! until the commit, so entries become visible in the order of their sequences: a reader that has seen one will never have
//! missed an earlier one. (A sequence of the database is handed out before the commit, and transactions may commit in
//! another order.) A number is left out when two transactions announce the same thing at the same time.

use deadpool_postgres::GenericClient;

use super::fault::Fault;
use super::operation::{Operation, execute, query, query_opt};
use super::value::{number, rows, seconds, timestamp, unsigned};
use crate::row::{RowError, decode_bare, encode_bare};
use crate::token_lifetime::TokenLifetime;
use domain::clock::Timestamp;
use domain::{Extent, FeedId, FeedState, Revocation, Revoked, TokenReference};

/// Adds an entry behind the last one, in the place of the one before for the same thing; `false` if that one says as much
/// already. To be the last of its transaction: all other revocations wait for it.
pub(super) struct Announce {
    pub(super) revoked: Revoked,
    pub(super) extent: Extent,
}

impl Operation for Announce {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        let revoked = encode_bare(&self.revoked)?;
        // Without waiting for others, because what is revoked already is often revoked again.
        if self.missing(client, &revoked).await?.is_none() {
            return Ok(false);
        }
        // The row of the counter stays locked until the commit: from here on nobody else announces the same.
        let turn =
            "UPDATE counters SET value = value + 1 WHERE name = 'last_revocation' RETURNING value";
        let row = query_opt(client, turn, &[]).await?;
        let row = row.ok_or_else(|| RowError("there is no counter of revocations".into()))?;
        let sequence: i64 = row.try_get(0)?;
        let Some(extent) = self.missing(client, &revoked).await? else {
            return Ok(false);
        };
        let sql = "WITH replaced AS (DELETE FROM revocations WHERE revoked = $2)
            INSERT INTO revocations (sequence, revoked, at, expires_at) VALUES ($1, $2, $3, $4)";
        let times = (seconds(extent.at), seconds(extent.expires_at));
        execute(client, sql, &[&sequence, &revoked, &times.0, &times.1]).await?;
        Ok(true)
    }
}

impl Announce {
    /// The extent of the entry to be written; `None` if there is one that says as much.
    async fn missing(
        &self,
        client: &impl GenericClient,
        revoked: &[u8],
    ) -> Result<Option<Extent>, Fault> {
        // Earlier versions wrote several entries for the same thing.
        let sql = "SELECT max(at), max(expires_at) FROM revocations WHERE revoked = $1";
        let row = query_opt(client, sql, &[&revoked]).await?;
        let existing = match &row {
            Some(row) => match (row.try_get(0)?, row.try_get(1)?) {
                (Some(at), Some(expires_at)) => Some(Extent {
                    at: timestamp(at),
                    expires_at: timestamp(expires_at),
                }),
                _ => None,
            },
            None => None,
        };
        Ok(self.extent.after(existing, &self.revoked))
    }
}

/// Whether anything that a token depends on is revoked.
pub(super) struct IsRevoked(pub(super) TokenReference);

impl Operation for IsRevoked {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        let Self(token) = self;
        let sql = "SELECT 1 FROM revocations
            WHERE revoked = ANY($1) OR (revoked = ANY($2) AND at >= $3) LIMIT 1";
        let encoded = |all: &[Revoked]| -> Result<Vec<Vec<u8>>, RowError> {
            all.iter().map(encode_bare).collect()
        };
        let ended_by = encoded(&token.ended_by())?;
        let up_to_a_time = encoded(&token.ended_up_to_a_time_by())?;
        let issued_at = seconds(token.issued_at);
        let found = query_opt(client, sql, &[&ended_by, &up_to_a_time, &issued_at]).await?;
        Ok(found.is_some())
    }
}

/// Identity and position of the feed.
pub(super) struct State;

impl Operation for State {
    type Outcome = FeedState;

    async fn run(&self, client: &impl GenericClient) -> Result<FeedState, Fault> {
        let sql =
            "SELECT identity, value FROM feed, counters WHERE counters.name = 'last_revocation'";
        let missing = || RowError("the feed has no identity".into());
        let row = query_opt(client, sql, &[]).await?.ok_or_else(missing)?;
        let identity: &[u8] = row.try_get(0)?;
        Ok(FeedState {
            feed: FeedId::from_bytes(identity.try_into().map_err(|_| missing())?),
            last: unsigned(row.try_get(1)?),
        })
    }
}

/// Gives the feed another identity.
pub(super) struct Renew(pub(super) FeedId);

impl Operation for Renew {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let identity = self.0.as_bytes().as_slice();
        execute(client, "UPDATE feed SET identity = $1", &[&identity]).await?;
        Ok(())
    }
}

/// Gives the feed an identity, unless it has one.
pub(super) struct Identify(pub(super) FeedId);

impl Operation for Identify {
    type Outcome = ();

    async fn run(&self, client: &impl GenericClient) -> Result<(), Fault> {
        let sql = "INSERT INTO feed (name, identity) VALUES ('revocations', $1) ON CONFLICT (name) DO NOTHING";
        let identity = self.0.as_bytes().as_slice();
        execute(client, sql, &[&identity]).await?;
        Ok(())
    }
}

/// Notes the lifetime of the tokens that this process issues, at its start (`now` is `None`) or later; the answer is what
/// the database remembers.
pub(super) struct NoteLifetime {
    pub(super) configured: u64,
    pub(super) now: Option<Timestamp>,
}

impl Operation for NoteLifetime {
    type Outcome = TokenLifetime;

    async fn run(&self, client: &impl GenericClient) -> Result<TokenLifetime, Fault> {
        let remembered = TokenLifetime {
            longest: counter(client, "token_lifetime").await?,
            until: counter(client, "token_lifetime_until").await?,
        };
        let next = match self.now {
            None => remembered.opened(self.configured),
            Some(now) => remembered.at(self.configured, now),
        };
        if next != remembered {
            let sql = "UPDATE counters SET value = CASE name WHEN 'token_lifetime' THEN $1::BIGINT ELSE $2::BIGINT END
                WHERE name IN ('token_lifetime', 'token_lifetime_until')";
            let (longest, until) = (number(next.longest), number(next.until));
            execute(client, sql, &[&longest, &until]).await?;
        }
        Ok(next)
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
        let since = number(self.since);
        let entries = query(client, sql, &[&since, &rows(self.limit)]).await?;
        entries
            .iter()
            .map(|row| {
                Ok(Revocation {
                    sequence: unsigned(row.try_get(0)?),
                    revoked: decode_bare(row.try_get(1)?)?,
                    at: timestamp(row.try_get(2)?),
                    expires_at: timestamp(row.try_get(3)?),
                })
            })
            .collect()
    }
}
