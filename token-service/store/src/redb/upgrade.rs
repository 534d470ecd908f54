//! Changes to the rows of a file from an earlier version.

use redb::ReadableTable as _;

use super::fault::{Fault, readable};
use super::tables::{Tables, decode, decode_json, encode_json};
use domain::{Grant, User};

/// Up to version 2, the row of a user kept the registered hash of a password next to a stronger hash. This replaces the
/// registered hash by its digest.
pub(super) fn forget_registered_hashes(tables: &mut Tables<'_>) -> Result<(), Fault> {
    let mut users: Vec<User> = Vec::new();
    for entry in tables.users.open()?.iter()? {
        let user: Result<User, Fault> = decode_json(entry?.1.value());
        let with_registered = |user: &User| user.registered_password_digest.is_some();
        users.extend(readable("user", user)?.filter(with_registered));
    }
    for user in users {
        let row = encode_json(&user)?;
        let table = tables.users.open()?;
        table.insert(user.username.as_str(), row.as_slice())?;
    }
    Ok(())
}

/// Fills the table of live grants, which is missing up to version 3. Codes need no such step, because old codes expire
/// within a minute.
pub(super) fn note_live_grants(tables: &mut Tables<'_>) -> Result<(), Fault> {
    let live = tables.live_grants.open()?;
    for entry in tables.grants.open()?.iter()? {
        let Some(grant) = readable::<Grant>("grant", decode(entry?.1.value()))? else {
            continue;
        };
        if grant.revoked_at.is_none() {
            let (user, client) = (grant.username.as_str(), grant.client_id.as_str());
            live.insert((user, client, grant.grant_id.as_bytes()), ())?;
        }
    }
    Ok(())
}
