//! The users whom names identify, without regard to case (D-43).

use redb::{ReadTransaction, ReadableTable};

use super::fault::Fault;
use super::registry_index;
use super::tables::{REGISTRY_NAMES, Tables, USERS, registration};
use domain::registry_index::NamedKind;
use domain::{User, Username};

type Key = (u8, &'static str, &'static str);

/// The registered name of the user whom `username` [identifies](Username::identified).
pub(super) fn registered(
    transaction: &ReadTransaction,
    username: &Username,
) -> Result<Option<String>, Fault> {
    let users = transaction.open_table(USERS)?;
    if users.get(username.as_str())?.is_some() {
        return Ok(Some(username.to_string()));
    }
    let alike = alike(&users, &transaction.open_table(REGISTRY_NAMES)?, username)?;
    Ok(username.identified(alike, |name| name))
}

/// The user whom `username` identifies.
pub(super) fn user(
    transaction: &ReadTransaction,
    username: &Username,
) -> Result<Option<User>, Fault> {
    match registered(transaction, username)? {
        Some(name) => registration(transaction, USERS, &name),
        None => Ok(None),
    }
}

/// The users whose names have the same folded form.
pub(super) fn users_alike(
    transaction: &ReadTransaction,
    username: &Username,
) -> Result<Vec<User>, Fault> {
    let (users, names) = (
        transaction.open_table(USERS)?,
        transaction.open_table(REGISTRY_NAMES)?,
    );
    let alike = alike(&users, &names, username)?.into_iter();
    let found = alike.map(|name| registration(transaction, USERS, &name));
    found.filter_map(Result::transpose).collect()
}

/// The registered names with the same folded form.
fn alike(
    users: &impl ReadableTable<&'static str, &'static [u8]>,
    names: &impl ReadableTable<Key, ()>,
    username: &Username,
) -> Result<Vec<String>, Fault> {
    let folded = username.folded();
    let mut alike = vec![folded.to_string()];
    for name in registry_index::named(names, NamedKind::Username, &folded, "")? {
        alike.push(name?);
    }
    let mut registered = Vec::new();
    for name in alike {
        // The index keeps the name of a user whose unreadable row was removed.
        if users.get(name.as_str())?.is_some() {
            registered.push(name);
        }
    }
    Ok(registered)
}

/// Logs the names that earlier versions registered although they differ in case alone.
pub(super) fn warn_of_namesakes(tables: &mut Tables<'_>) -> Result<(), Fault> {
    let (users, names) = (tables.users.open()?, tables.registry_names.open()?);
    let mut last = String::new();
    for entry in registry_index::values(names, NamedKind::Username)? {
        let (folded, name) = entry?;
        let Some(username) = Username::parse(&name).filter(|_| folded != last) else {
            continue;
        };
        crate::namesakes::warn(&alike(users, names, &username)?);
        last = folded;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::tables::{META, SCHEMA_VERSION_KEY};
    use super::*;
    use crate::conformance::{ACCESS, assert_namesakes, at, put, user};
    use crate::redb::RedbStore;
    use crate::redb::open::builder;
    use crate::{RegistrationStore as _, Store as _};

    /// Up to version 7, the index had no folded usernames.
    #[tokio::test]
    async fn users_of_a_file_of_an_earlier_version_are_found_in_any_case() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store.redb");
        let store = RedbStore::open(&path, ACCESS).unwrap();
        let users = ["Ada", "ada", "GRACE", "Grace", "Joan"].map(user).to_vec();
        let change = put(vec![], users);
        store.change_registry(change, at(0)).await.unwrap();
        store.close().await;
        drop(store);
        {
            let database = builder().open(&path).unwrap();
            let transaction = database.begin_write().unwrap();
            let mut names = transaction.open_table(REGISTRY_NAMES).unwrap();
            names.retain(|_, ()| false).unwrap();
            drop(names);
            let mut meta = transaction.open_table(META).unwrap();
            meta.insert(SCHEMA_VERSION_KEY, 7).unwrap();
            drop(meta);
            transaction.commit().unwrap();
        }
        let store = RedbStore::open(&path, ACCESS).unwrap();
        assert_namesakes(&store).await;
        let joan = Username::parse("JOAN").unwrap();
        let joan = store.user(joan).await.unwrap().unwrap();
        assert_eq!(joan.username.as_str(), "Joan");
    }
}
