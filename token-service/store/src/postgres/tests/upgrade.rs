//! An upgrade of replicas that share a database.

use super::*;
use crate::postgres::upgrade;

/// Puts the row of a replica into the table, as another version would.
async fn note(store: &PostgresStore, host: &str, layout: i64, silent_for: i64) {
    let client = store.pool.get().await.unwrap();
    let sql =
        "INSERT INTO replicas VALUES ($1, $1, '0.0.1', $2, extract(epoch FROM now())::BIGINT - $3)";
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&host, &layout, &silent_for];
    client.execute(sql, &values).await.unwrap();
}

#[tokio::test]
async fn new_tables_have_the_newest_layout() {
    let database = Database::new(false).await;
    assert_eq!(database.store.layout(), Layout::NEWEST);
    let state = upgrade(&settings(&database.url)).await.unwrap();
    assert_eq!(state.layout, Layout::NEWEST);
    assert_eq!(state.earlier().count(), 0);
    let replicas: Vec<&str> = state.replicas.iter().map(|one| &*one.host).collect();
    assert_eq!(replicas, [system::host_name()]);
    database.store.close().await;
    let state = upgrade(&settings(&database.url)).await.unwrap();
    assert_eq!(state.replicas, []);
}

/// A replica says with each sweep that it runs. Rows of replicas that crashed a day ago go at the next start.
#[tokio::test]
async fn replicas_that_run_are_known() {
    let database = Database::new(false).await;
    let count = async || {
        let client = database.store.pool.get().await.unwrap();
        let sql = "SELECT count(*) FROM replicas";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let client = database.store.pool.get().await.unwrap();
    let past = "UPDATE replicas SET seen_at = seen_at - 1000";
    client.execute(past, &[]).await.unwrap();
    let running = async || {
        let state = upgrade(&settings(&database.url)).await.unwrap();
        state.replicas.len()
    };
    assert_eq!(running().await, 0);
    database.store.sweep(at(0), 10).await.unwrap();
    assert_eq!(running().await, 1);
    note(&database.store, "forgotten", 17, 24 * 60 * 60 + 1).await;
    assert_eq!(count().await, 2);
    open(&database.url).await;
    assert_eq!(count().await, 2, "another replica, without the forgotten");
}

/// Two versions start and stop in any order. The earlier version does not know the last addition.
#[tokio::test]
async fn a_command_needs_tables_of_its_version() {
    let database = Database::new(false).await;
    let client = database.store.pool.get().await.unwrap();
    let sql = "UPDATE counters SET value = 0 WHERE name = 'additions'";
    client.execute(sql, &[]).await.unwrap();
    let error = upgrade(&settings(&database.url)).await.unwrap_err();
    let expected = "it lacks tables of this version: start the service of this version on it once";
    assert!(error.to_string().ends_with(expected), "{error}");
}
