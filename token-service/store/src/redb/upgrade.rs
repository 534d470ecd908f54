//! Changes to the rows of a file from an earlier version.

use std::borrow::Cow;

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use super::fault::{Fault, readable};
use super::tables::{LAST_AUDIT_KEY, Tables, decode, decode_json, encode, encode_json};
use super::{audit, grants};
use crate::stored_code::{StoredCode, UsedRow};
use domain::{CodeRecord, Grant, User};

const USED_CODES: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("used_codes");
/// First sequence of a row to the audit entries from this sequence on.
const AUDIT_BY_SEQUENCE: TableDefinition<u64, &[u8]> = TableDefinition::new("audit");
const GRANTS_BY_USER: TableDefinition<(&str, &[u8; 16]), ()> =
    TableDefinition::new("grants_by_user");
const LIVE_GRANTS: TableDefinition<(&str, &str, &[u8; 16]), ()> =
    TableDefinition::new("live_grants");

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

/// Up to version 6, used codes had a table of their own.
pub(super) fn move_used_codes(
    transaction: &WriteTransaction,
    tables: &mut Tables<'_>,
) -> Result<(), Fault> {
    let codes = tables.codes.open()?;
    let mut unused: Vec<([u8; 32], CodeRecord)> = Vec::new();
    for entry in codes.iter()? {
        let (code, row) = entry?;
        let record = readable("code", decode(row.value()))?;
        unused.extend(record.map(|record| (*code.value(), record)));
    }
    for (code, record) in unused {
        let row = encode(&StoredCode::Unused(Cow::Owned(record)))?;
        codes.insert(&code, row.as_slice())?;
    }
    for entry in transaction.open_table(USED_CODES)?.iter()? {
        let (code, row) = entry?;
        let used = readable("used code", UsedRow::read(row.value()).map_err(Fault::from))?;
        if let Some(used) = used {
            let row = encode(&StoredCode::Used(used))?;
            codes.insert(code.value(), row.as_slice())?;
        }
    }
    transaction.delete_table(USED_CODES)?;
    Ok(())
}

/// Up to version 6, [`GRANTS_OF_USERS`](super::tables::GRANTS_OF_USERS) was two tables, of which version 4 added the
/// second.
pub(super) fn index_grants_of_users(
    transaction: &WriteTransaction,
    tables: &mut Tables<'_>,
) -> Result<(), Fault> {
    let index = tables.grants_of_users.open()?;
    for entry in tables.grants.open()?.iter()? {
        let grant = readable::<Grant>("grant", decode(entry?.1.value()))?;
        if let Some(grant) = grant {
            index.insert(grants::key_of_user(&grant, grant.revoked_at.is_some()), ())?;
        }
    }
    transaction.delete_table(GRANTS_BY_USER)?;
    transaction.delete_table(LIVE_GRANTS)?;
    Ok(())
}

/// Up to version 7, rows of the audit log had entries of all kinds, without gaps between their sequences.
pub(super) fn move_audit_log(
    transaction: &WriteTransaction,
    tables: &mut Tables<'_>,
) -> Result<(), Fault> {
    let last = tables.meta.open()?.get(LAST_AUDIT_KEY)?;
    let mut end = last.map_or(0, |last| last.value()) + 1;
    let audit = tables.audit.open()?;
    for row in transaction.open_table(AUDIT_BY_SEQUENCE)?.iter()?.rev() {
        let (first, entries) = row?;
        let first = first.value();
        let count = end.saturating_sub(first);
        audit.insert((audit::MIXED, first), (first, count, entries.value()))?;
        end = first;
    }
    transaction.delete_table(AUDIT_BY_SEQUENCE)?;
    Ok(())
}
