//! The sequence of changes of clients, users and legacy instances.

use super::fault::Fault;
use super::operation::Connection;
use super::value::{number, rows, unsigned};
use crate::row::RowError;
use domain::registry_change::CHANGES_KEPT;
use domain::{ObjectName, RegistryChanges};

/// Locks the registry for a change, and returns the position in the sequence of changes. Call it first in every change,
/// so that changes run one after the other.
pub(super) async fn turn(client: &Connection<'_>) -> Result<u64, Fault> {
    let sql = "SELECT value FROM counters WHERE name = 'registry_position' FOR UPDATE";
    let row = client.query_opt(sql, &[]).await?;
    let row = row.ok_or_else(|| RowError("the counter of the registry is missing".into()))?;
    Ok(unsigned(row.try_get(0)?))
}

/// Raises the position `last` by 1 for each object, and deletes the oldest changes.
pub(super) async fn note_changes(
    client: &Connection<'_>,
    last: u64,
    touched: impl IntoIterator<Item = ObjectName>,
) -> Result<(), Fault> {
    let keys: Vec<String> = touched.into_iter().map(|object| object.key()).collect();
    let sequences: Vec<i64> = (last + 1..).take(keys.len()).map(number).collect();
    let last = number(last + keys.len() as u64);
    let sql = "INSERT INTO registry_changes (sequence, object)
        SELECT * FROM unnest($1::BIGINT[], $2::TEXT[])";
    client.execute(sql, &[&sequences, &keys]).await?;
    let sql = "DELETE FROM registry_changes WHERE sequence <= $1";
    client
        .execute(sql, &[&(last - number(CHANGES_KEPT))])
        .await?;
    let sql = "UPDATE counters SET value = $1 WHERE name = 'registry_position'";
    client.execute(sql, &[&last]).await?;
    Ok(())
}

pub(super) async fn changes_behind(
    client: &Connection<'_>,
    after: u64,
    limit: usize,
    last: u64,
) -> Result<RegistryChanges, Fault> {
    let sql = "SELECT sequence, object FROM registry_changes
        WHERE sequence > $1 ORDER BY sequence LIMIT $2";
    let found = client.query(sql, &[&number(after), &rows(limit)]).await?;
    let rows = found.iter().map(|row| {
        let object = ObjectName::from_key(row.try_get(1)?)
            .ok_or_else(|| RowError("the name of an object that changed".into()))?;
        Ok::<_, Fault>((unsigned(row.try_get(0)?), object))
    });
    RegistryChanges::behind(after, last, rows)
}
