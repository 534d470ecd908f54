//! Grants: rotation and revocation.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::Runs;
use super::feed::{announce, announce_all};
use crate::codec::{Bytes, Keys, Rest};
use crate::fault::Fault;
use crate::tx::tables::{
    CLIENTS, GRANTS, GRANTS_BY_CLIENT, GRANTS_BY_KEY, GRANTS_OF_USERS, REVOKED, USERS,
    grant_of_client, grant_of_key, grant_of_user, grants_of_user_at, of_client, of_user,
    of_user_at,
};
use crate::tx::{Entries, Entry, Note, Read, Table, Tx, Want};
use crate::{GrantStore, StoreError};
use domain::cap;
use domain::clock::Timestamp;
use domain::grant::MAX_CODE_LIFETIME;
use domain::refresh_rotation::RotationDecision;
use domain::{
    AuditEvent, ClientId, Extent, Grant, GrantFilter, GrantId, IntegrationType, Owner,
    RefreshRotation, Revoked, Rotation, RotationRefusal, Username,
};

#[async_trait]
impl<R: Runs> GrantStore for R {
    async fn rotate_refresh(&self, rotation: RefreshRotation) -> Result<Rotation, StoreError> {
        self.guarded(move |tx| rotate(tx, &rotation)).await
    }

    async fn grant(&self, grant_id: GrantId) -> Result<Option<Grant>, StoreError> {
        self.look_up(move |tx| GRANTS.get(tx, &grant_id)).await
    }

    async fn grants(
        &self,
        filter: GrantFilter,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        self.snapshot(move |tx| list(tx, &filter, after, limit))
            .await
    }

    async fn live_grants(
        &self,
        username: Username,
        from: Option<ClientId>,
        limit: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        self.snapshot(move |tx| list_live(tx, &username, from.as_ref(), limit))
            .await
    }

    async fn revoke_grant(
        &self,
        grant_id: GrantId,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let entries = self.entries(audit).await?;
        self.guarded(move |tx| {
            tx.ahead(|| want_live(&grant_id));
            let ended = revoke(tx, grant_id, now)?;
            if ended {
                tx.append(Entry::Audit(&entries))?;
            }
            Ok(ended)
        })
        .await
    }

    async fn revoke_all(
        &self,
        owner: Owner,
        audit: Arc<[AuditEvent]>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let entries = self.entries(audit).await?;
        self.owned(move |tx| revoke_all(tx, &owner, &entries, now))
            .await
    }
}

fn rotate(tx: &mut impl Tx, rotation: &RefreshRotation) -> Result<Rotation, Fault> {
    tx.ahead(|| {
        let user = rotation.username.as_ref().map(|name| USERS.want(name));
        let grant = GRANTS.want(&rotation.grant_id);
        [grant, CLIENTS.want(&rotation.client_id)]
            .into_iter()
            .chain(user)
    });
    let Some(mut grant) = GRANTS.get(tx, &rotation.grant_id)? else {
        return Ok(Rotation::Refused(RotationRefusal::Unknown));
    };
    tx.ahead(|| [CLIENTS.want(&grant.client_id), USERS.want(&grant.username)]);
    let client = CLIENTS.get(tx, &grant.client_id)?;
    let user = USERS.get(tx, &grant.username)?;
    match grant.rotate(rotation, client.as_ref(), user.as_ref()) {
        RotationDecision::Rotate { step, asked } => {
            GRANTS.put(tx, &grant.grant_id, &grant)?;
            let grant = Box::new(grant);
            Ok(Rotation::Rotated { grant, step, asked })
        }
        RotationDecision::Repeat { step, asked } => {
            let grant = Box::new(grant);
            Ok(Rotation::Repeated { grant, step, asked })
        }
        RotationDecision::Revoke(outcome) => {
            put_revoked(tx, &grant)?;
            let extent = Extent::of(rotation.now, tx.longest_token());
            announce(tx, &Revoked::Grant(grant.grant_id), extent)?;
            Ok(outcome)
        }
        RotationDecision::Refuse(refusal) => Ok(Rotation::Refused(refusal)),
    }
}

/// At most `limit` grants after `after`, sorted by id.
fn list(
    tx: &mut impl Read,
    filter: &GrantFilter,
    after: Option<GrantId>,
    limit: usize,
) -> Result<Vec<Grant>, Fault> {
    match (&filter.username, &filter.client_id) {
        // Prefers the index of users, because a user has fewer grants than a client.
        (Some(username), Some(client_id)) => {
            list_of_user(tx, &of_user_at(username, client_id), after, limit)
        }
        (Some(username), None) => list_of_user(tx, &of_user(username), after, limit),
        (None, Some(client_id)) => list_of_client(tx, client_id, after, limit),
        (None, None) => {
            let keys = match &after {
                Some(after) => Keys::all().behind(after.as_bytes()),
                None => Keys::all(),
            };
            let grants = GRANTS.readable_rows(tx, &keys, limit)?;
            Ok(grants.into_iter().map(|(_, grant)| grant).collect())
        }
    }
}

/// The index is sorted by client first, so this reads all entries with the prefix.
fn list_of_user(
    tx: &mut impl Read,
    prefix: &[u8],
    after: Option<GrantId>,
    limit: usize,
) -> Result<Vec<Grant>, Fault> {
    let ids = GRANTS_OF_USERS.ids(tx, prefix, usize::MAX)?;
    let ids = ids.into_iter().map(GrantId::from_bytes);
    let ids = ids.filter(|id| after.is_none_or(|after| *id > after));
    let sorted: BTreeSet<GrantId> = ids.collect();
    readable_grants(tx, sorted, limit)
}

fn list_of_client(
    tx: &mut impl Read,
    client_id: &ClientId,
    after: Option<GrantId>,
    limit: usize,
) -> Result<Vec<Grant>, Fault> {
    let prefix = of_client(client_id);
    let mut keys = Keys::with(&prefix);
    if let Some(after) = &after {
        keys = keys.behind(&[prefix.as_slice(), after.as_bytes()].concat());
    }
    let mut found = Vec::new();
    while found.len() < limit {
        let wanted = limit - found.len();
        let page = GRANTS_BY_CLIENT.rows(tx, &keys, wanted)?;
        let ids = page.iter().filter_map(|(key, ())| key.last_chunk());
        let ids: Vec<_> = ids.map(|id| GrantId::from_bytes(*id)).collect();
        found.extend(readable_grants(tx, ids, wanted)?);
        match page.last() {
            Some((last, ())) if page.len() == wanted => keys = keys.behind(last),
            _ => break,
        }
    }
    Ok(found)
}

/// The flag in keys of [`GRANTS_OF_USERS`] of live grants.
const LIVE: u8 = 0;

/// Keys that one step of [`list_live`] reads.
const LOOKED_AT: usize = 128;

/// At most `limit` live grants of a user, sorted by client, from the client `from` on.
fn list_live(
    tx: &mut impl Read,
    username: &Username,
    from: Option<&ClientId>,
    limit: usize,
) -> Result<Vec<Grant>, Fault> {
    let mut keys = Keys::with(&of_user(username));
    if let Some(from) = from {
        keys.from = of_user_at(username, from);
    }
    let mut ids = Vec::new();
    while ids.len() < limit {
        let page = GRANTS_OF_USERS.rows(tx, &keys, LOOKED_AT)?;
        for (key, ()) in &page {
            if let Some([LIVE, id @ ..]) = key.last_chunk::<17>() {
                ids.push(GrantId::from_bytes(*id));
            }
        }
        let Some((last, ())) = page.last().filter(|_| page.len() == LOOKED_AT) else {
            break;
        };
        keys = match last.split_last_chunk::<17>() {
            // Past the other revoked grants at this client.
            Some((at_client, [is_revoked, ..])) if *is_revoked != LIVE => {
                let mut next = at_client.to_vec();
                next.push(is_revoked + 1);
                Keys { from: next, ..keys }
            }
            _ => keys.behind(last),
        };
    }
    readable_grants(tx, ids, limit)
}

/// At most `limit` grants with these ids, without unreadable grants.
fn readable_grants(
    tx: &mut impl Read,
    ids: impl IntoIterator<Item = GrantId>,
    limit: usize,
) -> Result<Vec<Grant>, Fault> {
    let mut ids = ids.into_iter();
    let mut found = Vec::new();
    while found.len() < limit {
        let next: Vec<GrantId> = ids.by_ref().take(limit - found.len()).collect();
        if next.is_empty() {
            break;
        }
        tx.ahead(|| next.iter().map(|id| GRANTS.want(id)));
        for id in &next {
            found.extend(GRANTS.readable(tx, id)?);
        }
    }
    Ok(found)
}

/// Revokes all grants and tokens of `owner`, and returns the number of grants.
fn revoke_all(
    tx: &mut impl Tx,
    owner: &Owner,
    audit: &Entries,
    now: Timestamp,
) -> Result<u64, Fault> {
    tx.ahead(|| {
        // A code that is redeemed at the same time has its grant already, or sees the entry of the feed.
        let lock = match owner {
            Owner::User(username) | Owner::UserAtClient { username, .. } => {
                Some(USERS.lock(username))
            }
            Owner::Client(client_id) => Some(CLIENTS.lock(client_id)),
            Owner::Key(_) => None,
        };
        [want_held(owner), REVOKED.want(&owner.revoked())]
            .into_iter()
            .chain(lock)
    });
    let held = held_by(tx, owner)?;
    let (ended, revoked) = end_all(tx, owner, &held, now)?;
    // The entry ends codes too.
    let extent = Extent::of(now, tx.longest_token().max(MAX_CODE_LIFETIME));
    announce_all(tx, &revoked, |_| extent)?;
    tx.append(Entry::Audit(audit))?;
    Ok(ended)
}

/// Writes a new grant, and revokes grants beyond the cap. [`want_room`] announces what this reads.
pub(crate) fn insert(tx: &mut impl Tx, grant: &Grant, now: Timestamp) -> Result<(), Fault> {
    make_room(tx, grant, now)?;
    add(tx, grant)
}

/// Writes the rows of a grant that has none.
pub(crate) fn add(tx: &mut impl Tx, grant: &Grant) -> Result<(), Fault> {
    GRANTS.put(tx, &grant.grant_id, grant)?;
    let is_revoked = grant.revoked_at.is_some();
    GRANTS_OF_USERS.put(tx, &grant_of_user(grant, is_revoked), &())?;
    GRANTS_BY_CLIENT.put(tx, &grant_of_client(grant), &())?;
    for key in grant.bound.thumbprints() {
        GRANTS_BY_KEY.put(tx, &grant_of_key(key.as_bytes(), grant.grant_id), &())?;
    }
    Ok(())
}

pub(crate) fn want_room(username: &Username, client_id: &ClientId) -> Want {
    let prefix = grants_of_user_at(username, client_id, false);
    GRANTS_OF_USERS.want_ids(&prefix, cap::GRANTS.looked_at())
}

/// Revokes grants of the same user and client to make room for a new grant.
fn make_room(tx: &mut impl Tx, grant: &Grant, now: Timestamp) -> Result<(), Fault> {
    let prefix = grants_of_user_at(&grant.username, &grant.client_id, false);
    let ids = GRANTS_OF_USERS.ids(tx, &prefix, cap::GRANTS.looked_at())?;
    if ids.len() < cap::GRANTS.most() {
        return Ok(());
    }
    let ids: Vec<_> = ids.into_iter().map(GrantId::from_bytes).collect();
    tx.ahead(|| ids.iter().map(|id| GRANTS.want(id)));
    let mut held = Vec::new();
    for id in ids {
        let live = GRANTS.readable(tx, &id)?;
        // An unreadable grant cannot be refreshed, so it is revoked first.
        let expires_at =
            live.map_or_else(Timestamp::default, |live| live.current.refresh_expires_at);
        held.push((expires_at, id));
    }
    let over = cap::GRANTS.to_end(held);
    tx.ahead(|| over.iter().flat_map(|(_, id)| want_live(id)));
    tx.note(Note::EndedForRoom {
        kind: "grant",
        user: grant.username.to_string(),
        ended: over.len(),
    });
    for (_, id) in over {
        revoke(tx, id, now)?;
        // An unreadable grant still has this entry.
        GRANTS_OF_USERS.remove(tx, &[prefix.as_slice(), id.as_bytes()].concat())?;
    }
    Ok(())
}

/// Removes the rows of a grant.
pub(crate) fn remove(tx: &mut impl Tx, grant: &Grant) -> Result<(), Fault> {
    GRANTS.remove(tx, &grant.grant_id)?;
    let is_revoked = grant.revoked_at.is_some();
    GRANTS_OF_USERS.remove(tx, &grant_of_user(grant, is_revoked))?;
    GRANTS_BY_CLIENT.remove(tx, &grant_of_client(grant))?;
    for key in grant.bound.thumbprints() {
        GRANTS_BY_KEY.remove(tx, &grant_of_key(key.as_bytes(), grant.grant_id))?;
    }
    Ok(())
}

/// Writes a grant that was live before.
fn put_revoked(tx: &mut impl Tx, grant: &Grant) -> Result<(), Fault> {
    GRANTS.put(tx, &grant.grant_id, grant)?;
    GRANTS_OF_USERS.remove(tx, &grant_of_user(grant, false))?;
    GRANTS_OF_USERS.put(tx, &grant_of_user(grant, true), &())
}

/// What [`revoke`] reads. Refreshes that go on must not overtake it again and again.
pub(crate) fn want_live(id: &GrantId) -> [Want; 2] {
    [GRANTS.lock(id), REVOKED.want(&Revoked::Grant(*id))]
}

/// Revokes a grant and adds the entry of the feed. Returns `false` if there is no such live grant.
pub(crate) fn revoke(tx: &mut impl Tx, id: GrantId, now: Timestamp) -> Result<bool, Fault> {
    let ended = end(tx, id, now)?.is_some();
    if ended {
        let extent = Extent::of(now, tx.longest_token());
        announce(tx, &Revoked::Grant(id), extent)?;
    }
    Ok(ended)
}

/// Marks a grant as revoked; another entry of the feed covers its tokens. Returns the grant, or `None` if there is no such live grant.
fn end(tx: &mut impl Tx, id: GrantId, now: Timestamp) -> Result<Option<Grant>, Fault> {
    // An unreadable grant cannot be refreshed anyway.
    let Some(mut grant) = GRANTS.readable(tx, &id)? else {
        return Ok(None);
    };
    if !grant.revoke(now) {
        return Ok(None);
    }
    put_revoked(tx, &grant)?;
    Ok(Some(grant))
}

/// The index of the grants of an owner, and what its keys begin with.
fn index_of(owner: &Owner) -> (Table<[u8], ()>, Bytes) {
    match owner {
        Owner::User(username) => (GRANTS_OF_USERS, of_user(username)),
        Owner::UserAtClient {
            username,
            client_id,
        } => {
            let live = grants_of_user_at(username, client_id, false);
            (GRANTS_OF_USERS, live)
        }
        Owner::Client(client_id) => (GRANTS_BY_CLIENT, of_client(client_id)),
        Owner::Key(key) => (GRANTS_BY_KEY, key.as_bytes().to_vec()),
    }
}

/// What [`held_by`] reads first.
pub(crate) fn want_held(owner: &Owner) -> Want {
    let (index, prefix) = index_of(owner);
    index.want_ids(&prefix, usize::MAX)
}

/// The grants of an owner; of a user's, only the live ones. Announces what [`end_all`] reads of them, and locks them against
/// refreshes that go on.
pub(crate) fn held_by(tx: &mut impl Read, owner: &Owner) -> Result<Vec<GrantId>, Fault> {
    let (index, prefix) = index_of(owner);
    let (mut ids, mut clients) = (Vec::new(), Vec::new());
    if let Owner::User(_) = owner {
        for (key, ()) in index.rows(tx, &Keys::with(&prefix), usize::MAX)? {
            let mut parts = Rest(&key);
            let (_, client) = (parts.text()?, parts.text()?);
            if parts.byte()? == LIVE {
                ids.push(GrantId::from_bytes(*parts.array()?));
                clients.extend(ClientId::parse(&client));
            }
        }
        clients.dedup();
    } else {
        let all = index.ids(tx, &prefix, usize::MAX)?;
        ids.extend(all.into_iter().map(GrantId::from_bytes));
        if let Owner::UserAtClient { client_id, .. } = owner {
            clients.push(client_id.clone());
        }
    }
    tx.ahead(|| {
        let grants = ids.iter().map(|id| GRANTS.lock(id));
        grants.chain(clients.iter().map(|id| CLIENTS.want(id)))
    });
    Ok(ids)
}

/// Marks the grants `held` [by](held_by) `owner` as revoked. Returns their number, and the entries for the feed: of the grants whose
/// tokens do not name the owner, and of the owner.
pub(crate) fn end_all(
    tx: &mut impl Tx,
    owner: &Owner,
    held: &[GrantId],
    now: Timestamp,
) -> Result<(u64, Vec<Revoked>), Fault> {
    // Tokens of the legacy flow are never bound.
    let legacy_tokens_name_the_owner = matches!(owner, Owner::Client(_) | Owner::Key(_));
    let (mut ended, mut revoked) = (0, Vec::new());
    for id in held {
        if let Some(grant) = end(tx, *id, now)? {
            ended += 1;
            if !legacy_tokens_name_the_owner && is_legacy(tx, &grant)? {
                revoked.push(Revoked::Grant(*id));
            }
        }
    }
    revoked.push(owner.revoked());
    Ok((ended, revoked))
}

/// Marks each grant for which `ends` is true as revoked. Returns the entries for the feed.
pub(crate) fn end_where(
    tx: &mut impl Tx,
    held: &[GrantId],
    now: Timestamp,
    ends: impl Fn(&Grant) -> bool,
) -> Result<Vec<Revoked>, Fault> {
    let mut revoked = Vec::new();
    for id in held {
        let grant = GRANTS.readable(tx, id)?;
        if let Some(mut grant) = grant.filter(|grant| ends(grant))
            && grant.revoke(now)
        {
            put_revoked(tx, &grant)?;
            revoked.push(Revoked::Grant(*id));
        }
    }
    Ok(revoked)
}

/// True for a grant of the legacy flow, whose tokens do not contain the username.
fn is_legacy(tx: &mut impl Tx, grant: &Grant) -> Result<bool, Fault> {
    let client = CLIENTS.before(tx, &grant.client_id)?;
    // If the client was removed, its grants and tokens were revoked then.
    Ok(client.may_be(|client| matches!(client.integration, IntegrationType::Legacy { .. })))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::FeedStore as _;
    use crate::codec::Key as _;
    use crate::conformance::{ACCESS, at, client_id, username};
    use crate::memory::MemoryStore;
    use domain::testing::grant;

    /// A grant of ada, whose id ends with the number.
    fn numbered(client: &str, number: usize) -> Grant {
        let number = u128::try_from(number).unwrap();
        Grant {
            grant_id: GrantId::from_bytes(number.to_be_bytes()),
            client_id: client_id(client),
            ..grant("projects", at(0), at(100))
        }
    }

    #[test]
    fn live_grants_are_listed_past_many_others() {
        const MANY: usize = LOOKED_AT + 9;
        let live = (0..MANY).map(|number| numbered("a", number));
        let revoked = (MANY..3 * MANY).map(|number| Grant {
            revoked_at: Some(at(1)),
            ..numbered("b", number)
        });
        let last = numbered("c", 3 * MANY);
        let all: Vec<Grant> = live.chain(revoked).chain([last]).collect();
        let store = MemoryStore::new(ACCESS, at(0));
        let added = store.run(|tx| all.iter().try_for_each(|grant| add(tx, grant)));
        added.unwrap();
        let listed = store.run(|tx| list_live(tx, &username("ada"), None, usize::MAX));
        let expected = all.into_iter().filter(|grant| grant.revoked_at.is_none());
        assert_eq!(listed, Ok(expected.collect()));
    }

    #[test]
    fn an_unreadable_grant_makes_room_first() {
        const MOST: usize = cap::GRANTS.most();
        let store = MemoryStore::new(ACCESS, at(0));
        let made = store.run(|tx| {
            for number in 0..MOST {
                add(tx, &numbered("a", number))?;
            }
            tx.put(GRANTS.name(), &numbered("a", 7).grant_id.bytes(), vec![])
        });
        made.unwrap();
        for number in [MOST, MOST + 1] {
            let inserted = store.run(|tx| insert(tx, &numbered("a", number), at(1)));
            inserted.unwrap();
        }
        let live = grants_of_user_at(&username("ada"), &client_id("a"), false);
        let left = store.run(|tx| GRANTS_OF_USERS.ids::<16>(tx, &live, usize::MAX));
        // The first one would expire as soon as the others do, and has the least id.
        let expected = (1..MOST + 2).filter(|number| *number != 7);
        let expected = expected.map(|number| *numbered("a", number).grant_id.as_bytes());
        assert_eq!(left, Ok(expected.collect()));
    }

    /// Codes that were issued before must not be redeemed, also where access tokens expire sooner.
    #[tokio::test]
    async fn an_entry_for_an_owner_outlives_codes() {
        let store = MemoryStore::new(Duration::from_secs(60), at(0));
        let owner = Owner::Client(client_id("web"));
        let revoked = store.revoke_all(owner, Arc::default(), at(5)).await;
        assert_eq!(revoked, Ok(0));
        let entries = store.revocations_since(0, 2).await.unwrap();
        assert_eq!(entries[0].expires_at, at(5) + MAX_CODE_LIFETIME);
    }
}
