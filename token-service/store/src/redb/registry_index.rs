//! Rows of clients and users, and their index. Every write of such a row goes through this module, which keeps the index
//! in step.

use std::ops::Bound;

use redb::ReadableTable;

use super::fault::Fault;
use super::recorded::Recorded;
use super::tables::{Tables, encode_json};
use crate::row::before;
use domain::ended_by::Before;
use domain::registry_index::{Counted, CountedKind, Named, NamedKind, identity_value};
use domain::{Client, ClientId, Identity, IndexDifference, User, Username};

pub(super) fn client_before(
    tables: &mut Tables<'_>,
    client_id: &ClientId,
) -> Result<Before<Client>, Fault> {
    let row = tables.clients.open()?.get(client_id.as_str())?;
    let row = row.as_ref().map(|row| row.value());
    Ok(before("client", row))
}

/// Writes the row of a client. `before` is the row that it replaces, if that can be read.
pub(super) fn put_client(
    tables: &mut Tables<'_>,
    before: Option<&Client>,
    client: &Client,
) -> Result<(), Fault> {
    let (key, row) = (client.client_id.as_str(), encode_json(client)?);
    tables.clients.open()?.insert(key, row.as_slice())?;
    tables.index.change_client(before, Some(client));
    Ok(())
}

pub(super) fn remove_client(
    tables: &mut Tables<'_>,
    client_id: &ClientId,
) -> Result<Before<Client>, Fault> {
    let row = tables.clients.open()?.remove(client_id.as_str())?;
    let removed = before("client", row.as_ref().map(|row| row.value()));
    tables.index.change_client(removed.known(), None);
    Ok(removed)
}

pub(super) fn user_before(
    tables: &mut Tables<'_>,
    username: &Username,
) -> Result<Before<User>, Fault> {
    let row = tables.users.open()?.get(username.as_str())?;
    Ok(before("user", row.as_ref().map(|row| row.value())))
}

/// Writes the row of a user. `before` is the row that it replaces, if that can be read.
pub(super) fn put_user(
    tables: &mut Tables<'_>,
    before: Option<&User>,
    user: &User,
) -> Result<(), Fault> {
    let (key, row) = (user.username.as_str(), encode_json(user)?);
    tables.users.open()?.insert(key, row.as_slice())?;
    tables.index.change_user(before, Some(user));
    Ok(())
}

pub(super) fn remove_user(
    tables: &mut Tables<'_>,
    username: &Username,
) -> Result<Before<User>, Fault> {
    let row = tables.users.open()?.remove(username.as_str())?;
    let removed = before("user", row.as_ref().map(|row| row.value()));
    tables.index.change_user(removed.known(), None);
    Ok(removed)
}

type Counts<'txn> = Recorded<'txn, (u8, &'static str), u64>;
type Names<'txn> = Recorded<'txn, (u8, &'static str, &'static str), ()>;

/// Writes what the transaction changes in the index. Call it before the commit.
pub(super) fn write(tables: &mut Tables<'_>) -> Result<(), Fault> {
    if tables.index.is_empty() {
        return Ok(());
    }
    let (counts, names) = (
        tables.registry_counts.open()?,
        tables.registry_names.open()?,
    );
    add(counts, names, &std::mem::take(&mut tables.index))
}

fn add(
    counts: &mut Counts<'_>,
    names: &mut Names<'_>,
    difference: &IndexDifference,
) -> Result<(), Fault> {
    for (counted, by) in difference.counts() {
        let key = counted_key(counted);
        let before = counts.get(key)?.map_or(0, |count| count.value());
        let count = before.saturating_add_signed(by);
        if count == 0 {
            counts.remove(key)?;
        } else {
            counts.insert(key, count)?;
        }
    }
    for (named, is_there) in difference.names() {
        let key = (named.kind as u8, named.value.as_str(), named.name.as_str());
        if is_there {
            names.insert(key, ())?;
        } else {
            names.remove(key)?;
        }
    }
    Ok(())
}

pub(super) const fn counted_key(counted: &Counted) -> (u8, &str) {
    (counted.kind as u8, counted.value.as_str())
}

/// Values of this kind in ascending order, and how many objects have each.
pub(super) fn counted(
    counts: &impl ReadableTable<(u8, &'static str), u64>,
    kind: CountedKind,
) -> Result<impl Iterator<Item = Result<(String, u64), Fault>>, Fault> {
    let kind = kind as u8;
    let rows = counts.range::<(u8, &str)>((kind, "")..(kind + 1, ""))?;
    Ok(rows.map(|entry| {
        let (key, count) = entry?;
        let (_, value) = key.value();
        Ok((value.to_owned(), count.value()))
    }))
}

/// The names after `after` of objects that have the value, in ascending order.
pub(super) fn named<'t>(
    names: &'t impl ReadableTable<(u8, &'static str, &'static str), ()>,
    kind: NamedKind,
    value: &'t str,
    after: &'t str,
) -> Result<impl Iterator<Item = Result<String, Fault>>, Fault> {
    let kind = kind as u8;
    let first = Bound::Excluded((kind, value, after));
    let rows = names.range::<(u8, &str, &str)>((first, Bound::Unbounded))?;
    let names = rows.map(move |entry| {
        let (key, _) = entry?;
        let (found, of, name) = key.value();
        Ok::<_, Fault>(((found, of) == (kind, value)).then(|| name.to_owned()))
    });
    Ok(names.map_while(Result::transpose))
}

/// The names of the users who have the identity: none or one.
pub(super) fn users_of_identity(
    tables: &mut Tables<'_>,
    identity: &Identity,
) -> Result<Vec<String>, Fault> {
    let Some(value) = identity_value(identity) else {
        return Ok(Vec::new());
    };
    // Earlier operations of the transaction count.
    write(tables)?;
    let names = tables.registry_names.open()?;
    named(&**names, NamedKind::Identity, &value, "")?.collect()
}

/// True if one of the values has another name too.
pub(super) fn is_taken(tables: &mut Tables<'_>, values: &[Named]) -> Result<bool, Fault> {
    if values.is_empty() {
        return Ok(false);
    }
    // Earlier operations of the transaction count.
    write(tables)?;
    let names = tables.registry_names.open()?;
    for Named { kind, value, name } in values {
        for other in named(&**names, *kind, value, "")?.take(2) {
            if other? != *name {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Values and names of this kind, in ascending order.
pub(super) fn values(
    names: &impl ReadableTable<(u8, &'static str, &'static str), ()>,
    kind: NamedKind,
) -> Result<impl Iterator<Item = Result<(String, String), Fault>>, Fault> {
    let kind = kind as u8;
    let rows = names.range::<(u8, &str, &str)>((kind, "", "")..(kind + 1, "", ""))?;
    Ok(rows.map(|entry| {
        let (key, _) = entry?;
        let (_, value, name) = key.value();
        Ok((value.to_owned(), name.to_owned()))
    }))
}
