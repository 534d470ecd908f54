//! What codes, sessions and grants rest on: clients, and credentials of users (D-35).
//!
//! An operation that depends on a user's credentials locks the user's row from the comparison to the commit. So a
//! change of the credentials either commits before and is seen, or commits afterwards and ends the new code, session or
//! grant. The lock also serializes these operations per user, so that they can be counted. The row of a client is locked
//! too, in a way that these operations share.

use tokio_postgres::types::ToSql;

use super::fault::Fault;
use super::operation::Connection;
use super::value::unsigned;
use crate::row::RowError;
use domain::{Client, ClientId, CredentialsVersion, User, Username};

/// The user with this name. Locks the row against changes and comparisons until this transaction ends.
pub(super) async fn user(
    client: &Connection<'_>,
    username: &Username,
) -> Result<Option<User>, Fault> {
    let sql = "SELECT body FROM users WHERE username = $1 FOR UPDATE";
    client.json(sql, &[&username.as_str()]).await
}

/// The client and the user with these names. Locks the client's row against changes until this transaction ends, and the
/// user's like [`user`]. The client's first, as in a change of the registry.
pub(super) async fn client_and_user(
    client: &Connection<'_>,
    client_id: &ClientId,
    username: &Username,
) -> Result<(Option<Client>, Option<User>), Fault> {
    let sql = "SELECT body FROM clients WHERE client_id = $1 FOR SHARE";
    let client_id: [&(dyn ToSql + Sync); 1] = [&client_id.as_str()];
    tokio::try_join!(client.json(sql, &client_id), user(client, username))
}

/// True if the user still has credentials of this version. Prevents a change until this transaction ends.
pub(super) async fn are_current(
    client: &Connection<'_>,
    username: &Username,
    version: CredentialsVersion,
) -> Result<bool, Fault> {
    let user = user(client, username).await?;
    Ok(user.is_some_and(|user| user.still_has(version)))
}

/// The number of a version that was never used before. Call it before locking rows of users, so that all transactions use the same
/// order.
pub(super) async fn next_version(client: &Connection<'_>) -> Result<u64, Fault> {
    let sql = "INSERT INTO counters (name, value) VALUES ('credentials', 1)
        ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value";
    let row = client.query_opt(sql, &[]).await?;
    let row = row.ok_or_else(|| RowError("the counter of credentials is missing".into()))?;
    Ok(unsigned(row.try_get(0)?))
}
