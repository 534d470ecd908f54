//! An upgrade of replicas that share a database.

use super::*;
use crate::conformance::audit_event;
use crate::postgres::upgrade::run;
use crate::postgres::{FinishError, Upgrade, finish_upgrade, upgrade};
use domain::{AuditEvent, AuditRange};

/// Puts the row of a replica of the first layout into the table.
async fn note(store: &PostgresStore, host: &str, silent_for: i64) {
    let client = store.pool.get().await.unwrap();
    let sql =
        "INSERT INTO replicas VALUES ($1, $1, '0.0.1', 1, extract(epoch FROM now())::BIGINT - $2)";
    client.execute(sql, &[&host, &silent_for]).await.unwrap();
}

/// Finishes an upgrade, as a version with a later layout does.
async fn finish(url: &str) -> Result<Upgrade, FinishError> {
    let event = |before: Layout| audit_event(before.number().into());
    run(&settings(url), Layout::LATER, Some(&event)).await
}

/// As if the services on the database had been silent for longer than a service that runs.
async fn silence(store: &PostgresStore) {
    let client = store.pool.get().await.unwrap();
    let sql = "UPDATE replicas SET seen_at = seen_at - 1000";
    client.execute(sql, &[]).await.unwrap();
}

/// The audit entries about finished upgrades.
async fn finished(store: &PostgresStore) -> Vec<AuditEvent> {
    let records = store.audit(AuditRange::After(0), 10).await.unwrap();
    records.into_iter().map(|record| record.event).collect()
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
    let frozen = open(&database.url).await;
    silence(&frozen).await;
    let state = finish(&database.url).await.unwrap();
    assert_eq!((state.layout, state.newest), (Layout::FIRST, Layout::LATER));
    let error = frozen.registry_version().await.unwrap_err().to_string();
    assert_eq!(error, format!("the store failed: {UNKNOWN}"));
    let error = upgrade(&settings(&database.url)).await.unwrap_err();
    assert!(error.to_string().ends_with(UNKNOWN), "{error}");

    set_layout(&database.store, Layout::FIRST).await;
    let event = |_| panic!("nothing changes");
    let again = finish_upgrade(&settings(&database.url), &event).await;
    assert_eq!(again.unwrap().layout, Layout::NEWEST);
    assert_eq!(finished(&database.store).await, [audit_event(1)]);
}

#[tokio::test]
async fn of_two_operators_one_finishes_the_upgrade() {
    let database = Database::new(false).await;
    silence(&database.store).await;
    for round in 1..=10 {
        set_layout(&database.store, Layout::FIRST).await;
        let (one, other) = tokio::join!(finish(&database.url), finish(&database.url));
        let first = [one, other].into_iter().filter(Result::is_ok);
        assert_eq!(first.count(), 1);
        assert_eq!(finished(&database.store).await.len(), round);
    }
}

/// A finish that ends before its commit leaves nothing.
#[tokio::test]
async fn a_finish_that_is_killed_changes_nothing() {
    let database = Database::new(false).await;
    silence(&database.store).await;
    let mut client = database.store.pool.get().await.unwrap();
    let audit = client.transaction().await.unwrap();
    audit
        .batch_execute("LOCK TABLE audit_waiting IN EXCLUSIVE MODE")
        .await
        .unwrap();
    let waits =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'audit_waiting'::regclass";
    let until_it_waits = async {
        while audit.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    };
    // Drops the connection.
    tokio::select! {
        _ = finish(&database.url) => panic!("the table is locked"),
        () = until_it_waits => {}
    }
    audit.rollback().await.unwrap();
    let state = upgrade(&settings(&database.url)).await.unwrap();
    assert_eq!(state.layout, Layout::FIRST);
    assert_eq!(finished(&database.store).await, []);
    finish(&database.url).await.unwrap();
}

#[tokio::test]
async fn the_upgrade_is_not_finished_while_an_earlier_version_runs() {
    let database = Database::new(false).await;
    silence(&database.store).await;
    note(&database.store, "crashed", 121).await;
    note(&database.store, "old", 110).await;
    let refused = finish(&database.url).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "services of an earlier version run: old (0.0.1). Replace or stop them. A service that crashed counts as \
         running for 120 seconds"
    );
    assert!(matches!(refused, FinishError::Earlier(_)));
    let state = upgrade(&settings(&database.url)).await.unwrap();
    assert_eq!(state.layout, Layout::FIRST);
    assert_eq!(state.replicas.len(), 1);
    let client = database.store.pool.get().await.unwrap();
    client
        .execute(
            "UPDATE replicas SET seen_at = seen_at - 11 WHERE host = 'old'",
            &[],
        )
        .await
        .unwrap();
    finish(&database.url).await.unwrap();
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
    silence(&database.store).await;
    let running = async || {
        let state = upgrade(&settings(&database.url)).await.unwrap();
        state.replicas.len()
    };
    assert_eq!(running().await, 0);
    database.store.sweep(at(0), at(0), 10).await.unwrap();
    assert_eq!(running().await, 1);
    note(&database.store, "forgotten", 24 * 60 * 60 + 1).await;
    assert_eq!(count().await, 2);
    open(&database.url).await;
    assert_eq!(count().await, 2, "another replica, without the forgotten");
}
