//! Grants: rotation and revocation.

use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;
use redb::ReadableTable as _;

use super::RedbStore;
use super::credentials;
use super::fault::{Fault, readable};
use super::revocations::announce;
use super::tables::{GRANTS, GRANTS_BY_CLIENT, GRANTS_BY_USER, Tables, decode, encode};
use crate::{GrantStore, StoreError, room};
use domain::cap;
use domain::clock::Timestamp;
use domain::refresh_rotation::RotationDecision;
use domain::{
    Extent, Grant, GrantFilter, GrantId, RefreshRotation, Revoked, Rotation, RotationRefusal,
};

#[async_trait]
impl GrantStore for RedbStore {
    async fn rotate_refresh(&self, rotation: RefreshRotation) -> Result<Rotation, StoreError> {
        self.write(move |tables, access_token_lifetime| {
            let Some(mut grant) = get(tables, rotation.grant_id)? else {
                return Ok(Rotation::Refused(RotationRefusal::Unknown));
            };
            if grant.client_id == rotation.client_id
                && !credentials::are_current(tables, &grant.username, grant.credentials_version)?
            {
                revoke(tables, grant.grant_id, rotation.now, access_token_lifetime)?;
                return Ok(Rotation::Refused(RotationRefusal::Revoked));
            }
            match grant.rotate(&rotation) {
                RotationDecision::Rotate => {
                    put(tables, &grant)?;
                    Ok(Rotation::Rotated(Box::new(grant)))
                }
                RotationDecision::Repeat(step) => Ok(Rotation::Repeated {
                    grant: Box::new(grant),
                    step,
                }),
                RotationDecision::Revoke => {
                    put(tables, &grant)?;
                    tables.live_grants.open()?.remove(live_key(&grant))?;
                    let revoked = Revoked::Grant(grant.grant_id);
                    let extent = Extent::of(rotation.now, access_token_lifetime);
                    announce(tables, revoked, extent)?;
                    Ok(Rotation::Reused(grant.grant_id))
                }
                RotationDecision::Refuse(refusal) => Ok(Rotation::Refused(refusal)),
            }
        })
        .await
    }

    async fn grant(&self, grant_id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.read(
            |transaction| match transaction.open_table(GRANTS)?.get(grant_id.as_bytes())? {
                Some(row) => decode(row.value()).map(Some),
                None => Ok(None),
            },
        )
    }

    async fn grants(
        &self,
        filter: GrantFilter,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(GRANTS)?;
            let after = after.map(|id| *id.as_bytes());
            // Prefers the user's index, because a user has fewer grants than a client.
            let (index, name) = match (&filter.username, &filter.client_id) {
                (Some(username), _) => (GRANTS_BY_USER, username.as_str()),
                (None, Some(client_id)) => (GRANTS_BY_CLIENT, client_id.as_str()),
                (None, None) => {
                    let lower = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                    return table
                        .range::<&[u8; 16]>((lower, Bound::Unbounded))?
                        .filter_map(|entry| match entry {
                            Ok((_, row)) => readable("grant", decode(row.value())).transpose(),
                            Err(error) => Some(Err(error.into())),
                        })
                        .take(limit)
                        .collect();
                }
            };
            let lower = match &after {
                Some(after) => Bound::Excluded((name, after)),
                None => Bound::Included((name, &FIRST)),
            };
            let mut found = Vec::new();
            for entry in transaction
                .open_table(index)?
                .range::<(&str, &[u8; 16])>((lower, Bound::Included((name, &LAST))))?
            {
                if found.len() >= limit {
                    break;
                }
                let (key, _) = entry?;
                let Some(row) = table.get(key.value().1)? else {
                    continue;
                };
                let Some(grant) = readable::<Grant>("grant", decode(row.value()))? else {
                    continue;
                };
                if filter
                    .client_id
                    .as_ref()
                    .is_none_or(|client_id| *client_id == grant.client_id)
                {
                    found.push(grant);
                }
            }
            Ok(found)
        })
    }

    async fn revoke_grant(&self, grant_id: GrantId, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |tables, lifetime| revoke(tables, grant_id, now, lifetime))
            .await
    }
}

/// Writes a new grant, and revokes grants beyond the cap.
pub(super) fn insert(
    tables: &mut Tables<'_>,
    grant: &Grant,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<(), Fault> {
    make_room(tables, grant, now, access_token_lifetime)?;
    let id = grant.grant_id.as_bytes();
    put(tables, grant)?;
    tables.live_grants.open()?.insert(live_key(grant), ())?;
    tables
        .grants_by_client
        .open()?
        .insert((grant.client_id.as_str(), id), ())?;
    tables
        .grants_by_user
        .open()?
        .insert((grant.username.as_str(), id), ())?;
    Ok(())
}

fn live_key(grant: &Grant) -> (&str, &str, &[u8; 16]) {
    let (user, client) = (grant.username.as_str(), grant.client_id.as_str());
    (user, client, grant.grant_id.as_bytes())
}

/// Revokes grants of the same user and client to make room for a new grant.
fn make_room(
    tables: &mut Tables<'_>,
    grant: &Grant,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<(), Fault> {
    let (user, client) = (grant.username.as_str(), grant.client_id.as_str());
    let ids = tables
        .live_grants
        .open()?
        .range((user, client, &FIRST)..=(user, client, &LAST))?
        .take(cap::GRANTS.looked_at())
        .map(|entry| Ok(GrantId::from_bytes(*entry?.0.value().2)))
        .collect::<Result<Vec<GrantId>, Fault>>()?;
    if ids.len() < cap::GRANTS.most() {
        return Ok(());
    }
    let mut held = Vec::new();
    for id in ids {
        let live = readable("grant", get(tables, id))?.flatten();
        // An unreadable grant cannot be refreshed, so it is revoked first.
        let expires_at = live.map_or(Timestamp::default(), |live| live.current.refresh_expires_at);
        held.push((expires_at, id));
    }
    let over = cap::GRANTS.to_end(held);
    room::note("grant", user, over.len());
    for (_, id) in over {
        revoke(tables, id, now, access_token_lifetime)?;
        let key = (user, client, id.as_bytes());
        tables.live_grants.open()?.remove(key)?;
    }
    Ok(())
}

pub(super) fn remove(tables: &mut Tables<'_>, grant: &Grant) -> Result<(), Fault> {
    let id = grant.grant_id.as_bytes();
    tables.grants.open()?.remove(id)?;
    tables.live_grants.open()?.remove(live_key(grant))?;
    tables
        .grants_by_client
        .open()?
        .remove((grant.client_id.as_str(), id))?;
    tables
        .grants_by_user
        .open()?
        .remove((grant.username.as_str(), id))?;
    Ok(())
}

pub(super) fn get(tables: &mut Tables<'_>, id: GrantId) -> Result<Option<Grant>, Fault> {
    match tables.grants.open()?.get(id.as_bytes())? {
        Some(row) => decode(row.value()).map(Some),
        None => Ok(None),
    }
}

fn put(tables: &mut Tables<'_>, grant: &Grant) -> Result<(), Fault> {
    let row = encode(grant)?;
    tables
        .grants
        .open()?
        .insert(grant.grant_id.as_bytes(), row.as_slice())?;
    Ok(())
}

/// Revokes a grant and adds the feed entry. Returns `false` if there is no such live grant.
pub(super) fn revoke(
    tables: &mut Tables<'_>,
    id: GrantId,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<bool, Fault> {
    let ended = end(tables, id, now)?;
    if ended {
        let extent = Extent::of(now, access_token_lifetime);
        announce(tables, Revoked::Grant(id), extent)?;
    }
    Ok(ended)
}

/// Marks the grant as revoked; another feed entry covers its tokens. Returns `false` if there is no such live grant.
pub(super) fn end(tables: &mut Tables<'_>, id: GrantId, now: Timestamp) -> Result<bool, Fault> {
    // An unreadable grant cannot be refreshed anyway.
    let Some(mut grant) = readable("grant", get(tables, id))?.flatten() else {
        return Ok(false);
    };
    let ended = grant.revoke(now);
    if ended {
        put(tables, &grant)?;
        tables.live_grants.open()?.remove(live_key(&grant))?;
    }
    Ok(ended)
}

pub(super) fn of_client(tables: &mut Tables<'_>, client_id: &str) -> Result<Vec<GrantId>, Fault> {
    ids(tables
        .grants_by_client
        .open()?
        .range((client_id, &FIRST)..=(client_id, &LAST))?)
}

pub(super) fn of_user(tables: &mut Tables<'_>, username: &str) -> Result<Vec<GrantId>, Fault> {
    ids(tables
        .grants_by_user
        .open()?
        .range((username, &FIRST)..=(username, &LAST))?)
}

const FIRST: [u8; 16] = [0; 16];
const LAST: [u8; 16] = [0xff; 16];

fn ids(
    range: redb::Range<'_, (&'static str, &'static [u8; 16]), ()>,
) -> Result<Vec<GrantId>, Fault> {
    range
        .map(|entry| {
            let (key, ()) = entry.map(|(key, value)| (key, value.value()))?;
            Ok(GrantId::from_bytes(*key.value().1))
        })
        .collect()
}
