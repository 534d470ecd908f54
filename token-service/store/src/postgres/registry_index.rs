//! Rows of clients and users, and their index. Every write of such a row goes through this module, which gathers what
//! changes in the index. [`write`] then writes the changes of the transaction with few statements.
//!
//! Transactions that change the index run one after the other: see [`turn`](super::change_log::turn).

use super::fault::Fault;
use super::operation::Connection;
use super::value::unsigned;
use crate::row::{self, encode_json};
use domain::ended_by::Before;
use domain::registry_index::{Counted, CountedKind, Named, NamedKind};
use domain::{Client, ClientId, IndexDifference, User, Username};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

pub(super) async fn client_before(
    client: &Connection<'_>,
    client_id: &ClientId,
) -> Result<Before<Client>, Fault> {
    let sql = "SELECT body FROM clients WHERE client_id = $1";
    let row = client.query_opt(sql, &[&client_id.as_str()]).await?;
    before("client", row.as_ref())
}

/// Writes the row of a client. `before` is the row that it replaces, if that can be read.
pub(super) async fn put_client(
    client: &Connection<'_>,
    index: &mut IndexDifference,
    before: Option<&Client>,
    after: &Client,
) -> Result<(), Fault> {
    let sql = "INSERT INTO clients (client_id, body) VALUES ($1, $2)
        ON CONFLICT (client_id) DO UPDATE SET body = excluded.body";
    client
        .execute(sql, &[&after.client_id.as_str(), &encode_json(after)?])
        .await?;
    index.change_client(before, Some(after));
    Ok(())
}

pub(super) async fn remove_client(
    client: &Connection<'_>,
    index: &mut IndexDifference,
    client_id: &ClientId,
) -> Result<Before<Client>, Fault> {
    let sql = "DELETE FROM clients WHERE client_id = $1 RETURNING body";
    let row = client.query_opt(sql, &[&client_id.as_str()]).await?;
    let removed = before("client", row.as_ref())?;
    index.change_client(removed.known(), None);
    Ok(removed)
}

/// Locks the row until this transaction ends, like [`credentials::user`](super::credentials::user).
pub(super) async fn user_before(
    client: &Connection<'_>,
    username: &Username,
) -> Result<Before<User>, Fault> {
    let sql = "SELECT body FROM users WHERE username = $1 FOR UPDATE";
    let row = client.query_opt(sql, &[&username.as_str()]).await?;
    before("user", row.as_ref())
}

/// Writes the row of a user. `before` is the row that it replaces, if that can be read.
pub(super) async fn put_user(
    client: &Connection<'_>,
    index: &mut IndexDifference,
    before: Option<&User>,
    after: &User,
) -> Result<(), Fault> {
    let sql = "INSERT INTO users (username, body) VALUES ($1, $2)
        ON CONFLICT (username) DO UPDATE SET body = excluded.body";
    client
        .execute(sql, &[&after.username.as_str(), &encode_json(after)?])
        .await?;
    index.change_user(before, Some(after));
    Ok(())
}

/// Replaces the row of one user, and writes the index.
pub(super) async fn replace_user(
    client: &Connection<'_>,
    before: &User,
    after: &User,
) -> Result<(), Fault> {
    let mut index = IndexDifference::new();
    put_user(client, &mut index, Some(before), after).await?;
    write(client, &index).await
}

pub(super) async fn remove_user(
    client: &Connection<'_>,
    index: &mut IndexDifference,
    username: &Username,
) -> Result<Before<User>, Fault> {
    let sql = "DELETE FROM users WHERE username = $1 RETURNING body";
    let row = client.query_opt(sql, &[&username.as_str()]).await?;
    let removed = before("user", row.as_ref())?;
    index.change_user(removed.known(), None);
    Ok(removed)
}

pub(super) fn before<T: DeserializeOwned>(
    what: &'static str,
    row: Option<&Row>,
) -> Result<Before<T>, Fault> {
    let body = row.map(|row| row.try_get(0)).transpose()?;
    Ok(row::before(what, body))
}

/// Rows per statement, so that a statement stays within its time limit.
const ROWS: usize = 10_000;

/// Writes what a transaction changes in the index.
pub(super) async fn write(
    client: &Connection<'_>,
    difference: &IndexDifference,
) -> Result<(), Fault> {
    let counts: Vec<(&Counted, i64)> = difference.counts().collect();
    for part in counts.chunks(ROWS) {
        add(client, part).await?;
    }
    let (added, removed): (Vec<_>, Vec<_>) = difference.names().partition(|(_, there)| *there);
    for (sql, names) in [
        (
            "INSERT INTO registry_names (kind, value, name)
                SELECT * FROM unnest($1::BIGINT[], $2::TEXT[], $3::TEXT[])
                ON CONFLICT (kind, value, name) DO NOTHING",
            added,
        ),
        (
            "DELETE FROM registry_names WHERE (kind, value, name) IN
                (SELECT * FROM unnest($1::BIGINT[], $2::TEXT[], $3::TEXT[]))",
            removed,
        ),
    ] {
        for part in names.chunks(ROWS) {
            let (kinds, values, names) = columns(part.iter().map(|(named, _)| *named));
            client.execute(sql, &[&kinds, &values, &names]).await?;
        }
    }
    Ok(())
}

async fn add(client: &Connection<'_>, counts: &[(&Counted, i64)]) -> Result<(), Fault> {
    let (kinds, values) = keys(counts.iter().map(|(counted, _)| *counted));
    let by: Vec<i64> = counts.iter().map(|(_, by)| *by).collect();
    let sql = "INSERT INTO registry_counts (kind, value, count)
        SELECT * FROM unnest($1::BIGINT[], $2::TEXT[], $3::BIGINT[])
        ON CONFLICT (kind, value) DO UPDATE SET count = registry_counts.count + excluded.count";
    client.execute(sql, &[&kinds, &values, &by]).await?;
    let fallen = counts.iter().filter(|(_, by)| *by < 0);
    let (kinds, values) = keys(fallen.map(|(counted, _)| *counted));
    if !kinds.is_empty() {
        let sql = "DELETE FROM registry_counts WHERE count <= 0 AND (kind, value) IN
            (SELECT * FROM unnest($1::BIGINT[], $2::TEXT[]))";
        client.execute(sql, &[&kinds, &values]).await?;
    }
    Ok(())
}

pub(super) fn keys<'a>(counts: impl Iterator<Item = &'a Counted>) -> (Vec<i64>, Vec<&'a str>) {
    counts
        .map(|counted| (counted.kind as i64, counted.value.as_str()))
        .unzip()
}

/// Values of this kind in any order, and how many objects have each.
pub(super) async fn counted(
    client: &Connection<'_>,
    kind: CountedKind,
) -> Result<Vec<(String, u64)>, Fault> {
    let sql = "SELECT value, count FROM registry_counts WHERE kind = $1";
    let rows = client.query(sql, &[&(kind as i64)]).await?;
    let read = |row: &Row| Ok((row.try_get(0)?, unsigned(row.try_get(1)?)));
    rows.iter().map(read).collect()
}

type Columns<'a> = (Vec<i64>, Vec<&'a str>, Vec<&'a str>);

fn columns<'a>(names: impl Iterator<Item = &'a Named>) -> Columns<'a> {
    let mut columns = Columns::default();
    for Named { kind, value, name } in names {
        columns.0.push(*kind as i64);
        columns.1.push(value);
        columns.2.push(name);
    }
    columns
}

/// True if one of the values has another name too.
pub(super) async fn is_taken(client: &Connection<'_>, values: &[Named]) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM registry_names AS other
        JOIN unnest($1::BIGINT[], $2::TEXT[], $3::TEXT[]) AS own (kind, value, name)
        ON other.kind = own.kind AND other.value = own.value AND other.name <> own.name LIMIT 1";
    for part in values.chunks(ROWS) {
        let (kinds, values, names) = columns(part.iter());
        let found = client.query_opt(sql, &[&kinds, &values, &names]).await?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// At most `limit` names of objects that have the value.
pub(super) async fn named(
    client: &Connection<'_>,
    kind: NamedKind,
    value: &str,
    limit: i64,
) -> Result<Vec<String>, Fault> {
    let sql =
        "SELECT name FROM registry_names WHERE kind = $1 AND value = $2 ORDER BY name LIMIT $3";
    let rows = client.query(sql, &[&(kind as i64), &value, &limit]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
