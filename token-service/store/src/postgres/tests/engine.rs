//! Operations on tables of keys and rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use deadpool_postgres::Transaction;
use futures_util::future::join_all;

use super::server::{fresh_database, settings};
use crate::StoreError;
use crate::codec::{Bytes, Keys};
use crate::fault::Fault;
use crate::postgres::connection::{self, Pool};
use crate::postgres::creation;
use crate::postgres::engine::Engine;
use crate::postgres::view::View;
use crate::tx::tables::Name;
use crate::tx::{Lock, Read as _, Tx as _, Want};

async fn pool() -> Pool {
    let pool = connection::pool(&settings(&fresh_database().await)).unwrap();
    let client = pool.get().await.unwrap();
    let counters = "CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);";
    let tables = creation::all();
    client
        .batch_execute(&format!("{counters}{tables}"))
        .await
        .unwrap();
    drop(client);
    pool
}

fn engine_on(pool: Pool) -> Arc<Engine> {
    Arc::new(Engine::new(pool, Arc::new(AtomicU64::new(3600))))
}

async fn engine() -> Arc<Engine> {
    engine_on(pool().await)
}

fn get(view: &mut View<'_>, table: Name, key: &str) -> Result<Option<Bytes>, Fault> {
    view.get(table, key.as_bytes(), |row| Ok(row.to_vec()))
}

fn lock(table: Name, key: &str, lock: Lock) -> Want {
    Want::Row {
        table,
        key: key.into(),
        lock,
    }
}

/// Adds 1 to the number in a row.
fn increment(view: &mut View<'_>, table: Name, key: &str) -> Result<u8, Fault> {
    let next = get(view, table, key)?.map_or(1, |row| row[0] + 1);
    view.put(table, key.as_bytes(), vec![next])?;
    Ok(next)
}

/// All rows of a table.
async fn rows(engine: &Engine, table: Name) -> BTreeMap<String, Bytes> {
    let read = move |view: &mut View<'_>| {
        let mut rows = BTreeMap::new();
        view.range(table, &Keys::all(), usize::MAX, |key, row| {
            rows.insert(String::from_utf8_lossy(key).into_owned(), row.to_vec());
            Ok(())
        })?;
        Ok(rows)
    };
    engine.snapshot("rows", read).await.unwrap()
}

const PARALLEL: u8 = 64;

/// The numbers of the operations, with the entry of the index that each wrote.
async fn assert_each_counted(engine: &Engine, table: Name, outcomes: Vec<u8>) {
    let expected: Vec<u8> = (1..=PARALLEL).collect();
    let mut outcomes = outcomes;
    outcomes.sort_unstable();
    assert_eq!(outcomes, expected);
    assert_eq!(rows(engine, table).await["ada"], [PARALLEL]);
    let entries = rows(engine, Name::sessions_by_user).await;
    let written: Vec<u8> = entries.into_values().map(|row| row[0]).collect();
    assert_eq!(
        written, expected,
        "an operation that was overtaken wrote its entry"
    );
}

/// Adds 1 to the row of a user, and an entry of an index, which the operation has not read.
fn count(view: &mut View<'_>, table: Name) -> Result<u8, Fault> {
    let number = increment(view, table, "ada")?;
    let entry = format!("{number:02}ada");
    view.put(Name::sessions_by_user, entry.as_bytes(), vec![number])?;
    Ok(number)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_guarded_operation_overwrites_another() {
    let engine = engine().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..PARALLEL {
        let engine = Arc::clone(&engine);
        tasks.spawn(async move {
            let operation = |view: &mut View<'_>| count(view, Name::failures);
            engine.guarded("count", operation).await.unwrap()
        });
    }
    assert_each_counted(&engine, Name::failures, tasks.join_all().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_that_lock_a_row_see_each_other() {
    let engine = engine().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..PARALLEL {
        let engine = Arc::clone(&engine);
        tasks.spawn(async move {
            let operation = |view: &mut View<'_>| {
                view.ahead(|| [lock(Name::users, "ada", Lock::Own)]);
                count(view, Name::users)
            };
            engine.owned("count", operation).await.unwrap()
        });
    }
    assert_each_counted(&engine, Name::users, tasks.join_all().await).await;
}

/// Waits until so many sessions wait for a lock.
async fn until_others_wait(transaction: &Transaction<'_>, sessions: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    // A transaction sees the sessions as they were when it first looked.
    let look_again = "SELECT pg_stat_clear_snapshot()";
    while transaction
        .query_one(sql, &[])
        .await
        .unwrap()
        .get::<_, i64>(0)
        < sessions
    {
        transaction.execute(look_again, &[]).await.unwrap();
    }
}

/// The locks of a transaction that nobody ends would stay until the server's time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_attempt_closes_its_connection() {
    let pool = pool().await;
    let engine = engine_on(pool.clone());
    let operation = |view: &mut View<'_>| {
        view.ahead(|| [lock(Name::users, "ada", Lock::Own)]);
        increment(view, Name::users, "ada")
    };
    engine.owned("first", operation).await.unwrap();
    let mut other = pool.get().await.unwrap();
    let transaction = other.transaction().await.unwrap();
    let sql = "SELECT 1 FROM users FOR UPDATE";
    transaction.execute(sql, &[]).await.unwrap();
    let running = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.owned("dropped", operation).await }
    });
    until_others_wait(&transaction, 1).await;
    assert_eq!(pool.status().size, 2);
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_eq!(
        pool.status().size,
        1,
        "the connection of the other transaction"
    );
    transaction.rollback().await.unwrap();
    assert_eq!(engine.owned("next", operation).await, Ok(2));
}

/// The checks that run with every operation of every test.
#[tokio::test]
#[should_panic(expected = "is written without a lock")]
async fn a_write_without_the_lock_of_its_owner_is_found() {
    let operation = |view: &mut View<'_>| view.put(Name::second_factors, b"ada", vec![1]);
    drop(engine().await.owned("careless", operation).await);
}

/// Operations that run together run in a task, which the panic ends.
#[tokio::test]
async fn a_guarded_write_without_its_owner_is_found() {
    let operation = |view: &mut View<'_>| view.put(Name::second_factors, b"ada", vec![1]);
    let ended = engine().await.guarded("careless", operation).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.ends_with("ended without an outcome"), "{error}");
}

#[tokio::test]
#[should_panic(expected = "careless took 3 round trips, and not 2")]
async fn a_read_that_was_not_announced_is_found() {
    let operation = |view: &mut View<'_>| {
        get(view, Name::users, "ada")?;
        increment(view, Name::failures, "ada")
    };
    drop(engine().await.owned("careless", operation).await);
}

/// Keys in ascending order.
fn keys(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("key {number:03}"))
        .collect()
}

/// Runs operations of these keys at the same time, so that all but the first two share a statement.
async fn increment_together(
    engine: &Engine,
    table: Name,
    keys: &[String],
) -> Vec<Result<u8, StoreError>> {
    let increments = keys.iter().cloned().map(|key| {
        engine.guarded("increment", move |view: &mut View<'_>| {
            increment(view, table, &key)
        })
    });
    join_all(increments).await
}

/// Two batches with the same keys wait for the same transaction when each has written half of its rows.
#[tokio::test]
async fn batches_of_two_replicas_lock_in_one_order() {
    let pool = pool().await;
    let keys = keys(64);
    let reversed: Vec<String> = keys.iter().rev().cloned().collect();
    let engines = [engine_on(pool.clone()), engine_on(pool.clone())];
    let mut other = pool.get().await.unwrap();
    let transaction = other.transaction().await.unwrap();
    let sql = "INSERT INTO used_once (k, v) VALUES ('key 032', '')";
    transaction.execute(sql, &[]).await.unwrap();
    tokio::join!(
        increment_together(&engines[0], Name::used_once, &keys),
        increment_together(&engines[1], Name::used_once, &reversed),
        async {
            until_others_wait(&transaction, 2).await;
            transaction.rollback().await.unwrap();
        },
    );
    // A session reports what it met when it ends.
    pool.retain(|_, _| false);
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while other.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {}
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks = other.query_one(deadlocks, &[]).await.unwrap();
    assert_eq!(deadlocks.get::<_, i64>(0), 0);
}

/// A transaction that holds a row keeps the operation of this row waiting, and no other one.
#[tokio::test]
async fn a_locked_row_keeps_no_other_operation_of_its_batch_waiting() {
    let pool = pool().await;
    let engine = engine_on(pool.clone());
    let keys = keys(32);
    let all = increment_together(&engine, Name::failures, &keys).await;
    assert!(all.into_iter().all(|number| number == Ok(1)));
    let mut other = pool.get().await.unwrap();
    let transaction = other.transaction().await.unwrap();
    let sql = "SELECT 1 FROM failures WHERE k = 'key 016' FOR UPDATE";
    transaction.execute(sql, &[]).await.unwrap();
    let (done, mut waiting) = tokio::sync::mpsc::unbounded_channel();
    for key in keys {
        let (engine, done) = (Arc::clone(&engine), done.clone());
        tokio::spawn(async move {
            let key = [key];
            let number = increment_together(&engine, Name::failures, &key).await;
            done.send((key, number)).unwrap();
        });
    }
    for _ in 1..32 {
        let (key, number) = waiting.recv().await.unwrap();
        assert_ne!(key, ["key 016"]);
        assert_eq!(number, [Ok(2)]);
    }
    transaction.rollback().await.unwrap();
    assert_eq!(waiting.recv().await.unwrap().1, [Ok(2)]);
}

/// A key that is too long for an index.
fn refused_key() -> String {
    let digits = (0..10_000_u32).map(|number| format!("{:x}", number.wrapping_mul(2_654_435_761)));
    digits.collect()
}

#[tokio::test]
async fn an_operation_that_the_database_refuses_fails_alone() {
    let engine = engine().await;
    let mut keys = keys(32);
    keys[16] = refused_key();
    let outcomes = increment_together(&engine, Name::failures, &keys).await;
    for (key, outcome) in keys.iter().zip(outcomes) {
        match key.starts_with("key") {
            true => assert_eq!(outcome, Ok(1)),
            false => assert!(matches!(outcome, Err(StoreError::Failed(_))), "{outcome:?}"),
        }
    }
}

/// Locks, reads and writes more rows than a statement contains.
#[tokio::test]
async fn a_large_operation_is_one_transaction() {
    const ROWS: u32 = 20_000;
    let pool = pool().await;
    let engine = engine_on(pool.clone());
    let operation = |last: String| {
        move |view: &mut View<'_>| {
            let keys = (0..ROWS).map(|number| format!("{number:05}"));
            let keys: Vec<String> = keys.chain([last.clone()]).collect();
            view.ahead(|| keys.iter().map(|key| lock(Name::failures, key, Lock::Own)));
            let numbers = keys.iter().map(|key| increment(view, Name::failures, key));
            numbers.collect::<Result<Vec<u8>, Fault>>()
        }
    };
    let mut written = Vec::new();
    for last in ["last".to_owned(), refused_key()] {
        written.push(engine.owned("large", operation(last)).await);
    }
    assert_eq!(written[0], Ok(vec![1; ROWS as usize + 1]));
    assert!(written[1].is_err());
    let client = pool.get().await.unwrap();
    let sql = r"SELECT count(*) FROM failures WHERE v = '\x01'";
    let written = client.query_one(sql, &[]).await.unwrap();
    assert_eq!(written.get::<_, i64>(0), i64::from(ROWS) + 1);
}
