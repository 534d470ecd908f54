//! What users sign in with (D-35).
//!
//! Whoever begins something that rests on a user's credentials locks the user's row from the comparison to the commit, so
//! that a change of them either comes before and is seen, or comes after and ends what was begun. What one user begins is
//! begun one after the other by that, so that it can be counted.

use super::fault::Fault;
use super::operation::Connection;
use super::value::unsigned;
use crate::row::{RowError, decode_json, encode_json};
use domain::{CredentialsVersion, User, Username};

/// The user with this name. Nobody else compares with the row or changes it before this transaction ends.
pub(super) async fn user(
    client: &Connection<'_>,
    username: &Username,
) -> Result<Option<User>, Fault> {
    let sql = "SELECT body FROM users WHERE username = $1 FOR UPDATE";
    match client.query_opt(sql, &[&username.as_str()]).await? {
        Some(row) => Ok(Some(decode_json(row.try_get(0)?)?)),
        None => Ok(None),
    }
}

/// Whether the user still has credentials of this version; none others before this transaction ends.
pub(super) async fn are_current(
    client: &Connection<'_>,
    username: &Username,
    version: CredentialsVersion,
) -> Result<bool, Fault> {
    let user = user(client, username).await?;
    Ok(user.is_some_and(|user| user.still_has(version)))
}

/// A version that no credentials have had. To be taken before rows of users are locked, in one order for everybody.
pub(super) async fn next_version(client: &Connection<'_>) -> Result<CredentialsVersion, Fault> {
    let sql = "INSERT INTO counters (name, value) VALUES ('credentials', 1)
        ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value";
    let row = client.query_opt(sql, &[]).await?;
    let row = row.ok_or_else(|| RowError("the counter of credentials is missing".into()))?;
    Ok(CredentialsVersion::new(unsigned(row.try_get(0)?)))
}

/// Writes a user's row.
pub(super) async fn put(client: &Connection<'_>, user: &User) -> Result<(), Fault> {
    let sql = "INSERT INTO users (username, body) VALUES ($1, $2)
        ON CONFLICT (username) DO UPDATE SET body = excluded.body";
    client
        .execute(sql, &[&user.username.as_str(), &encode_json(user)?])
        .await?;
    Ok(())
}
