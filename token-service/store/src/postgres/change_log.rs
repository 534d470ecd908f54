//! The sequence of changes of clients, users and legacy instances.

use super::fault::Fault;
use super::operation::Connection;
use super::value::{number, rows, unsigned};
use crate::row::RowError;
use domain::registry_change::CHANGES_KEPT;
use domain::{ObjectName, RegistryChanges, Touched};

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
    touched: &[Touched],
) -> Result<(), Fault> {
    let keys: Vec<String> = touched.iter().map(|touched| touched.object.key()).collect();
    let are_legacy: Vec<bool> = touched.iter().map(|touched| touched.is_legacy).collect();
    let sequences: Vec<i64> = (last + 1..).take(keys.len()).map(number).collect();
    let last = number(last + keys.len() as u64);
    let sql = "INSERT INTO registry_changes (sequence, object, is_legacy)
        SELECT * FROM unnest($1::BIGINT[], $2::TEXT[], $3::BOOLEAN[])";
    client
        .execute(sql, &[&sequences, &keys, &are_legacy])
        .await?;
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
    let sql = "SELECT sequence, object, is_legacy FROM registry_changes
        WHERE sequence > $1 ORDER BY sequence LIMIT $2";
    let found = client.query(sql, &[&number(after), &rows(limit)]).await?;
    let rows = found.iter().map(|row| {
        let object = ObjectName::from_key(row.try_get(1)?)
            .ok_or_else(|| RowError("the name of an object that changed".into()))?;
        let is_legacy = row.try_get(2)?;
        Ok::<_, Fault>((unsigned(row.try_get(0)?), Touched { object, is_legacy }))
    });
    RegistryChanges::behind(after, last, rows)
}
