//! The users whom names identify, without regard to case (D-43).

use super::registry_index;
use crate::fault::Fault;
use crate::tx::tables::USERS;
use crate::tx::{Read, Want};
use domain::registry_index::NamedKind;
use domain::{User, Username};

/// The name itself, and its folded form if that is another.
fn spellings(username: &Username) -> impl Iterator<Item = Username> {
    let folded = username.folded();
    let folded = Username::parse(&folded).filter(|folded| folded != username);
    [username.clone()].into_iter().chain(folded)
}

/// What [`registered`] reads first.
pub(crate) fn wants(username: &Username) -> impl Iterator<Item = Want> {
    let index = registry_index::want_named(NamedKind::Username, &username.folded(), usize::MAX);
    let users = spellings(username).map(|name| USERS.want(&name));
    users.chain([index])
}

/// The registered spelling of a name.
pub(crate) fn registered(
    tx: &mut impl Read,
    username: &Username,
) -> Result<Option<Username>, Fault> {
    let found = all_registered(tx, std::slice::from_ref(username))?;
    Ok(found.into_iter().next())
}

/// The registered spellings of the names that have users, in any order.
pub(crate) fn all_registered(
    tx: &mut impl Read,
    usernames: &[Username],
) -> Result<Vec<Username>, Fault> {
    tx.ahead(|| usernames.iter().flat_map(wants));
    let (mut found, mut indexed) = (Vec::new(), Vec::new());
    for username in usernames {
        match spelled(tx, username)? {
            Some(name) => found.push(name),
            // One user at most, and users whose unreadable rows were removed: the index keeps their names.
            None => indexed.extend(registry_index::named(
                tx,
                NamedKind::Username,
                &username.folded(),
                usize::MAX,
            )?),
        }
    }
    let indexed = indexed.iter().filter_map(|name| Username::parse(name));
    let indexed: Vec<Username> = indexed.collect();
    tx.ahead(|| indexed.iter().map(|name| USERS.want(name)));
    for name in indexed {
        if USERS.has(tx, &name)? {
            found.push(name);
        }
    }
    Ok(found)
}

/// The name or its folded form, if a user has it.
fn spelled(tx: &mut impl Read, username: &Username) -> Result<Option<Username>, Fault> {
    for name in spellings(username) {
        if USERS.has(tx, &name)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The user with this name in any spelling. An unreadable user counts as absent.
pub(crate) fn user(tx: &mut impl Read, username: &Username) -> Result<Option<User>, Fault> {
    match registered(tx, username)? {
        Some(name) => USERS.readable(tx, &name),
        None => Ok(None),
    }
}
