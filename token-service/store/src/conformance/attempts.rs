//! Attempts to guess a secret, and their limits.

use super::*;

pub(crate) const PACE: Pace = Pace {
    free: 2,
    longest: Duration::from_secs(60),
    forget_one_after: Duration::from_secs(600),
};

/// An attempt that is admitted.
async fn admitted(store: &dyn Store, keys: &[&str], now: Timestamp) -> Vec<Counted> {
    match attempt(store, keys, now).await {
        Admission::Admitted(counted) => counted,
        wait @ Admission::Wait(_) => panic!("{keys:?}: {wait:?}"),
    }
}

pub(crate) async fn attempt(store: &dyn Store, keys: &[&str], now: Timestamp) -> Admission {
    let keys = keys.iter().map(|key| PacedKey {
        key: Digest::of(key.as_bytes()),
        pace: PACE,
    });
    let keys: Vec<_> = keys.collect();
    let admitted = patiently(|| store.admit_attempt(keys.clone(), now));
    admitted.await.unwrap()
}

pub(crate) async fn failures_slow_attempts_down_until_they_are_forgiven_or_forgotten(
    subject: &mut impl Subject,
) {
    let wait = |seconds| Admission::Wait(Duration::from_secs(seconds));
    let both = ["address", "ada"];
    for _ in 0..3 {
        admitted(&*subject.store(), &both, at(0)).await;
    }
    let store = subject.restarted().await;
    assert_eq!(attempt(&*store, &both, at(0)).await, wait(1));
    assert_eq!(
        attempt(&*store, &["address", "grace"], at(0)).await,
        wait(1),
        "of the address"
    );
    for _ in 0..3 {
        // What waits at a key counts for no key behind it.
        admitted(&*store, &["grace"], at(0)).await;
    }
    let counted = admitted(&*store, &both, at(1)).await;
    assert_eq!(attempt(&*store, &both, at(1)).await, wait(2));
    let [address, ada] = counted[..] else {
        panic!("{counted:?}");
    };
    let forgiven = store.forgive_attempt(Some(ada.paced.key), vec![address]);
    forgiven.await.unwrap();
    let store = subject.again(store).await;
    admitted(&*store, &["ada"], at(1)).await;
    assert_eq!(
        attempt(&*store, &["address"], at(0)).await,
        wait(1),
        "three of four failures are left"
    );
    assert_eq!(sweep(&*store, at(601)).await.removed, 0);
    assert_eq!(sweep(&*store, at(602)).await.removed, 1);
    sweep(&*store, at(10_000)).await;
    for _ in 0..3 {
        // All is forgotten.
        admitted(&*store, &both, at(10_000)).await;
    }
}

pub(crate) async fn right_attempts_move_no_clock(subject: &mut impl Subject) {
    let store = subject.store();
    let address = ["address"];
    let right = admitted(&*store, &address, at(0)).await;
    store.forgive_attempt(None, right).await.unwrap();
    assert_eq!(sweep(&*store, at(2000)).await.removed, 0, "nothing is left");
    for _ in 0..3 {
        admitted(&*store, &address, at(0)).await;
    }
    for second in [1, 1, 2, 700, 1300, 1799] {
        let right = admitted(&*store, &address, at(second)).await;
        store.forgive_attempt(None, right).await.unwrap();
    }
    assert_eq!(sweep(&*store, at(1800)).await.removed, 0);
    assert_eq!(sweep(&*store, at(1801)).await.removed, 1);

    let right = admitted(&*store, &address, at(2000)).await;
    admitted(&*store, &address, at(2000)).await;
    store.forgive_attempt(None, right).await.unwrap();
    for _ in 0..2 {
        admitted(&*store, &address, at(2000)).await;
    }
    let third = attempt(&*store, &address, at(2000)).await;
    assert_eq!(third, Admission::Wait(Duration::from_secs(1)));
}

pub(crate) async fn attempts_that_wait_count_for_the_keys_before_the_one_that_waits(
    subject: &mut impl Subject,
) {
    let keys = ["address", "account from network", "account"];
    for _ in 0..3 {
        // From another address.
        admitted(&*subject.store(), &keys[1..], at(0)).await;
    }
    let store = subject.restarted().await;
    for _ in 0..3 {
        let waits = attempt(&*store, &keys, at(0)).await;
        assert_eq!(waits, Admission::Wait(Duration::from_secs(1)));
    }
    let address = attempt(&*store, &["address"], at(0)).await;
    assert!(matches!(address, Admission::Wait(_)), "it counted");
    // Three failures, not six.
    let account = admitted(&*store, &["account"], at(1)).await;
    let waits = attempt(&*store, &["account"], at(1)).await;
    assert!(matches!(waits, Admission::Wait(_)));
    // An attempt without a result is removed from all keys.
    let taken_back = store.forgive_attempt(None, account.clone());
    taken_back.await.unwrap();
    admitted(&*store, &["account"], at(1)).await;
    // Nothing is left to take back from.
    sweep(&*store, at(10_000)).await;
    store.forgive_attempt(None, account).await.unwrap();
}

pub(crate) async fn parallel_attempts_are_admitted_as_consecutive_ones(subject: &mut impl Subject) {
    let attempts = in_parallel(subject, PARALLEL, |store, _| async move {
        attempt(&*store, &["ada", "address"], at(0)).await
    });
    let admitted = attempts.await.into_iter();
    let admitted = admitted.filter(|one| matches!(one, Admission::Admitted(_)));
    assert_eq!(admitted.count(), 3);
}
