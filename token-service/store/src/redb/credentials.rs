//! What codes, sessions and grants rest on: clients, and credentials of users (D-35).

use redb::ReadableTable as _;

use super::fault::Fault;
use super::tables::{CREDENTIALS_KEY, Tables, counter, found_json};
use domain::{Client, ClientId, CredentialsVersion, User, Username};

pub(super) fn client(
    tables: &mut Tables<'_>,
    client_id: &ClientId,
) -> Result<Option<Client>, Fault> {
    found_json(tables.clients.open()?.get(client_id.as_str())?)
}

pub(super) fn user(tables: &mut Tables<'_>, username: &Username) -> Result<Option<User>, Fault> {
    found_json(tables.users.open()?.get(username.as_str())?)
}

/// True if the user still has credentials of this version.
pub(super) fn are_current(
    tables: &mut Tables<'_>,
    username: &Username,
    version: CredentialsVersion,
) -> Result<bool, Fault> {
    Ok(user(tables, username)?.is_some_and(|user| user.still_has(version)))
}

/// The number of a version that was never used before.
pub(super) fn next_version(tables: &mut Tables<'_>) -> Result<u64, Fault> {
    let meta = tables.meta.open()?;
    let last = counter(&**meta, CREDENTIALS_KEY)?;
    meta.insert(CREDENTIALS_KEY, last + 1)?;
    Ok(last + 1)
}
