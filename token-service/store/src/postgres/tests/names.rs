//! Names of people in a database of an earlier version.

use super::*;
use crate::conformance::assert_namesakes;

/// Up to version 10, the index had no folded usernames.
#[tokio::test]
async fn users_of_a_database_of_an_earlier_version_are_found_in_any_case() {
    let database = Database::new(false).await;
    let users = ["Ada", "ada", "GRACE", "Grace", "Joan"].map(user).to_vec();
    let change = put(vec![], users);
    let changed = database.store.change_registry(change, at(0)).await;
    changed.unwrap();
    let client = database.store.pool.get().await.unwrap();
    let back =
        "DELETE FROM registry_names; UPDATE counters SET value = 10 WHERE name = 'schema_version';";
    client.batch_execute(back).await.unwrap();
    drop(client);
    let store = open(&database.url).await;
    assert_namesakes(&*store).await;
    let joan = Username::parse("JOAN").unwrap();
    let joan = store.user(joan).await.unwrap().unwrap();
    assert_eq!(joan.username.as_str(), "Joan");
}
