//! The feed of revocations to the gateways.
//!
//! Sequences come from a counter that the transaction of the entry increments. The row of the counter stays locked
//! until the commit, so entries become visible in the order of their sequences, and a reader never misses an earlier
//! entry. (A database sequence would assign numbers before the commit, and transactions may commit in another order.) A
//! number stays unused if two transactions announce the same revocation at the same time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::audit;
use super::fault::Fault;
use super::operation::Connection;
use super::value::{number, rows, seconds, timestamp, unsigned};
use crate::row::{RowError, decode_bare, encode_bare};
use crate::token_lifetime::TokenLifetime;
use crate::{RevocationStore, StoreError};
use domain::clock::Timestamp;
use domain::{AuditEvent, Extent, FeedId, FeedState, Revocation, Revoked, TokenReference};

#[async_trait]
impl RevocationStore for PostgresStore {
    async fn announce(
        &self,
        revoked: Revoked,
        extent: Extent,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        self.transaction(async move |client| {
            let is_new = announce(client, &revoked, extent).await?;
            audit::append_if(client, is_new, &audit).await
        })
        .await
    }

    async fn is_revoked(&self, token: TokenReference) -> Result<bool, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT 1 FROM revocations
            WHERE revoked = ANY($1) OR (revoked = ANY($2) AND at >= $3) LIMIT 1";
            let encoded = |all: &[Revoked]| -> Result<Vec<Vec<u8>>, RowError> {
                all.iter().map(encode_bare).collect()
            };
            let ended_by = encoded(&token.ended_by())?;
            let up_to_a_time = encoded(&token.ended_up_to_a_time_by())?;
            let issued_at = seconds(token.issued_at);
            let found = client
                .query_opt(sql, &[&ended_by, &up_to_a_time, &issued_at])
                .await?;
            Ok(found.is_some())
        })
        .await
    }

    fn longest_token(&self) -> Duration {
        Duration::from_secs(self.longest_token.load(Ordering::Acquire))
    }

    async fn feed_state(&self) -> Result<FeedState, StoreError> {
        self.statement(async move |client| {
        let sql =
            "SELECT identity, value FROM feed, counters WHERE counters.name = 'last_revocation'";
        let missing = || RowError("the feed has no identity".into());
        let row = client.query_opt(sql, &[]).await?.ok_or_else(missing)?;
        let identity: &[u8] = row.try_get(0)?;
        Ok(FeedState {
            feed: FeedId::from_bytes(identity.try_into().map_err(|_| missing())?),
            last: unsigned(row.try_get(1)?),
        })
        })
        .await
    }

    async fn renew_feed(&self, feed: FeedId, audit: Arc<[AuditEvent]>) -> Result<(), StoreError> {
        self.transaction(async move |client| {
            let identity = feed.as_bytes().as_slice();
            client
                .execute("UPDATE feed SET identity = $1", &[&identity])
                .await?;
            audit::append(client, &audit).await
        })
        .await
    }

    fn feed_changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        None
    }

    async fn revocations_since(
        &self,
        since: u64,
        limit: usize,
    ) -> Result<Vec<Revocation>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT sequence, revoked, at, expires_at FROM revocations
            WHERE sequence > $1 ORDER BY sequence LIMIT $2";
            let since = number(since);
            let entries = client.query(sql, &[&since, &rows(limit)]).await?;
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
        })
        .await
    }
}

impl PostgresStore {
    /// Records the lifetime of the tokens that this process issues, at its start (`now` is `None`) or later.
    pub(super) async fn note_lifetime(&self, now: Option<Timestamp>) -> Result<(), StoreError> {
        let configured = self.configured_lifetime;
        let noted = self.transaction(async move |client| {
            let remembered = TokenLifetime {
                longest: counter(client, "token_lifetime").await?,
                until: counter(client, "token_lifetime_until").await?,
            };
            let next = match now {
                None => remembered.opened(configured),
                Some(now) => remembered.at(configured, now),
            };
            if next != remembered {
                let sql = "UPDATE counters SET value = CASE name WHEN 'token_lifetime' THEN $1::BIGINT ELSE $2::BIGINT END
                    WHERE name IN ('token_lifetime', 'token_lifetime_until')";
                let (longest, until) = (number(next.longest), number(next.until));
                client.execute(sql, &[&longest, &until]).await?;
            }
            Ok(next)
        });
        self.longest_token
            .store(noted.await?.longest, Ordering::Release);
        Ok(())
    }

    /// Sets the identity of the feed if it has none.
    pub(super) async fn identify_feed(&self, fresh: FeedId) -> Result<(), StoreError> {
        self.statement(async move |client| {
            let sql = "INSERT INTO feed (name, identity) VALUES ('revocations', $1) ON CONFLICT (name) DO NOTHING";
            client.execute(sql, &[&fresh.as_bytes().as_slice()]).await?;
            Ok(())
        })
        .await
    }
}

/// Appends an entry, which replaces an earlier entry for the same subject. Returns `false` if the earlier entry already
/// covers it. Call it last in a transaction, because all other revocations wait for it.
pub(super) async fn announce(
    client: &Connection<'_>,
    revoked: &Revoked,
    extent: Extent,
) -> Result<bool, Fault> {
    let key = encode_bare(revoked)?;
    // This check does not wait for other transactions, because repeated revocations are frequent.
    if extent
        .after(existing(client, &key).await?, revoked)
        .is_none()
    {
        return Ok(false);
    }
    // Locks the row of the counter until the commit. From here on no other transaction can announce a revocation.
    let turn =
        "UPDATE counters SET value = value + 1 WHERE name = 'last_revocation' RETURNING value";
    let row = client.query_opt(turn, &[]).await?;
    let row = row.ok_or_else(|| RowError("there is no counter of revocations".into()))?;
    let sequence: i64 = row.try_get(0)?;
    let Some(extent) = extent.after(existing(client, &key).await?, revoked) else {
        return Ok(false);
    };
    // Two statements, because CockroachDB refuses two changes of a table in one. They travel together, so their order
    // does not matter.
    let remove = "DELETE FROM revocations WHERE revoked = $1 AND sequence <> $2";
    let add = "INSERT INTO revocations (sequence, revoked, at, expires_at) VALUES ($1, $2, $3, $4)";
    let (at, expires_at) = (seconds(extent.at), seconds(extent.expires_at));
    let removed: [&(dyn ToSql + Sync); 2] = [&key, &sequence];
    let added: [&(dyn ToSql + Sync); 4] = [&sequence, &key, &at, &expires_at];
    tokio::try_join!(
        client.execute(remove, &removed),
        client.execute(add, &added)
    )?;
    Ok(true)
}

/// The first `iat` that none of the entries up to a time of these covers.
pub(super) async fn tokens_from(
    client: &Connection<'_>,
    ended_by: impl IntoIterator<Item = Revoked>,
) -> Result<Timestamp, Fault> {
    let keys = ended_by.into_iter().map(|revoked| encode_bare(&revoked));
    let keys: Vec<Vec<u8>> = keys.collect::<Result<_, _>>()?;
    let sql = "SELECT max(at) FROM revocations WHERE revoked = ANY($1)";
    let row = client.query_opt(sql, &[&keys]).await?;
    let at = row
        .map(|row| row.try_get::<_, Option<i64>>(0))
        .transpose()?;
    Ok(at
        .flatten()
        .map_or_else(Timestamp::default, |at| timestamp(at).next_second()))
}

async fn existing(client: &Connection<'_>, key: &[u8]) -> Result<Option<Extent>, Fault> {
    // Earlier versions wrote several entries for the same revocation.
    let sql = "SELECT max(at), max(expires_at) FROM revocations WHERE revoked = $1";
    let Some(row) = client.query_opt(sql, &[&key]).await? else {
        return Ok(None);
    };
    Ok(match (row.try_get(0)?, row.try_get(1)?) {
        (Some(at), Some(expires_at)) => Some(Extent {
            at: timestamp(at),
            expires_at: timestamp(expires_at),
        }),
        _ => None,
    })
}

pub(super) async fn counter(client: &Connection<'_>, name: &str) -> Result<u64, Fault> {
    let sql = "SELECT value FROM counters WHERE name = $1";
    match client.query_opt(sql, &[&name]).await? {
        Some(row) => Ok(unsigned(row.try_get(0)?)),
        None => Ok(0),
    }
}
