//! Grants: rotation and revocation.
//!
//! A separate column contains the time of revocation, so that one statement can revoke all grants of a client or user.
//! The rest is a row of bytes. A rotation replaces the bytes if they have not changed since they were read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::fault::{Fault, readable};
use super::operation::{Connection, Isolation, traced};
use super::records::{names_and_values, values};
use super::revocations::{Ending, announce};
use super::value::{rows, seconds, timestamp};
use super::{audit, credentials, registry_index};
use crate::records::{Record, Table};
use crate::row::{RowError, decode, decode_json, encode};
use crate::{GrantStore, RevocationStore as _, StoreError, room};
use domain::cap;
use domain::clock::Timestamp;
use domain::grant::MAX_CODE_LIFETIME;
use domain::refresh_rotation::RotationDecision;
use domain::{
    AuditEvent, Client, ClientId, Extent, Grant, GrantFilter, GrantId, IntegrationType, Owner,
    RefreshRotation, Revoked, Rotation, RotationRefusal, User, Username,
};

/// Maximum attempts of a rotation whose grant changes in the meantime. The loser of a race finds a spent token at its
/// second attempt, so more than two attempts are rare.
const LOOKS: u32 = 10;

#[async_trait]
impl GrantStore for PostgresStore {
    async fn rotate_refresh(&self, rotation: RefreshRotation) -> Result<Rotation, StoreError> {
        for _ in 0..LOOKS {
            let Some(before) = self.stored_grant(rotation.grant_id).await? else {
                return Ok(Rotation::Refused(RotationRefusal::Unknown));
            };
            let mut grant = before.grant;
            match grant.rotate(&rotation, before.client.as_ref(), before.user.as_ref()) {
                RotationDecision::Rotate { step, asked } => {
                    if self.replace(before.body, &grant).await? {
                        let grant = Box::new(grant);
                        return Ok(Rotation::Rotated { grant, step, asked });
                    }
                }
                RotationDecision::Repeat { step, asked } => {
                    let grant = Box::new(grant);
                    return Ok(Rotation::Repeated { grant, step, asked });
                }
                RotationDecision::Revoke(outcome) => {
                    let revoked =
                        self.revoke_grant(rotation.grant_id, Arc::default(), rotation.now);
                    if revoked.await? {
                        return Ok(outcome);
                    }
                }
                RotationDecision::Refuse(refusal) => return Ok(Rotation::Refused(refusal)),
            }
        }
        Err(Fault::Contended.into())
    }

    async fn grant(&self, grant_id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.knows_layout()?;
        let look_up = |ids: Vec<GrantId>| {
            let ids: Arc<[GrantId]> = ids.into();
            traced(
                self.pool.clone(),
                Isolation::Statement,
                async move |client| grants_of(client, &ids).await,
            )
        };
        self.grants.run(grant_id, look_up).await?.transpose()
    }

    async fn grants(
        &self,
        filter: GrantFilter,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        self.statement(async move |client| {
        // Separate statements per combination, so that the plan uses the matching index.
        let sql = match (&filter.client_id, &filter.username) {
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
        let client_id = filter.client_id.as_ref().map(|id| id.as_str());
        let username = filter.username.as_ref().map(|name| name.as_str());
        // The empty id sorts before all other ids.
        let after: &[u8] = after.as_ref().map_or(&[], |id| id.as_bytes());
        let found = client.query(sql,
            &[&after, &client_id, &username, &rows(limit)],
        )
        .await?;
        readable_grants(&found)
        })
        .await
    }

    async fn live_grants(
        &self,
        username: Username,
        from: Option<ClientId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT body, revoked_at FROM grants
                WHERE username = $1 AND client_id >= $2 AND revoked_at IS NULL
                ORDER BY client_id, grant_id LIMIT $3";
            // The empty id sorts before all other ids.
            let from = from.as_ref().map_or("", |id| id.as_str());
            let values: [&(dyn ToSql + Sync); 3] = [&username.as_str(), &from, &rows(limit)];
            readable_grants(&client.query(sql, &values).await?)
        })
        .await
    }

    async fn revoke_grant(
        &self,
        grant_id: GrantId,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let access_token_lifetime = self.longest_token();
        if audit.is_empty() {
            let ending = Ending {
                revoked: Revoked::Grant(grant_id),
                grant_id: Some(grant_id),
                extent: Extent::of(now, access_token_lifetime),
            };
            return self.end(ending).await;
        }
        self.transaction(async move |client| {
            let ended = revoke(client, grant_id, now, access_token_lifetime).await?;
            audit::append_if(client, ended, &audit).await
        })
        .await
    }

    async fn revoke_all(
        &self,
        owner: Owner,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        // The entry ends codes too.
        let extent = Extent::of(now, self.longest_token().max(MAX_CODE_LIFETIME));
        self.transaction(async move |client| {
            if let Owner::UserAtClient { username, .. } = &owner {
                // A code that is redeemed at the same time either has its grant already, or sees the feed entry.
                credentials::user(client, username).await?;
            }
            let (ended, revoked) = end_all(client, &owner, now).await?;
            for revoked in revoked {
                announce(client, &revoked, extent).await?;
            }
            audit::append(client, &audit).await?;
            Ok(ended)
        })
        .await
    }
}

impl PostgresStore {
    async fn stored_grant(&self, id: GrantId) -> Result<Option<Stored>, StoreError> {
        self.statement(async move |client| {
            let sql = "SELECT grants.body, grants.revoked_at, clients.body, users.body FROM grants
                LEFT JOIN clients ON clients.client_id = grants.client_id
                LEFT JOIN users ON users.username = grants.username WHERE grant_id = $1";
            let Some(row) = client.query_opt(sql, &[&id.as_bytes().as_slice()]).await? else {
                return Ok(None);
            };
            Ok(Some(Stored {
                grant: grant(&row)?,
                body: row.try_get(0)?,
                client: joined(&row, 2)?,
                user: joined(&row, 3)?,
            }))
        })
        .await
    }

    /// Replaces the grant that the decision was based on by its next state. Returns `false` if the grant has changed in
    /// the meantime.
    async fn replace(&self, before: Vec<u8>, after: &Grant) -> Result<bool, StoreError> {
        let refresh_over_at = seconds(after.current.refresh_expires_at);
        let access_over_at = seconds(after.access_over_at(self.longest_token()));
        let (id, body) = (after.grant_id, encode(after).map_err(Fault::from)?);
        self.statement(async move |client| {
            let sql = "UPDATE grants SET body = $3, refresh_over_at = $4, access_over_at = $5
                WHERE grant_id = $1 AND body = $2 AND revoked_at IS NULL";
            let id = id.as_bytes().as_slice();
            let values: [&(dyn ToSql + Sync); 5] =
                [&id, &before, &body, &refresh_over_at, &access_over_at];
            Ok(client.execute(sql, &values).await? > 0)
        })
        .await
    }
}

/// The grants with these ids, in the same order.
async fn grants_of(
    client: &Connection<'_>,
    ids: &[GrantId],
) -> Result<Vec<Option<Result<Grant, StoreError>>>, Fault> {
    let keys: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
    let sql = "SELECT body, revoked_at, grant_id FROM grants WHERE grant_id = ANY($1)";
    let mut found = BTreeMap::new();
    for row in client.query(sql, &[&keys]).await? {
        let id: Vec<u8> = row.try_get(2)?;
        found.insert(id, grant(&row).map_err(StoreError::from));
    }
    let of = |id: &GrantId| found.get(id.as_bytes().as_slice()).cloned();
    Ok(ids.iter().map(of).collect())
}

/// Reads a column with the JSON row of a joined table.
fn joined<T: DeserializeOwned>(row: &Row, column: usize) -> Result<Option<T>, Fault> {
    let body: Option<&[u8]> = row.try_get(column)?;
    Ok(body.map(decode_json).transpose()?)
}

/// Reads `body, revoked_at`.
fn grant(row: &Row) -> Result<Grant, Fault> {
    let mut grant: Grant = decode(row.try_get(0)?)?;
    if let Some(at) = row.try_get(1)? {
        grant.revoke(timestamp(at));
    }
    Ok(grant)
}

/// The statement that inserts the row of a grant and selects the live grants of its user and client, with a common table
/// expression before. One statement, because each statement takes a round trip. It sees the grants from before the new one; the
/// row of the new one has no time.
fn new_grant(before: &str) -> String {
    let (names, values) = names_and_values(Table::Grants);
    format!(
        "WITH {before} new AS (
            INSERT INTO grants ({names}) VALUES ({values}) ON CONFLICT (grant_id) DO NOTHING RETURNING grant_id
        )
        SELECT NULL::BIGINT, grant_id FROM new
        UNION ALL
        (SELECT refresh_over_at, grant_id FROM grants
        WHERE username = $3 AND client_id = $2 AND revoked_at IS NULL ORDER BY grant_id LIMIT $10)"
    )
}

/// A used code keeps its row.
const CODE_IS_USED: &str = "used AS (
    UPDATE codes SET grant_id = $1, expires_at = $12, body = $13 WHERE code = $11
),";

/// What the row of a used legacy code becomes.
pub(super) struct UsedUp<'a> {
    pub(super) code: &'a [u8],
    /// In seconds since 1970.
    pub(super) forgotten_at: i64,
    pub(super) body: &'a [u8],
}

/// Writes the new grant of a code and what becomes of its row, if the code has a row, and revokes grants beyond the cap.
/// Returns `false`, and writes nothing, if the grant exists.
pub(super) async fn insert(
    client: &Connection<'_>,
    grant: &Grant,
    used: Option<UsedUp<'_>>,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<bool, Fault> {
    let row = Record::of_grant(grant, encode(grant)?, access_token_lifetime);
    let most = rows(cap::GRANTS.looked_at());
    let mut values = values(Table::Grants, &row);
    values.push(&most);
    let found = match &used {
        None => client.query(&new_grant(""), &values).await?,
        Some(used) => {
            values.extend::<[&(dyn ToSql + Sync); 3]>([&used.code, &used.forgotten_at, &used.body]);
            client.query(&new_grant(CODE_IS_USED), &values).await?
        }
    };
    let mut is_new = false;
    let mut held = Vec::new();
    for row in found {
        let id = <[u8; 16]>::try_from(row.try_get::<_, &[u8]>(1)?)
            .map_err(|_| RowError("a grant id has 16 bytes".into()))?;
        match row.try_get(0)? {
            Some(expires_at) => held.push((timestamp(expires_at), GrantId::from_bytes(id))),
            None => is_new = true,
        }
    }
    if !is_new {
        return Ok(false);
    }
    let over = cap::GRANTS.to_end(held);
    room::note("grant", grant.username.as_str(), over.len());
    // Revokes all rows before the first feed entry, so that all transactions use the same order.
    let mut ended = Vec::new();
    for (_, id) in over {
        if end(client, id, now).await? {
            ended.push(id);
        }
    }
    for id in ended {
        let extent = Extent::of(now, access_token_lifetime);
        announce(client, &Revoked::Grant(id), extent).await?;
    }
    Ok(true)
}

/// A grant, its row as it was read, and its client and user. A change of the client or user that ends the grant revokes the
/// grant in the same transaction, so replacing the row needs no second check.
struct Stored {
    grant: Grant,
    body: Vec<u8>,
    client: Option<Client>,
    user: Option<User>,
}

pub(super) async fn exists(client: &Connection<'_>, id: GrantId) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM grants WHERE grant_id = $1";
    let found = client.query_opt(sql, &[&id.as_bytes().as_slice()]).await?;
    Ok(found.is_some())
}

/// Revokes a grant and adds the feed entry. Returns `false` if there is no such live grant.
pub(super) async fn revoke(
    client: &Connection<'_>,
    id: GrantId,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<bool, Fault> {
    let ended = end(client, id, now).await?;
    if ended {
        let extent = Extent::of(now, access_token_lifetime);
        announce(client, &Revoked::Grant(id), extent).await?;
    }
    Ok(ended)
}

/// Marks the grant as revoked; the feed entry follows in the same transaction. Returns `false` if there is no such live
/// grant.
async fn end(client: &Connection<'_>, id: GrantId, now: Timestamp) -> Result<bool, Fault> {
    let sql = "UPDATE grants SET revoked_at = $2 WHERE grant_id = $1 AND revoked_at IS NULL";
    let id = id.as_bytes().as_slice();
    Ok(client.execute(sql, &[&id, &seconds(now)]).await? > 0)
}

fn readable_grants(rows: &[Row]) -> Result<Vec<Grant>, Fault> {
    rows.iter()
        .filter_map(|row| readable("grant", grant(row)).transpose())
        .collect()
}

/// Marks the grants of a user for which `ends` is true as revoked, and returns their entries for the feed.
pub(super) async fn end_where(
    client: &Connection<'_>,
    username: &str,
    now: Timestamp,
    ends: impl Fn(&Grant) -> bool,
) -> Result<Vec<Revoked>, Fault> {
    let sql = "SELECT body, revoked_at FROM grants
        WHERE username = $1 AND revoked_at IS NULL ORDER BY grant_id";
    let live = client.query(sql, &[&username]).await?;
    let mut revoked = Vec::new();
    for grant in readable_grants(&live)? {
        if ends(&grant) && end(client, grant.grant_id, now).await? {
            revoked.push(Revoked::Grant(grant.grant_id));
        }
    }
    Ok(revoked)
}

/// Marks the grants of `owner` as revoked. Returns their number, and the entries for the feed: of the grants whose tokens do
/// not name the owner, and of the owner.
pub(super) async fn end_all(
    client: &Connection<'_>,
    owner: &Owner,
    now: Timestamp,
) -> Result<(u64, Vec<Revoked>), Fault> {
    let (username, client_id) = match owner {
        // Legacy tokens contain the client.
        Owner::Client(client_id) => {
            let sql =
                "UPDATE grants SET revoked_at = $2 WHERE client_id = $1 AND revoked_at IS NULL";
            let values: [&(dyn ToSql + Sync); 2] = [&client_id.as_str(), &seconds(now)];
            let ended = client.execute(sql, &values).await?;
            return Ok((ended, vec![owner.revoked()]));
        }
        // Tokens of the legacy flow are never bound.
        Owner::Key(key) => {
            let sql = "UPDATE grants SET revoked_at = $2
                WHERE (jkt = $1 OR certificate = $1) AND revoked_at IS NULL";
            let values: [&(dyn ToSql + Sync); 2] = [&key.as_bytes().as_slice(), &seconds(now)];
            let ended = client.execute(sql, &values).await?;
            return Ok((ended, vec![owner.revoked()]));
        }
        Owner::User(username) => (username.as_str(), None),
        Owner::UserAtClient {
            username,
            client_id,
        } => (username.as_str(), Some(client_id.as_str())),
    };
    let sql = "UPDATE grants SET revoked_at = $2 WHERE username = $1 AND revoked_at IS NULL
        AND ($3::TEXT IS NULL OR client_id = $3) RETURNING body, revoked_at";
    let values: [&(dyn ToSql + Sync); 3] = [&username, &seconds(now), &client_id];
    let ended = client.query(sql, &values).await?;
    let mut revoked = Vec::new();
    for grant in readable_grants(&ended)? {
        if is_legacy(client, &grant.client_id).await? {
            revoked.push(Revoked::Grant(grant.grant_id));
        }
    }
    revoked.push(owner.revoked());
    Ok((ended.len() as u64, revoked))
}

/// True for a client of the legacy flow, whose tokens do not contain the username.
async fn is_legacy(client: &Connection<'_>, client_id: &ClientId) -> Result<bool, Fault> {
    let client = registry_index::client_before(client, client_id).await?;
    // If the client was removed, its grants and tokens were revoked then.
    Ok(client.may_be(|client| matches!(client.integration, IntegrationType::Legacy { .. })))
}
