//! An upgrade of replicas that share a database.

use super::*;
use crate::conformance::audit_event;
use crate::postgres::{FinishError, Upgrade, finish_upgrade, upgrade};
use crate::row;
use domain::{AuditEvent, AuditRange, RefreshRotation};

/// Puts the row of a replica into the table, as another version would.
async fn note(store: &PostgresStore, host: &str, layout: i64, silent_for: i64) {
    let client = store.pool.get().await.unwrap();
    let sql =
        "INSERT INTO replicas VALUES ($1, $1, '0.0.1', $2, extract(epoch FROM now())::BIGINT - $3)";
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&host, &layout, &silent_for];
    client.execute(sql, &values).await.unwrap();
}

async fn finish(url: &str) -> Result<Upgrade, FinishError> {
    let event = |before: Layout| audit_event(before.number().into());
    finish_upgrade(&settings(url), &event).await
}

/// The audit entries about finished upgrades.
async fn finished(store: &PostgresStore) -> Vec<AuditEvent> {
    let records = store.audit(AuditRange::After(0), 10).await.unwrap();
    records.into_iter().map(|record| record.event).collect()
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

    let state = finish(&database.url).await.unwrap();
    assert_eq!(state.layout, Layout::FIRST);
    for replica in [&one, &other] {
        replica.registry_version().await.unwrap();
        assert_eq!(replica.layout(), Layout::NEWEST);
    }
    assert!(one.grant(grant.grant_id).await.unwrap().is_some());
    let again = finish(&database.url).await.unwrap();
    assert_eq!(again.layout, Layout::NEWEST);
    let first = u64::from(Layout::FIRST.number());
    assert_eq!(finished(&one).await, [audit_event(first)]);
}

#[tokio::test]
async fn of_two_operators_one_finishes_the_upgrade() {
    let database = Database::new(false).await;
    for _ in 0..10 {
        set_layout(&database.store, known_layouts().0).await;
        let before = finished(&database.store).await.len();
        let (one, other) = tokio::join!(finish(&database.url), finish(&database.url));
        let mut layouts = [one, other].map(|upgrade| upgrade.unwrap().layout);
        layouts.sort();
        assert_eq!(layouts, [Layout::FIRST, Layout::NEWEST]);
        assert_eq!(finished(&database.store).await.len(), before + 1);
    }
}

/// A finish that ends before its commit leaves nothing.
#[tokio::test]
async fn a_finish_that_is_killed_changes_nothing() {
    let database = Database::new(false).await;
    set_layout(&database.store, known_layouts().0).await;
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

/// A replica that has not yet noticed the finish reads and keeps a binding that another replica has written.
#[tokio::test]
async fn a_replica_that_notices_the_finish_later_keeps_what_it_brings() {
    let database = Database::new(false).await;
    let store = &database.store;
    set_layout(store, known_layouts().0).await;
    let late = open(&database.url).await;
    let grant = Grant {
        binding: Some(Thumbprint::from_bytes([9; 32])),
        certificate: Some(Thumbprint::from_bytes([8; 32])),
        ..grant_of(&**store, code()).await
    };
    let client = store.pool.get().await.unwrap();
    let sql = "UPDATE grants SET body = $2 WHERE grant_id = $1";
    let (id, body) = (grant.grant_id.as_bytes().as_slice(), row::encode(&grant));
    client.execute(sql, &[&id, &body.unwrap()]).await.unwrap();
    assert_eq!(late.layout(), Layout::FIRST);
    let rotation = RefreshRotation {
        proven: grant.bound_to(),
        ..use_of(&grant, grant.current.refresh_id, at(5))
    };
    match late.rotate_refresh(rotation).await.unwrap() {
        Rotation::Rotated { grant: next, .. } => assert_eq!(next.bound_to(), grant.bound_to()),
        other => panic!("{other:?}"),
    }
    let stored = store.grant(grant.grant_id).await.unwrap().unwrap();
    assert_eq!(stored.bound_to(), grant.bound_to());
}

#[tokio::test]
async fn the_upgrade_is_not_finished_while_an_earlier_version_runs() {
    let database = Database::new(false).await;
    let (first, newest) = known_layouts();
    set_layout(&database.store, first).await;
    note(&database.store, "crashed", first, 121).await;
    note(&database.store, "old", newest - 1, 119).await;
    let refused = finish(&database.url).await.unwrap_err();
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
    let client = database.store.pool.get().await.unwrap();
    let past = "UPDATE replicas SET seen_at = seen_at - 1000";
    client.execute(past, &[]).await.unwrap();
    let running = async || {
        let state = upgrade(&settings(&database.url)).await.unwrap();
        state.replicas.len()
    };
    assert_eq!(running().await, 0);
    database.store.sweep(at(0), at(0), 10).await.unwrap();
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
