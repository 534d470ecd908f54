//! Rows of clients and users, and their index. Every write of such a row goes through this module, which keeps the index
//! in step.

use crate::codec::{Bytes, Keys, Parts, Rest};
use crate::fault::Fault;
use crate::tx::tables::{self, CLIENTS, REGISTRY_COUNTS, REGISTRY_NAMES, USERS};
use crate::tx::{Read, Tx, Want};
use domain::ended_by::Before;
use domain::registry_index::{Counted, CountedKind, Named, NamedKind, identity_value};
use domain::{Client, ClientId, Identity, IndexDifference, User, Username};

/// Writes the row of a client. `before` is the row that it replaces, if that can be read.
pub(crate) fn put_client(
    tx: &mut impl Tx,
    index: &mut IndexDifference,
    before: Option<&Client>,
    client: &Client,
) -> Result<(), Fault> {
    CLIENTS.put(tx, &client.client_id, client)?;
    index.change_client(before, Some(client));
    Ok(())
}

pub(crate) fn remove_client(
    tx: &mut impl Tx,
    index: &mut IndexDifference,
    client_id: &ClientId,
) -> Result<Before<Client>, Fault> {
    let removed = CLIENTS.before(tx, client_id)?;
    CLIENTS.remove(tx, client_id)?;
    index.change_client(removed.known(), None);
    Ok(removed)
}

/// Writes the row of a user. `before` is the row that it replaces, if that can be read.
pub(crate) fn put_user(
    tx: &mut impl Tx,
    index: &mut IndexDifference,
    before: Option<&User>,
    user: &User,
) -> Result<(), Fault> {
    USERS.put(tx, &user.username, user)?;
    index.change_user(before, Some(user));
    Ok(())
}

pub(crate) fn remove_user(
    tx: &mut impl Tx,
    index: &mut IndexDifference,
    username: &Username,
) -> Result<Before<User>, Fault> {
    let removed = USERS.before(tx, username)?;
    USERS.remove(tx, username)?;
    index.change_user(removed.known(), None);
    Ok(removed)
}

/// Replaces the row of one user, and writes the index.
pub(crate) fn replace_user(tx: &mut impl Tx, before: &User, after: &User) -> Result<(), Fault> {
    let mut index = IndexDifference::new();
    put_user(tx, &mut index, Some(before), after)?;
    write(tx, &index)
}

/// Writes what an operation changes in the index. Once for all its changes, because they share most counts.
pub(crate) fn write(tx: &mut impl Tx, index: &IndexDifference) -> Result<(), Fault> {
    tx.ahead(|| want_counts(index));
    for (counted, by) in index.counts() {
        let key = key_of(counted);
        let count = REGISTRY_COUNTS.get(tx, &*key)?.unwrap_or_default();
        match count.saturating_add_signed(by) {
            0 => REGISTRY_COUNTS.remove(tx, &*key)?,
            count => REGISTRY_COUNTS.put(tx, &*key, &count)?,
        }
    }
    for (Named { kind, value, name }, is_there) in index.names() {
        let key = tables::named(*kind as u8, value, name);
        if is_there {
            REGISTRY_NAMES.put(tx, &*key, &())?;
        } else {
            REGISTRY_NAMES.remove(tx, &*key)?;
        }
    }
    Ok(())
}

/// What [`write`] reads.
pub(crate) fn want_counts(index: &IndexDifference) -> impl Iterator<Item = Want> {
    index.counts().map(|(counted, _)| want_count(counted))
}

fn key_of(counted: &Counted) -> Bytes {
    tables::counted(counted.kind as u8, &counted.value)
}

fn want_count(counted: &Counted) -> Want {
    REGISTRY_COUNTS.want(&*key_of(counted))
}

/// True if an object has one of the values.
pub(crate) fn is_any_counted(tx: &mut impl Read, values: &[Counted]) -> Result<bool, Fault> {
    tx.ahead(|| values.iter().map(want_count));
    for counted in values {
        if REGISTRY_COUNTS.has(tx, &*key_of(counted))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What [`counted`] reads.
pub(crate) fn want_counted(kind: CountedKind) -> Want {
    REGISTRY_COUNTS.want_ids(&[kind as u8], usize::MAX)
}

/// Values of this kind in ascending order, and how many objects have each.
pub(crate) fn counted(tx: &mut impl Read, kind: CountedKind) -> Result<Vec<(String, u64)>, Fault> {
    let rows = REGISTRY_COUNTS.rows(tx, &Keys::with(&[kind as u8]), usize::MAX)?;
    let rows = rows.into_iter().map(|(key, count)| {
        let mut parts = Rest(&key);
        parts.byte()?;
        Ok((parts.last()?.to_owned(), count))
    });
    rows.collect()
}

/// What [`named`] reads.
pub(crate) fn want_named(kind: NamedKind, value: &str, limit: usize) -> Want {
    REGISTRY_NAMES.want_ids(&tables::named(kind as u8, value, ""), limit)
}

/// The names of at most `limit` objects that have the value, in ascending order.
pub(crate) fn named(
    tx: &mut impl Read,
    kind: NamedKind,
    value: &str,
    limit: usize,
) -> Result<Vec<String>, Fault> {
    let keys = Keys::with(&tables::named(kind as u8, value, ""));
    let names = rows(tx, &keys, limit)?.into_iter();
    Ok(names.map(|(_, name)| name).collect())
}

/// At most `limit` values of this kind, each with a name, in ascending order.
pub(crate) fn values(
    tx: &mut impl Read,
    kind: NamedKind,
    limit: usize,
) -> Result<Vec<(String, String)>, Fault> {
    rows(tx, &Keys::with(&Parts::new().byte(kind as u8).end()), limit)
}

fn rows(tx: &mut impl Read, keys: &Keys, limit: usize) -> Result<Vec<(String, String)>, Fault> {
    let rows = REGISTRY_NAMES.rows(tx, keys, limit)?;
    let rows = rows.into_iter().map(|(key, ())| {
        let mut parts = Rest(&key);
        parts.byte()?;
        Ok((parts.text()?.into_owned(), parts.last()?.to_owned()))
    });
    rows.collect()
}

/// More users than have an identity: none or one.
const OF_IDENTITY: usize = 2;

pub(crate) fn users_of_identity(
    tx: &mut impl Read,
    identity: &Identity,
) -> Result<Vec<Username>, Fault> {
    let Some(value) = identity_value(identity) else {
        return Ok(Vec::new());
    };
    let names = named(tx, NamedKind::Identity, &value, OF_IDENTITY)?;
    Ok(names
        .iter()
        .filter_map(|name| Username::parse(name))
        .collect())
}

/// Names of a value that [`is_taken`] reads: that of the object itself may be the first.
const LOOKED_AT: usize = 2;

/// What [`is_taken`] reads.
pub(crate) fn want_untaken(Named { kind, value, .. }: &Named) -> Want {
    want_named(*kind, value, LOOKED_AT)
}

/// True if another object has one of the values too.
pub(crate) fn is_taken(tx: &mut impl Read, values: &[Named]) -> Result<bool, Fault> {
    for Named { kind, value, name } in values {
        let names = named(tx, *kind, value, LOOKED_AT)?;
        if names.iter().any(|other| other != name) {
            return Ok(true);
        }
    }
    Ok(false)
}
