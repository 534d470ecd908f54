//! Grants: rotation and revocation.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use claims::Thumbprint;
use redb::{ReadTransaction, ReadableTable};

use super::RedbStore;
use super::fault::{Fault, readable};
use super::revocations::announce;
use super::tables::{GRANTS, GRANTS_BY_CLIENT, GRANTS_OF_USERS, Tables, decode, encode, found};
use super::{audit, credentials, registry_index};
use crate::{GrantStore, StoreError, room};
use domain::cap;
use domain::clock::Timestamp;
use domain::grant::MAX_CODE_LIFETIME;
use domain::refresh_rotation::RotationDecision;
use domain::{
    AuditEvent, ClientId, Extent, Grant, GrantFilter, GrantId, IntegrationType, Owner,
    RefreshRotation, Revoked, Rotation, RotationRefusal, Username,
};

#[async_trait]
impl GrantStore for RedbStore {
    async fn rotate_refresh(&self, rotation: RefreshRotation) -> Result<Rotation, StoreError> {
        self.write(move |tables, access_token_lifetime| {
            let Some(mut grant) = get(tables, rotation.grant_id)? else {
                return Ok(Rotation::Refused(RotationRefusal::Unknown));
            };
            let client = credentials::client(tables, &grant.client_id)?;
            let user = credentials::user(tables, &grant.username)?;
            match grant.rotate(&rotation, client.as_ref(), user.as_ref()) {
                RotationDecision::Rotate { step, asked } => {
                    put(tables, &grant)?;
                    let grant = Box::new(grant);
                    Ok(Rotation::Rotated { grant, step, asked })
                }
                RotationDecision::Repeat { step, asked } => {
                    let grant = Box::new(grant);
                    Ok(Rotation::Repeated { grant, step, asked })
                }
                RotationDecision::Revoke(outcome) => {
                    put_revoked(tables, &grant)?;
                    let revoked = Revoked::Grant(grant.grant_id);
                    let extent = Extent::of(rotation.now, access_token_lifetime);
                    announce(tables, revoked, extent)?;
                    Ok(outcome)
                }
                RotationDecision::Refuse(refusal) => Ok(Rotation::Refused(refusal)),
            }
        })
        .await
    }

    async fn grant(&self, grant_id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.read(|transaction| found(transaction.open_table(GRANTS)?.get(grant_id.as_bytes())?))
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
            if let Some(username) = &filter.username {
                let ids = of_user_after(transaction, username, filter.client_id.as_ref(), after)?;
                return readable_grants(&table, ids.into_iter().map(Ok), limit);
            }
            if let Some(client_id) = &filter.client_id {
                let name = client_id.as_str();
                let lower = match &after {
                    Some(after) => Bound::Excluded((name, after)),
                    None => Bound::Included((name, &FIRST)),
                };
                let index = transaction.open_table(GRANTS_BY_CLIENT)?;
                let found = index
                    .range::<(&str, &[u8; 16])>((lower, Bound::Included((name, &LAST))))?
                    .map(|entry| Ok(*entry?.0.value().1));
                return readable_grants(&table, found, limit);
            }
            let lower = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            table
                .range::<&[u8; 16]>((lower, Bound::Unbounded))?
                .filter_map(|entry| match entry {
                    Ok((_, row)) => readable("grant", decode(row.value())).transpose(),
                    Err(error) => Some(Err(error.into())),
                })
                .take(limit)
                .collect()
        })
    }

    async fn live_grants(
        &self,
        username: Username,
        from: Option<ClientId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        self.read(|transaction| {
            let index = transaction.open_table(GRANTS_OF_USERS)?;
            let user = username.as_str();
            let next_user = following(user);
            let mut from = from.map_or_else(String::new, String::from);
            let mut ids = Vec::new();
            // One client after the other, past its revoked grants.
            while ids.len() < limit {
                let rest =
                    (user, from.as_str(), false, &FIRST)..(next_user.as_str(), "", false, &FIRST);
                let Some(first) = index.range(rest)?.next() else {
                    break;
                };
                let client = first?.0.value().1.to_owned();
                let (first, last) = (
                    (user, client.as_str(), false, &FIRST),
                    (user, client.as_str(), false, &LAST),
                );
                for entry in index.range(first..=last)?.take(limit - ids.len()) {
                    ids.push(Ok(*entry?.0.value().3));
                }
                from = following(&client);
            }
            readable_grants(&transaction.open_table(GRANTS)?, ids.into_iter(), limit)
        })
    }

    async fn revoke_grant(
        &self,
        grant_id: GrantId,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, lifetime| {
            let ended = revoke(tables, grant_id, now, lifetime)?;
            audit::append_if(tables, ended, &entries)
        })
        .await
    }

    async fn revoke_all(
        &self,
        owner: Owner,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let entries = audit::encoded(audit).await?;
        self.write(move |tables, lifetime| {
            // The entry ends codes too.
            let lifetime = lifetime.max(MAX_CODE_LIFETIME);
            let (ended, revoked) = end_all(tables, &owner, now)?;
            for revoked in revoked {
                announce(tables, revoked, Extent::of(now, lifetime))?;
            }
            audit::append(tables, &entries)?;
            Ok(ended)
        })
        .await
    }
}

/// The ids of a user's grants, for one client or all, that follow `after`, sorted. The index is sorted by client first,
/// so this reads all of them, of which there are few.
fn of_user_after(
    transaction: &ReadTransaction,
    username: &Username,
    client_id: Option<&ClientId>,
    after: Option<[u8; 16]>,
) -> Result<BTreeSet<[u8; 16]>, Fault> {
    let user = username.as_str();
    let from = client_id.map_or("", ClientId::as_str);
    let (next_user, next_client) = match client_id {
        Some(client_id) => (user.to_owned(), following(client_id.as_str())),
        None => (following(user), String::new()),
    };
    let until = (next_user.as_str(), next_client.as_str(), false, &FIRST);
    let mut found = BTreeSet::new();
    for entry in transaction
        .open_table(GRANTS_OF_USERS)?
        .range((user, from, false, &FIRST)..until)?
    {
        let id = *entry?.0.value().3;
        if after.is_none_or(|after| id > after) {
            found.insert(id);
        }
    }
    Ok(found)
}

/// At most `limit` grants with these ids, without unreadable grants.
fn readable_grants(
    table: &impl ReadableTable<&'static [u8; 16], &'static [u8]>,
    ids: impl Iterator<Item = Result<[u8; 16], Fault>>,
    limit: usize,
) -> Result<Vec<Grant>, Fault> {
    let mut found = Vec::new();
    for id in ids {
        if found.len() >= limit {
            break;
        }
        if let Some(row) = table.get(&id?)? {
            found.extend(readable("grant", decode(row.value()))?);
        }
    }
    Ok(found)
}

/// Writes a new grant, and revokes grants beyond the cap.
pub(super) fn insert(
    tables: &mut Tables<'_>,
    grant: &Grant,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<(), Fault> {
    make_room(tables, grant, now, access_token_lifetime)?;
    add(tables, grant)
}

/// Writes the rows of a grant that has none.
pub(super) fn add(tables: &mut Tables<'_>, grant: &Grant) -> Result<(), Fault> {
    put(tables, grant)?;
    let key = key_of_user(grant, grant.revoked_at.is_some());
    tables.grants_of_users.open()?.insert(key, ())?;
    let key = (grant.client_id.as_str(), grant.grant_id.as_bytes());
    tables.grants_by_client.open()?.insert(key, ())?;
    for key in grant.bound.thumbprints() {
        let row = (key.as_bytes(), grant.grant_id.as_bytes());
        tables.grants_by_key.open()?.insert(row, ())?;
    }
    Ok(())
}

pub(super) fn key_of_user(grant: &Grant, is_revoked: bool) -> (&str, &str, bool, &[u8; 16]) {
    let (user, client) = (grant.username.as_str(), grant.client_id.as_str());
    (user, client, is_revoked, grant.grant_id.as_bytes())
}

/// Revokes grants of the same user and client to make room for a new grant.
fn make_room(
    tables: &mut Tables<'_>,
    grant: &Grant,
    now: Timestamp,
    access_token_lifetime: Duration,
) -> Result<(), Fault> {
    let (user, client) = (grant.username.as_str(), grant.client_id.as_str());
    let ids = of_user_at(tables, user, client, cap::GRANTS.looked_at())?;
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
        // Still there if the grant is unreadable.
        let key = (user, client, false, id.as_bytes());
        tables.grants_of_users.open()?.remove(key)?;
    }
    Ok(())
}

pub(super) fn remove(tables: &mut Tables<'_>, grant: &Grant) -> Result<(), Fault> {
    let id = grant.grant_id.as_bytes();
    tables.grants.open()?.remove(id)?;
    let key = key_of_user(grant, grant.revoked_at.is_some());
    tables.grants_of_users.open()?.remove(key)?;
    let by_client = tables.grants_by_client.open()?;
    by_client.remove((grant.client_id.as_str(), id))?;
    for key in grant.bound.thumbprints() {
        tables.grants_by_key.open()?.remove((key.as_bytes(), id))?;
    }
    Ok(())
}

pub(super) fn get(tables: &mut Tables<'_>, id: GrantId) -> Result<Option<Grant>, Fault> {
    found(tables.grants.open()?.get(id.as_bytes())?)
}

pub(super) fn exists(tables: &mut Tables<'_>, id: GrantId) -> Result<bool, Fault> {
    Ok(tables.grants.open()?.get(id.as_bytes())?.is_some())
}

fn put(tables: &mut Tables<'_>, grant: &Grant) -> Result<(), Fault> {
    let row = encode(grant)?;
    let grants = tables.grants.open()?;
    grants.insert(grant.grant_id.as_bytes(), row.as_slice())?;
    Ok(())
}

/// Writes a grant that was live before.
fn put_revoked(tables: &mut Tables<'_>, grant: &Grant) -> Result<(), Fault> {
    put(tables, grant)?;
    let index = tables.grants_of_users.open()?;
    index.remove(key_of_user(grant, false))?;
    index.insert(key_of_user(grant, true), ())?;
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
fn end(tables: &mut Tables<'_>, id: GrantId, now: Timestamp) -> Result<bool, Fault> {
    // An unreadable grant cannot be refreshed anyway.
    let Some(mut grant) = readable("grant", get(tables, id))?.flatten() else {
        return Ok(false);
    };
    let ended = grant.revoke(now);
    if ended {
        put_revoked(tables, &grant)?;
    }
    Ok(ended)
}

/// Marks the grants of `owner` as revoked. Returns their number, and the entries for the feed: of the grants whose tokens do
/// not name the owner, and of the owner.
pub(super) fn end_all(
    tables: &mut Tables<'_>,
    owner: &Owner,
    now: Timestamp,
) -> Result<(u64, Vec<Revoked>), Fault> {
    let ids = match owner {
        Owner::Client(client_id) => of_client(tables, client_id.as_str())?,
        Owner::User(username) => of_user(tables, username.as_str())?,
        Owner::UserAtClient {
            username,
            client_id,
        } => of_user_at(tables, username.as_str(), client_id.as_str(), usize::MAX)?,
        Owner::Key(key) => of_key(tables, key)?,
    };
    // Tokens of the legacy flow are never bound.
    let legacy_tokens_name_the_owner = matches!(owner, Owner::Client(_) | Owner::Key(_));
    let (mut ended, mut revoked) = (0, Vec::new());
    for id in ids {
        if end(tables, id, now)? {
            ended += 1;
            if !legacy_tokens_name_the_owner && is_legacy(tables, id)? {
                revoked.push(Revoked::Grant(id));
            }
        }
    }
    revoked.push(owner.revoked());
    Ok((ended, revoked))
}

/// Marks the grants of a user for which `ends` is true as revoked, and returns their entries for the feed.
pub(super) fn end_where(
    tables: &mut Tables<'_>,
    username: &str,
    now: Timestamp,
    ends: impl Fn(&Grant) -> bool,
) -> Result<Vec<Revoked>, Fault> {
    let mut revoked = Vec::new();
    for id in of_user(tables, username)? {
        let grant = readable("grant", get(tables, id))?.flatten();
        if grant.is_some_and(|grant| ends(&grant)) && end(tables, id, now)? {
            revoked.push(Revoked::Grant(id));
        }
    }
    Ok(revoked)
}

/// True for a grant of the legacy flow, whose tokens do not contain the username.
fn is_legacy(tables: &mut Tables<'_>, grant_id: GrantId) -> Result<bool, Fault> {
    let Some(grant) = get(tables, grant_id)? else {
        return Ok(false);
    };
    let client = registry_index::client_before(tables, &grant.client_id)?;
    // If the client was removed, its grants and tokens were revoked then.
    Ok(client.may_be(|client| matches!(client.integration, IntegrationType::Legacy { .. })))
}

fn of_client(tables: &mut Tables<'_>, client_id: &str) -> Result<Vec<GrantId>, Fault> {
    let found = tables.grants_by_client.open()?;
    let found = found.range((client_id, &FIRST)..=(client_id, &LAST))?;
    found
        .map(|entry| Ok(GrantId::from_bytes(*entry?.0.value().1)))
        .collect()
}

fn of_key(tables: &mut Tables<'_>, key: &Thumbprint) -> Result<Vec<GrantId>, Fault> {
    let key = key.as_bytes();
    let found = tables.grants_by_key.open()?;
    let found = found.range((key, &FIRST)..=(key, &LAST))?;
    found
        .map(|entry| Ok(GrantId::from_bytes(*entry?.0.value().1)))
        .collect()
}

fn of_user(tables: &mut Tables<'_>, username: &str) -> Result<Vec<GrantId>, Fault> {
    let mut live = Vec::new();
    let next = following(username);
    let of_user = (username, "", false, &FIRST)..(next.as_str(), "", false, &FIRST);
    for entry in tables.grants_of_users.open()?.range(of_user)? {
        let key = entry?.0;
        let (_, _, is_revoked, id) = key.value();
        if !is_revoked {
            live.push(GrantId::from_bytes(*id));
        }
    }
    Ok(live)
}

/// At most `limit` live grants of a user at a client.
fn of_user_at(
    tables: &mut Tables<'_>,
    username: &str,
    client_id: &str,
    limit: usize,
) -> Result<Vec<GrantId>, Fault> {
    let (from, to) = (
        (username, client_id, false, &FIRST),
        (username, client_id, false, &LAST),
    );
    let found = tables.grants_of_users.open()?.range(from..=to)?;
    found
        .take(limit)
        .map(|entry| Ok(GrantId::from_bytes(*entry?.0.value().3)))
        .collect()
}

/// The least text that is greater than `text`.
fn following(text: &str) -> String {
    format!("{text}\0")
}

const FIRST: [u8; 16] = [0; 16];
const LAST: [u8; 16] = [0xff; 16];
