//! The registrations file that a start applied last (D-27).

use super::fault::Fault;
use super::operation::Connection;
use domain::{AppliedFile, FileChange};

pub(super) async fn read(client: &Connection<'_>) -> Result<Option<AppliedFile>, Fault> {
    let sql = "SELECT body FROM applied_file WHERE part = 0";
    let row = client.query_opt(sql, &[]).await?;
    let body: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(body.and_then(|body| AppliedFile::from_bytes(&body)))
}

/// Returns `false`, before anything is written, if the store has another file than the change expects.
pub(super) async fn change(client: &Connection<'_>, change: FileChange) -> Result<bool, Fault> {
    if change == FileChange::Keep {
        return Ok(true);
    }
    let Some(after) = change.of(read(client).await?) else {
        return Ok(false);
    };
    match after {
        Some(file) => {
            let sql = "INSERT INTO applied_file (part, body) VALUES (0, $1)
                ON CONFLICT (part) DO UPDATE SET body = excluded.body";
            client.execute(sql, &[&file.to_bytes()]).await?;
        }
        None => {
            client.execute("DELETE FROM applied_file", &[]).await?;
        }
    }
    Ok(true)
}
