//! Grants, their rotation and their end.
//!
//! When a grant was revoked stands in a column of its own, so that all grants of a client or user end in one
//! statement; the rest is one row of bytes, which a rotation replaces if nobody else did so first.

use std::time::Duration;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::fault::{Fault, readable};
use super::operation::{Operation, execute, query, query_opt};
use super::revocations::Announce;
use super::value::{rows, seconds, timestamp};
use crate::room;
use crate::row::{RowError, decode, decode_json, encode};
use domain::cap;
use domain::clock::Timestamp;
use domain::{Extent, Grant, GrantFilter, GrantId, Revoked, User};

/// Reads `body, revoked_at`.
fn grant(row: &Row) -> Result<Grant, Fault> {
    let mut grant: Grant = decode(row.try_get(0)?)?;
    if let Some(at) = row.try_get(1)? {
        grant.revoke(timestamp(at));
    }
    Ok(grant)
}

/// Keeps a new grant, and revokes those that it leaves no room for. To be the last of its transaction: see [`Announce`].
pub(super) async fn insert(
    client: &impl GenericClient,
    grant: &Grant,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<(), Fault> {
    let over = without_room(client, grant).await?;
    let sql = "INSERT INTO grants
        (grant_id, client_id, username, refresh_over_at, access_over_at, body) VALUES ($1, $2, $3, $4, $5, $6)";
    let id = grant.grant_id.as_bytes().as_slice();
    let (refresh_over_at, access_over_at) = over_at(grant, access_token_lifetime);
    let body = encode(grant)?;
    execute(
        client,
        sql,
        &[
            &id,
            &grant.client_id.as_str(),
            &grant.username.as_str(),
            &refresh_over_at,
            &access_over_at,
            &body,
        ],
    )
    .await?;
    room::note("grant", grant.username.as_str(), over.len());
    // All rows before the first entry of the feed, in the order of everybody else.
    let mut ended = Vec::new();
    for id in over {
        if end(client, id, now).await? {
            ended.push(id);
        }
    }
    for id in ended {
        let entry = Announce {
            revoked: Revoked::Grant(id),
            extent: Extent::of(now, access_token_lifetime),
        };
        entry.run(client).await?;
    }
    Ok(())
}

/// Grants of the same user and client that end so that there is room for one more.
async fn without_room(client: &impl GenericClient, grant: &Grant) -> Result<Vec<GrantId>, Fault> {
    let sql = "SELECT refresh_over_at, grant_id FROM grants
        WHERE username = $1 AND client_id = $2 AND revoked_at IS NULL ORDER BY grant_id LIMIT $3";
    let (user, of) = (grant.username.as_str(), grant.client_id.as_str());
    let limit = rows(cap::GRANTS.looked_at());
    let found = query(client, sql, &[&user, &of, &limit]).await?;
    let held = found.iter().map(|row| {
        let id = <[u8; 16]>::try_from(row.try_get::<_, &[u8]>(1)?)
            .map_err(|_| RowError("a grant id has 16 bytes".into()))?;
        Ok((timestamp(row.try_get(0)?), GrantId::from_bytes(id)))
    });
    let over = cap::GRANTS.to_end(held.collect::<Result<_, Fault>>()?);
    Ok(over.into_iter().map(|(_, id)| id).collect())
}

/// The two times of [`Grant::is_over`].
fn over_at(grant: &Grant, access_token_lifetime: Duration) -> (i64, i64) {
    let current = &grant.current;
    (
        seconds(current.refresh_expires_at),
        seconds(current.issued_at + access_token_lifetime),
    )
}

/// A grant, and its row as it was read.
pub(super) struct Stored {
    pub(super) grant: Grant,
    body: Vec<u8>,
    /// Whether the user still has the credentials that it was made with. A change of them revokes the grant in the same
    /// transaction, so that this need not be looked at again when the row is replaced.
    pub(super) credentials_are_current: bool,
}

/// The grant with this id.
pub(super) struct Get(pub(super) GrantId);

impl Operation for Get {
    type Outcome = Option<Stored>;

    async fn run(&self, client: &impl GenericClient) -> Result<Option<Stored>, Fault> {
        let sql = "SELECT grants.body, grants.revoked_at, users.body FROM grants
            LEFT JOIN users ON users.username = grants.username WHERE grant_id = $1";
        let Some(row) = query_opt(client, sql, &[&self.0.as_bytes().as_slice()]).await? else {
            return Ok(None);
        };
        let grant = grant(&row)?;
        let user: Option<User> = match row.try_get::<_, Option<&[u8]>>(2)? {
            Some(body) => Some(decode_json(body)?),
            None => None,
        };
        Ok(Some(Stored {
            credentials_are_current: user
                .is_some_and(|user| user.still_has(grant.credentials_version)),
            grant,
            body: row.try_get(0)?,
        }))
    }
}

/// Puts a grant's next state in the place of the one that the decision was made on. `false` when somebody else
/// changed it in between.
pub(super) struct Replace<'a> {
    pub(super) before: &'a Stored,
    pub(super) after: &'a Grant,
    pub(super) access_token_lifetime: Duration,
}

impl Operation for Replace<'_> {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        let sql = "UPDATE grants SET body = $3, refresh_over_at = $4, access_over_at = $5
            WHERE grant_id = $1 AND body = $2 AND revoked_at IS NULL";
        let id = self.after.grant_id.as_bytes().as_slice();
        let (before, after) = (&self.before.body, encode(self.after)?);
        let (refresh_over_at, access_over_at) = over_at(self.after, self.access_token_lifetime);
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&id, before, &after, &refresh_over_at, &access_over_at];
        Ok(execute(client, sql, &parameters).await? > 0)
    }
}

/// Ends a grant and tells the edge. `false` when there is no such live grant.
pub(super) struct Revoke {
    pub(super) grant_id: GrantId,
    pub(super) now: Timestamp,
    pub(super) access_token_lifetime: Duration,
}

impl Operation for Revoke {
    type Outcome = bool;

    async fn run(&self, client: &impl GenericClient) -> Result<bool, Fault> {
        let ended = end(client, self.grant_id, self.now).await?;
        if ended {
            let entry = Announce {
                revoked: Revoked::Grant(self.grant_id),
                extent: Extent::of(self.now, self.access_token_lifetime),
            };
            entry.run(client).await?;
        }
        Ok(ended)
    }
}

/// Marks the grant as revoked; the feed entry follows in the same transaction. `false` if there is no such live grant.
pub(super) async fn end(
    client: &impl GenericClient,
    id: GrantId,
    now: Timestamp,
) -> Result<bool, Fault> {
    let sql = "UPDATE grants SET revoked_at = $2 WHERE grant_id = $1 AND revoked_at IS NULL";
    let id = id.as_bytes().as_slice();
    Ok(execute(client, sql, &[&id, &seconds(now)]).await? > 0)
}

/// Grants behind `after`.
pub(super) struct List {
    pub(super) filter: GrantFilter,
    pub(super) after: Option<GrantId>,
    pub(super) limit: usize,
}

impl Operation for List {
    type Outcome = Vec<Grant>;

    async fn run(&self, client: &impl GenericClient) -> Result<Vec<Grant>, Fault> {
        // One text for each combination, so that the plan uses the index of what is asked for.
        let sql = match (&self.filter.client_id, &self.filter.username) {
            (None, None) => {
                "SELECT body, revoked_at FROM grants
                WHERE grant_id > $1 AND $2::TEXT IS NULL AND $3::TEXT IS NULL ORDER BY grant_id LIMIT $4"
            }
            (Some(_), None) => {
                "SELECT body, revoked_at FROM grants
                WHERE grant_id > $1 AND client_id = $2 AND $3::TEXT IS NULL ORDER BY grant_id LIMIT $4"
            }
            (None, Some(_)) => {
                "SELECT body, revoked_at FROM grants
                WHERE grant_id > $1 AND $2::TEXT IS NULL AND username = $3 ORDER BY grant_id LIMIT $4"
            }
            (Some(_), Some(_)) => {
                "SELECT body, revoked_at FROM grants
                WHERE grant_id > $1 AND client_id = $2 AND username = $3 ORDER BY grant_id LIMIT $4"
            }
        };
        let client_id = self.filter.client_id.as_ref().map(|id| id.as_str());
        let username = self.filter.username.as_ref().map(|name| name.as_str());
        // Nothing is shorter than the empty id, which stands before all.
        let after: &[u8] = self.after.as_ref().map_or(&[], |id| id.as_bytes());
        let found = query(
            client,
            sql,
            &[&after, &client_id, &username, &rows(self.limit)],
        )
        .await?;
        readable_grants(&found)
    }
}

fn readable_grants(rows: &[Row]) -> Result<Vec<Grant>, Fault> {
    rows.iter()
        .filter_map(|row| readable("grant", grant(row)).transpose())
        .collect()
}

/// The live grants of a user.
pub(super) async fn live_of_user(
    client: &impl GenericClient,
    username: &str,
) -> Result<Vec<Grant>, Fault> {
    let sql = "SELECT body, revoked_at FROM grants
        WHERE username = $1 AND revoked_at IS NULL ORDER BY grant_id";
    let found = query(client, sql, &[&username]).await?;
    readable_grants(&found)
}

/// Ends all grants of a client; the edge is told otherwise.
pub(super) async fn end_of_client(
    client: &impl GenericClient,
    client_id: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    let sql = "UPDATE grants SET revoked_at = $2 WHERE client_id = $1 AND revoked_at IS NULL";
    execute(client, sql, &[&client_id, &seconds(now)]).await?;
    Ok(())
}

/// Ends all grants of a user; the edge is told otherwise.
pub(super) async fn end_of_user(
    client: &impl GenericClient,
    username: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    let sql = "UPDATE grants SET revoked_at = $2 WHERE username = $1 AND revoked_at IS NULL";
    execute(client, sql, &[&username, &seconds(now)]).await?;
    Ok(())
}
