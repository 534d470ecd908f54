//! What users sign in with, and what ends when it changes (D-35).

use redb::{ReadTransaction, ReadableTable as _};

use super::fault::Fault;
use super::tables::{CREDENTIALS_KEY, SECOND_FACTORS, Tables, USERS, decode, decode_json};
use domain::{Credentials, CredentialsVersion, User, Username};

/// What this user signs in with.
pub(super) fn get(
    transaction: &ReadTransaction,
    username: &Username,
) -> Result<Option<Credentials>, Fault> {
    let key = username.as_str();
    let Some(user) = transaction.open_table(USERS)?.get(key)? else {
        return Ok(None);
    };
    let own = match transaction.open_table(SECOND_FACTORS)?.get(key)? {
        Some(row) => Some(decode(row.value())?),
        None => None,
    };
    Ok(Credentials::of(decode_json(user.value())?, own))
}

/// The user with this name.
pub(super) fn user(tables: &mut Tables<'_>, username: &Username) -> Result<Option<User>, Fault> {
    match tables.users.open()?.get(username.as_str())? {
        Some(row) => decode_json(row.value()).map(Some),
        None => Ok(None),
    }
}

/// Whether the user still has credentials of this version.
pub(super) fn are_current(
    tables: &mut Tables<'_>,
    username: &Username,
    version: CredentialsVersion,
) -> Result<bool, Fault> {
    Ok(user(tables, username)?.is_some_and(|user| user.still_has(version)))
}

/// A version that no credentials have had.
pub(super) fn next_version(tables: &mut Tables<'_>) -> Result<CredentialsVersion, Fault> {
    let meta = tables.meta.open()?;
    let last = meta.get(CREDENTIALS_KEY)?.map_or(0, |last| last.value());
    meta.insert(CREDENTIALS_KEY, last + 1)?;
    Ok(CredentialsVersion::new(last + 1))
}
