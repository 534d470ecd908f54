//! The revocation feed and the audit log of several replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::*;
use crate::conformance::{Dice, audit_event, client_id, patiently};
use domain::{AuditRange, Revocation};
use tokio::task::JoinSet;

fn token(number: usize) -> Revoked {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    Revoked::Token(TokenId::from_bytes(bytes))
}

/// Many writers on several replicas revoke tokens while readers on both replicas follow the feed. A reader must never see
/// an entry before an earlier entry, and no position stays unused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_of_the_feed_misses_nothing() {
    const REVOCATIONS: usize = 300;
    let url = fresh_database().await;
    let replicas = [open(&url).await, open(&url).await];
    let mut tasks = JoinSet::new();
    for number in 0..REVOCATIONS {
        let store = Arc::clone(&replicas[number % 2]);
        tasks.spawn(async move {
            let extent = Extent::of(at(0), ACCESS);
            let announce = || store.announce(token(number), extent, Arc::default());
            while announce().await.is_err() {}
        });
    }
    for store in replicas {
        tasks.spawn(async move {
            let mut followed = Vec::new();
            while followed.len() < REVOCATIONS {
                let since = followed.len() as u64;
                // The writers may use all connections.
                let (Ok(_), Ok(page)) = (
                    store.feed_state().await,
                    store.revocations_since(since, 7).await,
                ) else {
                    continue;
                };
                followed.extend(page.into_iter().map(|entry| entry.sequence));
                let gapless: Vec<u64> = (1..=followed.len() as u64).collect();
                assert_eq!(followed, gapless);
            }
        });
    }
    tasks.join_all().await;
}

/// What a reader has read, from the start on.
#[derive(Default)]
struct Follower {
    since: u64,
    entries: BTreeMap<Vec<u8>, Revocation>,
    audit_since: u64,
    audited: BTreeSet<u64>,
}

impl Follower {
    /// Reads a page of the feed and a page of the audit log. Returns whether there was nothing new.
    async fn read(&mut self, store: &PostgresStore, limit: usize) -> Result<bool, StoreError> {
        let state = store.feed_state().await?;
        let page = store.revocations_since(self.since, limit).await?;
        let audit = AuditRange::After(self.audit_since);
        let audit = store.audit(audit, limit).await?;
        let at_the_end = page.is_empty() && audit.is_empty() && self.since <= state.last;
        for entry in page {
            assert!(self.since < entry.sequence, "{entry:?}");
            self.since = entry.sequence;
            self.entries.insert(entry.revoked.key(), entry);
        }
        for record in audit {
            assert!(self.audit_since < record.sequence);
            self.audit_since = record.sequence;
            let number = record.event.at.seconds() - at(0).seconds();
            assert!(self.audited.insert(number), "{number} is there twice");
        }
        Ok(at_the_end)
    }

    async fn read_to_the_end(&mut self, store: &PostgresStore) {
        while !self
            .read(store, 100)
            .await
            .is_ok_and(|at_the_end| at_the_end)
        {}
    }
}

/// Revokes a random token up to a random time, or a client with an entry of the audit log, until the store confirms it.
/// Returns the entry of the audit log. A repetition after an error has a new entry.
async fn revoke_at_random(
    store: &PostgresStore,
    dice: &mut Dice,
    numbers: &AtomicUsize,
) -> Option<u64> {
    let extent = Extent {
        at: at(dice.below(50) as u64),
        expires_at: at(3600 + dice.below(50) as u64),
    };
    let name = format!("client-{}", dice.below(5));
    let (subject, audited) = match dice.below(4) {
        0 => (Revoked::Client(client_id(&name)), true),
        _ => (token(dice.below(60)), dice.below(2) == 0),
    };
    loop {
        let number = numbers.fetch_add(1, Ordering::Relaxed) as u64;
        let entry = audited.then(|| audit_event(number));
        let announced = store.announce(subject.clone(), extent, entry.into_iter().collect());
        match announced.await {
            Ok(is_new) => return (audited && is_new).then_some(number),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Two replicas write, and readers follow both, while transactions of both are killed at random. At the end, each reader
/// has the newest content of every subject, at its last position, and each entry of the audit log once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_transactions_leave_no_gap_that_a_reader_misses() {
    const WRITERS: usize = 12;
    const EACH: usize = 25;
    for seed in 0..3 {
        let url = fresh_database().await;
        let replicas = [open(&url).await, open(&url).await];
        let numbers = Arc::new(AtomicUsize::new(0));
        let (done, mut completed) = tokio::sync::mpsc::unbounded_channel();
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (store, numbers) = (Arc::clone(&replicas[writer % 2]), Arc::clone(&numbers));
            let done = done.clone();
            writers.spawn(async move {
                let mut dice = Dice((seed * WRITERS + writer) as u64);
                let mut audited = Vec::new();
                for _ in 0..EACH {
                    audited.extend(revoke_at_random(&store, &mut dice, &numbers).await);
                    done.send(()).unwrap();
                }
                audited
            });
        }
        drop(done);
        let is_over = Arc::new(tokio::sync::Semaphore::new(0));
        let mut readers = JoinSet::new();
        for (number, store) in replicas.iter().cloned().enumerate() {
            let is_over = Arc::clone(&is_over);
            readers.spawn(async move {
                let (mut follower, mut dice) = (Follower::default(), Dice(number as u64));
                while is_over.available_permits() == 0 {
                    // A killed transaction is an error; the reader asks again.
                    let _ = follower.read(&store, 1 + dice.below(5)).await;
                }
                follower.read_to_the_end(&store).await;
                follower
            });
        }
        let (killer, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut dice = Dice(seed as u64);
        let mut killed = 0;
        while completed.recv().await.is_some() {
            if dice.below(4) == 0 {
                let sql = "SELECT count(pg_terminate_backend(pid)) FROM (
                        SELECT pid FROM pg_stat_activity WHERE application_name = 'token-service'
                            AND datname = current_database() AND state <> 'idle' ORDER BY random() LIMIT 1
                    ) AS busy";
                killed += killer.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
            }
        }
        assert!(killed > 0);
        let audited: Vec<u64> = writers.join_all().await.concat();
        is_over.add_permits(1);
        let mut newcomer = Follower::default();
        newcomer.read_to_the_end(&replicas[0]).await;
        for follower in readers.join_all().await {
            assert_eq!(follower.entries, newcomer.entries, "{seed}");
            assert_eq!(follower.audited, newcomer.audited, "{seed}");
            assert!(
                audited
                    .iter()
                    .all(|number| follower.audited.contains(number)),
                "{seed}"
            );
        }
    }
}

/// Without this error, gateways would take a page without the entry for the whole feed.
#[tokio::test]
async fn entries_that_get_no_position_for_long_fail_the_feed() {
    let database = Database::new(false).await;
    let store = &database.store;
    let mut client = store.pool.get().await.unwrap();
    let turn = client.transaction().await.unwrap();
    let lock = "SELECT 1 FROM counters WHERE name = 'last_revocation' FOR UPDATE";
    turn.query_one(lock, &[]).await.unwrap();
    let extent = Extent::of(at(0), ACCESS);
    let announced = store.announce(token(1), extent, Arc::default());
    assert_eq!(announced.await, Ok(true));
    assert_eq!(store.feed_state().await.unwrap().last, 0);
    let older = "UPDATE revoked SET waits_since = waits_since - $1::BIGINT";
    let six_seconds = i64::try_from(Duration::from_secs(6).as_micros()).unwrap();
    let other = store.pool.get().await.unwrap();
    other.execute(older, &[&six_seconds]).await.unwrap();
    drop(other);
    let error = store.feed_state().await.unwrap_err().to_string();
    assert!(error.contains("wait for their positions"), "{error}");
    turn.rollback().await.unwrap();
    assert_eq!(store.feed_state().await.unwrap().last, 1);
}

/// More callers than a statement takes. Some go away, and each second caller repeats the token of the caller before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_that_share_a_statement_have_their_own_outcomes() {
    const CALLERS: usize = 1500;
    let store = Database::new(false).await.store;
    let extent = Extent::of(at(0), ACCESS);
    let mut callers = Vec::new();
    for number in 0..CALLERS {
        let store = Arc::clone(&store);
        callers.push(tokio::spawn(async move {
            patiently(|| store.announce(token(number / 2), extent, Arc::default())).await
        }));
    }
    for gone in callers.iter().step_by(6) {
        gone.abort();
    }
    let mut outcomes = Vec::new();
    for caller in callers {
        outcomes.push(caller.await.ok());
    }
    for pair in outcomes.chunks(2) {
        let both = [Some(Ok(true)), Some(Ok(false))];
        let is_one = pair == both || pair.iter().rev().eq(&both);
        assert!(is_one || pair.contains(&None), "{pair:?}");
    }
    assert!(store.feed_state().await.unwrap().last >= CALLERS as u64 / 3);
}
