//! The feed of revocations to the gateways. Entries get their [positions] after their commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::audit;
use super::fault::Fault;
use super::operation::{Connection, Isolation, traced};
use super::positions::{self, now};
use super::value::{number, rows, seconds, timestamp, unsigned};
use crate::row::{RowError, decode_bare, encode_bare};
use crate::token_lifetime::TokenLifetime;
use crate::{RevocationStore, StoreError};
use domain::clock::Timestamp;
use domain::{AuditEvent, Extent, FeedId, FeedState, GrantId, Revocation, Revoked, TokenReference};

/// How long a committed entry may wait while other replicas give positions. After that, the feed fails: a page without the
/// entry would tell gateways that they know all revocations.
const POSITIONS_WITHIN: Duration = Duration::from_secs(5);

#[async_trait]
impl RevocationStore for PostgresStore {
    async fn announce(
        &self,
        revoked: Revoked,
        extent: Extent,
        audit: Arc<[AuditEvent]>,
    ) -> Result<bool, StoreError> {
        if audit.is_empty() && !revoked.is_up_to_a_time() {
            let ending = Ending {
                revoked,
                grant_id: None,
                extent,
            };
            return self.end(ending).await;
        }
        self.transaction(async move |client| {
            let is_new = announce(client, &revoked, extent).await?;
            audit::append_if(client, is_new, &audit).await
        })
        .await
    }

    async fn is_revoked(&self, token: TokenReference) -> Result<bool, StoreError> {
        self.knows_layout()?;
        let look_up = |tokens: Vec<TokenReference>| {
            let tokens: Arc<[TokenReference]> = tokens.into();
            traced(
                self.pool.clone(),
                Isolation::Statement,
                async move |client| are_revoked(client, &tokens).await,
            )
        };
        self.look_ups.run(token, look_up).await
    }

    fn longest_token(&self) -> Duration {
        Duration::from_secs(self.longest_token.load(Ordering::Acquire))
    }

    async fn feed_state(&self) -> Result<FeedState, StoreError> {
        self.statement(async move |client| {
            let sql = concat!(
                "SELECT identity, value, (SELECT ",
                now!(),
                " - min(waits_since) FROM revocations WHERE waits_since IS NOT NULL)
                FROM feed, counters WHERE counters.name = 'last_revocation'"
            );
            let missing = || RowError("the feed has no identity".into());
            let row = client.query_opt(sql, &[]).await?.ok_or_else(missing)?;
            let identity: &[u8] = row.try_get(0)?;
            let feed = FeedId::from_bytes(identity.try_into().map_err(|_| missing())?);
            let last = unsigned(row.try_get(1)?);
            let waited: Option<i64> = row.try_get(2)?;
            let Some(waited) = waited.map(unsigned).map(Duration::from_micros) else {
                return Ok(FeedState { feed, last });
            };
            match positions::give(client).await? {
                Some(last) => Ok(FeedState { feed, last }),
                None if waited > POSITIONS_WITHIN => Err(Fault::PositionsMissing),
                None => Ok(FeedState { feed, last }),
            }
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
    /// Records the lifetime of the tokens that this process issues, at its start (`times` is `None`) or later.
    pub(super) async fn note_lifetime(
        &self,
        times: Option<(Timestamp, Timestamp)>,
    ) -> Result<(), StoreError> {
        let configured = self.configured_lifetime;
        let noted = self.transaction(async move |client| {
            let remembered = TokenLifetime {
                longest: counter(client, "token_lifetime").await?,
                until: counter(client, "token_lifetime_until").await?,
            };
            let next = match times {
                None => remembered.opened(configured),
                Some((due, now)) => remembered.at(configured, due, now),
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

/// A revocation that needs no entry in the audit log: a repetition adds nothing.
pub(super) struct Ending {
    /// A grant or a token.
    pub(super) revoked: Revoked,
    /// The live grant that ends.
    pub(super) grant_id: Option<GrantId>,
    pub(super) extent: Extent,
}

impl PostgresStore {
    /// Ends a grant, or announces the end of a token. Returns `false` if there is no such live grant, or if an existing
    /// entry already covers the token.
    pub(super) async fn end(&self, ending: Ending) -> Result<bool, StoreError> {
        self.knows_layout()?;
        let end = |endings: Vec<Ending>| {
            let endings: Arc<[Ending]> = endings.into();
            traced(
                self.pool.clone(),
                Isolation::Statement,
                async move |client| end_together(client, &endings).await,
            )
        };
        self.endings.run(ending, end).await
    }
}

/// Ends grants, and writes their entries and those of tokens, in one statement. Of several operations for the same subject,
/// the first one takes effect.
async fn end_together(client: &Connection<'_>, endings: &[Ending]) -> Result<Vec<bool>, Fault> {
    // Sorted by subject, so that transactions lock the subjects in the same order.
    let mut first = BTreeMap::new();
    for (index, ending) in endings.iter().enumerate() {
        let key = encode_bare(&ending.revoked)?;
        first.entry(key).or_insert((index, ending));
    }
    let (mut keys, mut places, mut grants) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ats, mut expiries) = (Vec::new(), Vec::new());
    for (key, (index, ending)) in &first {
        keys.push(key.as_slice());
        places.push(rows(*index));
        grants.push(ending.grant_id.as_ref().map(|id| id.as_bytes().as_slice()));
        ats.push(seconds(ending.extent.at));
        expiries.push(seconds(ending.extent.expires_at));
    }
    let sql = concat!(
        "WITH new AS (
            SELECT * FROM unnest($1::BYTEA[], $2::BIGINT[], $3::BYTEA[], $4::BIGINT[], $5::BIGINT[])
                AS new (revoked, place, grant_id, at, expires_at)
        ), ended AS (
            UPDATE grants SET revoked_at = new.at FROM new
            WHERE grants.grant_id = new.grant_id AND grants.revoked_at IS NULL RETURNING grants.grant_id
        ), announced AS (
            INSERT INTO revocations AS held (revoked, at, expires_at, waits_since)
            SELECT revoked, at, expires_at, ",
        now!(),
        " FROM new WHERE grant_id IS NULL OR grant_id IN (SELECT grant_id FROM ended) ORDER BY revoked
            ON CONFLICT (revoked) DO UPDATE SET at = greatest(held.at, excluded.at),
                expires_at = excluded.expires_at, waits_since = excluded.waits_since
            WHERE held.expires_at < excluded.expires_at
            RETURNING revoked
        )
        SELECT place FROM new WHERE grant_id IN (SELECT grant_id FROM ended)
            OR (grant_id IS NULL AND revoked IN (SELECT revoked FROM announced))"
    );
    let values: [&(dyn ToSql + Sync); 5] = [&keys, &places, &grants, &ats, &expiries];
    named(&client.query(sql, &values).await?, endings.len())
}

/// For each of `number` operations, whether a row names its place.
fn named(found: &[Row], number: usize) -> Result<Vec<bool>, Fault> {
    let places = found.iter().map(|row| row.try_get(0));
    let places: BTreeSet<i64> = places.collect::<Result<_, _>>()?;
    let all = 0..number;
    Ok(all.map(|place| places.contains(&rows(place))).collect())
}

/// Writes an entry, which replaces an earlier entry for the same subject. Until it has its position, the replaced entry's
/// position has the new content, so that readers from the start miss nothing. Returns `false` if the earlier entry already
/// covers the new one.
pub(super) async fn announce(
    client: &Connection<'_>,
    revoked: &Revoked,
    extent: Extent,
) -> Result<bool, Fault> {
    let sql = concat!(
        "INSERT INTO revocations AS held (revoked, at, expires_at, waits_since) VALUES ($1, $2, $3, ",
        now!(),
        ") ON CONFLICT (revoked) DO UPDATE SET at = greatest(held.at, excluded.at),
            expires_at = greatest(held.expires_at, excluded.expires_at), waits_since = excluded.waits_since
        WHERE held.expires_at < excluded.expires_at OR ($4 AND held.at < excluded.at)"
    );
    let (at, expires_at) = (seconds(extent.at), seconds(extent.expires_at));
    let key = encode_bare(revoked)?;
    let values: [&(dyn ToSql + Sync); 4] = [&key, &at, &expires_at, &revoked.is_up_to_a_time()];
    Ok(client.execute(sql, &values).await? > 0)
}

/// For each token, whether an entry of the feed revokes it.
async fn are_revoked(
    client: &Connection<'_>,
    tokens: &[TokenReference],
) -> Result<Vec<bool>, Fault> {
    let (mut places, mut keys, mut from) = (Vec::new(), Vec::new(), Vec::new());
    for (place, token) in tokens.iter().enumerate() {
        let ended_by = token.ended_by().into_iter().map(|revoked| (revoked, 0));
        let issued_at = seconds(token.issued_at);
        let up_to_a_time = token.ended_up_to_a_time_by().into_iter();
        for (revoked, at) in ended_by.chain(up_to_a_time.map(|revoked| (revoked, issued_at))) {
            places.push(rows(place));
            keys.push(encode_bare(&revoked)?);
            from.push(at);
        }
    }
    let sql = "SELECT DISTINCT token.place
        FROM unnest($1::BIGINT[], $2::BYTEA[], $3::BIGINT[]) AS token (place, revoked, issued_at)
        JOIN revocations ON revocations.revoked = token.revoked AND revocations.at >= token.issued_at";
    let found = client.query(sql, &[&places, &keys, &from]).await?;
    named(&found, tokens.len())
}

/// The earliest `iat` that no cut-off of these subjects covers.
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

pub(super) async fn counter(client: &Connection<'_>, name: &str) -> Result<u64, Fault> {
    let sql = "SELECT value FROM counters WHERE name = $1";
    match client.query_opt(sql, &[&name]).await? {
        Some(row) => Ok(unsigned(row.try_get(0)?)),
        None => Ok(0),
    }
}
