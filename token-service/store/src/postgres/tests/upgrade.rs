//! An upgrade of replicas that share a database.

use super::*;
use crate::postgres::{FinishError, finish_upgrade, upgrade};
use crate::row;
use domain::RefreshRotation;

/// Puts the row of a replica into the table, as another version would.
async fn note(store: &PostgresStore, host: &str, layout: i64, silent_for: i64) {
    let client = store.pool.get().await.unwrap();
    let sql =
        "INSERT INTO replicas VALUES ($1, $1, '0.0.1', $2, extract(epoch FROM now())::BIGINT - $3)";
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&host, &layout, &silent_for];
    client.execute(sql, &values).await.unwrap();
}

async fn grant_row(store: &PostgresStore, grant: &Grant) -> Vec<u8> {
    let client = store.pool.get().await.unwrap();
    let sql = "SELECT body FROM grants WHERE grant_id = $1";
    let id = grant.grant_id.as_bytes().as_slice();
    client.query_one(sql, &[&id]).await.unwrap().get(0)
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
    // As the service closes any store.
    database.store().close().await;
    let state = upgrade(&settings(&database.url)).await.unwrap();
    assert_eq!(state.replicas, []);
}

#[tokio::test]
async fn the_layout_stays_until_the_upgrade_is_finished() {
    let database = Database::new(false).await;
    set_layout(&database.store, known_layouts().0).await;
    let (one, other) = (open(&database.url).await, open(&database.url).await);
    assert_eq!(one.layout(), Layout::FIRST);
    let grant = grant_of(&*one, code()).await;
    assert_eq!(grant_row(&one, &grant).await[0], 1);

    let state = finish_upgrade(&settings(&database.url)).await.unwrap();
    assert_eq!(state.layout, Layout::FIRST);
    for replica in [&one, &other] {
        replica.registry_version().await.unwrap();
        assert_eq!(replica.layout(), Layout::NEWEST);
    }
    assert!(one.grant(grant.grant_id).await.unwrap().is_some());
    let again = finish_upgrade(&settings(&database.url)).await.unwrap();
    assert_eq!(again.layout, Layout::NEWEST);
}

/// A replica that has not yet noticed the finish reads and keeps a binding that another replica has written.
#[tokio::test]
async fn a_replica_that_notices_the_finish_later_keeps_what_it_brings() {
    let database = Database::new(false).await;
    let store = &database.store;
    set_layout(store, known_layouts().0).await;
    let late = open(&database.url).await;
    let grant = Grant {
        binding: Some(Thumbprint::from_bytes([9; 32])),
        ..grant_of(&**store, code()).await
    };
    let client = store.pool.get().await.unwrap();
    let sql = "UPDATE grants SET body = $2 WHERE grant_id = $1";
    let (id, body) = (grant.grant_id.as_bytes().as_slice(), row::encode(&grant));
    client.execute(sql, &[&id, &body.unwrap()]).await.unwrap();
    assert_eq!(late.layout(), Layout::FIRST);
    let rotation = RefreshRotation {
        key: grant.binding,
        ..use_of(&grant, grant.current.refresh_id, at(5))
    };
    match late.rotate_refresh(rotation).await.unwrap() {
        Rotation::Rotated { grant: next, .. } => assert_eq!(next.binding, grant.binding),
        other => panic!("{other:?}"),
    }
    let stored = store.grant(grant.grant_id).await.unwrap().unwrap();
    assert_eq!(stored.binding, grant.binding);
}

#[tokio::test]
async fn the_upgrade_is_not_finished_while_an_earlier_version_runs() {
    let database = Database::new(false).await;
    let (first, newest) = known_layouts();
    set_layout(&database.store, first).await;
    note(&database.store, "crashed", first, 121).await;
    note(&database.store, "old", newest - 1, 119).await;
    let refused = finish_upgrade(&settings(&database.url)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "services of an earlier version run: old (0.0.1). Replace or stop them. A service that crashed counts as \
         running for 120 seconds"
    );
    assert!(matches!(refused, FinishError::Earlier(_)));
    let state = upgrade(&settings(&database.url)).await.unwrap();
    assert_eq!(state.layout, Layout::FIRST);
    assert_eq!(state.replicas.len(), 2);
    let client = database.store.pool.get().await.unwrap();
    client
        .execute(
            "UPDATE replicas SET seen_at = seen_at - 2 WHERE host = 'old'",
            &[],
        )
        .await
        .unwrap();
    finish_upgrade(&settings(&database.url)).await.unwrap();
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
