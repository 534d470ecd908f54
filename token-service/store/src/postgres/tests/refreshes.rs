//! Refreshes at two replicas at the same time. A client that is not answered at once repeats its request elsewhere.

use super::*;
use crate::conformance::{client, code_of};
use crate::postgres::limits::LEASE;
use domain::Grant;
use std::time::Instant;

/// Requests at the same time.
const CALLERS: usize = 256;

async fn replicas() -> [Arc<PostgresStore>; 2] {
    let url = fresh_database().await;
    [open(&url).await, open(&url).await]
}

/// Uses the refresh token of a grant `uses` times, at each replica in turn. Returns the grant behind the first use. None of the uses
/// is refused because of the others.
async fn refresh(
    replicas: [Arc<PostgresStore>; 2],
    grant: Grant,
    second: u64,
    uses: usize,
) -> Grant {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..uses {
        let store = Arc::clone(&replicas[number % replicas.len()]);
        let rotation = use_of(&grant, grant.current.refresh_id, at(second));
        tasks.spawn(async move {
            loop {
                let start = Instant::now();
                match store.rotate_refresh(rotation.clone()).await {
                    // On a busy machine, the turn or the connection came too late.
                    Err(StoreError::Overloaded) if start.elapsed() >= LEASE => {}
                    outcome => return outcome,
                }
            }
        });
    }
    let (mut rotated, mut repeated) = (Vec::new(), Vec::new());
    for outcome in tasks.join_all().await {
        match outcome.unwrap() {
            Rotation::Rotated { grant, .. } => rotated.push(*grant),
            Rotation::Repeated { step, .. } => repeated.push(step.refresh_id),
            other => panic!("{other:?}"),
        }
    }
    let [next] = rotated.try_into().unwrap();
    assert_eq!(repeated, vec![next.current.refresh_id; uses - 1]);
    next
}

/// Takes 0.5 seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_refreshes_of_a_grant_rotate_it_once() {
    let replicas = replicas().await;
    let mut grant = grant_of(&*replicas[0], code()).await;
    for second in 1..4 {
        grant = refresh(replicas.clone(), grant, second, CALLERS).await;
    }
}

/// Takes a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refreshes_of_many_grants_rotate_each_once() {
    let replicas = replicas().await;
    let store = &*replicas[0];
    // Of several users, because a user has so many grants at most.
    let users = ["ada", "grace", "joan", "mary"];
    apply(store, put(vec![client("web")], users.map(user).to_vec()), 0).await;
    let mut grants = tokio::task::JoinSet::new();
    for number in 0..CALLERS / 2 {
        let store = Arc::clone(&replicas[0]);
        let record = code_of("web", users[number % users.len()]);
        grants.spawn(async move { grant_of(&*store, record).await });
    }
    let mut grants = grants.join_all().await;
    for second in 1..4 {
        let mut tasks = tokio::task::JoinSet::new();
        for grant in grants {
            tasks.spawn(refresh(replicas.clone(), grant, second, 2));
        }
        grants = tasks.join_all().await;
    }
}
