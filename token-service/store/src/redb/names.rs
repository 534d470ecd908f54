//! The users whom names identify, without regard to case (D-43).

use redb::ReadTransaction;

use super::fault::Fault;
use super::registry_index;
use super::tables::{REGISTRY_NAMES, USERS, registration};
use domain::registry_index::NamedKind;
use domain::{User, Username};

pub(super) fn registered(
    transaction: &ReadTransaction,
    username: &Username,
) -> Result<Option<String>, Fault> {
    let users = transaction.open_table(USERS)?;
    let folded = username.folded();
    for spelling in [username.as_str(), &folded] {
        if users.get(spelling)?.is_some() {
            return Ok(Some(spelling.to_owned()));
        }
    }
    let names = transaction.open_table(REGISTRY_NAMES)?;
    for name in registry_index::named(&names, NamedKind::Username, &folded, "")? {
        let name = name?;
        // The index keeps the name of a user whose unreadable row was removed.
        if users.get(name.as_str())?.is_some() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

pub(super) fn user(
    transaction: &ReadTransaction,
    username: &Username,
) -> Result<Option<User>, Fault> {
    match registered(transaction, username)? {
        Some(name) => registration(transaction, USERS, &name),
        None => Ok(None),
    }
}
