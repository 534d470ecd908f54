//! What the store remembers of applied files (D-27).

use std::collections::BTreeMap;

use super::fault::Fault;
use super::operation::Connection;
use crate::row::encode_json;
use domain::{AppliedFile, FileChange, RegistryChange};

pub(super) async fn applied_file(client: &Connection<'_>) -> Result<Option<AppliedFile>, Fault> {
    let sql = "SELECT body FROM applied_file ORDER BY part";
    let parts = client.query(sql, &[]).await?;
    let parts = parts.iter().map(|row| Ok(row.try_get(0)?));
    let parts: Vec<Vec<u8>> = parts.collect::<Result<_, Fault>>()?;
    Ok(AppliedFile::from_parts(&parts))
}

/// Returns `false`, before anything is written, if the store has another file than the change expects.
pub(super) async fn change_file(
    client: &Connection<'_>,
    change: &FileChange,
) -> Result<bool, Fault> {
    let after = match change {
        FileChange::Keep => return Ok(true),
        FileChange::Forget => None,
        FileChange::Replace { before, after } => {
            let sql = "SELECT body FROM applied_file WHERE part = 0";
            let header = client.query_opt(sql, &[]).await?;
            let header: Option<Vec<u8>> = header.map(|row| row.try_get(0)).transpose()?;
            let found = header.and_then(|header| AppliedFile::digest_in(&header));
            if found != *before {
                return Ok(false);
            }
            after.as_ref()
        }
    };
    client.execute("DELETE FROM applied_file", &[]).await?;
    let parts = after.into_iter().flat_map(|file| file.parts());
    for (number, part) in (0_i32..).zip(parts) {
        let sql = "INSERT INTO applied_file (part, body) VALUES ($1, $2)";
        client.execute(sql, &[&number, &part]).await?;
    }
    Ok(true)
}

pub(super) async fn change(client: &Connection<'_>, change: &RegistryChange) -> Result<(), Fault> {
    let mut at_start: BTreeMap<String, bool> = BTreeMap::new();
    for object in &change.forget {
        let (key, sql) = (object.key(), "DELETE FROM remembered WHERE object = $1");
        client.execute(sql, &[&key]).await?;
        at_start.insert(key, false);
    }
    for remembered in &change.remember {
        let sql = "INSERT INTO remembered (object, body) VALUES ($1, $2)
                ON CONFLICT (object) DO UPDATE SET body = excluded.body";
        let (key, row) = (remembered.object.key(), encode_json(remembered)?);
        client.execute(sql, &[&key, &row]).await?;
        at_start.insert(key, remembered.start.is_some());
    }
    note_starts(client, at_start).await
}

/// Notes for objects whether the file of a start listed them.
async fn note_starts(
    client: &Connection<'_>,
    at_start: BTreeMap<String, bool>,
) -> Result<(), Fault> {
    let (listed, others): (Vec<_>, Vec<_>) = at_start.into_iter().partition(|(_, listed)| *listed);
    for (sql, objects) in [
        (
            "INSERT INTO remembered_at_start (object) SELECT * FROM unnest($1::TEXT[])
                ON CONFLICT (object) DO NOTHING",
            listed,
        ),
        (
            "DELETE FROM remembered_at_start WHERE object = ANY($1)",
            others,
        ),
    ] {
        if !objects.is_empty() {
            let keys: Vec<String> = objects.into_iter().map(|(key, _)| key).collect();
            client.execute(sql, &[&keys]).await?;
        }
    }
    Ok(())
}
