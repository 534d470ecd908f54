//! Attempts to guess a secret, and their limits.

use super::*;

pub(crate) const PACE: Pace = Pace {
    free: 2,
    longest: Duration::from_secs(60),
    forget_one_after: Duration::from_secs(600),
};

pub(crate) async fn attempt(store: &dyn Store, keys: &[&str], now: Timestamp) -> Admission {
    let keys = keys.iter().map(|key| PacedKey {
        key: Digest::of(key.as_bytes()),
        pace: PACE,
    });
    store.admit_attempt(keys.collect(), now).await.unwrap()
}

pub(crate) async fn failures_slow_attempts_down_until_they_are_forgiven_or_forgotten(
    subject: &mut impl Subject,
) {
    let wait = |seconds| Admission::Wait(Duration::from_secs(seconds));
    let both = ["address", "ada"];
    for _ in 0..3 {
        let admitted = attempt(&*subject.store(), &both, at(0)).await;
        assert_eq!(admitted, Admission::Admitted);
    }
    subject.restart().await;
    let store = subject.store();
    assert_eq!(attempt(&*store, &both, at(0)).await, wait(1));
    assert_eq!(
        attempt(&*store, &["address", "grace"], at(0)).await,
        wait(1),
        "of the address"
    );
    for _ in 0..3 {
        let of_grace = attempt(&*store, &["grace"], at(0)).await;
        assert_eq!(
            of_grace,
            Admission::Admitted,
            "what waits at a key counts for no key behind it"
        );
    }
    assert_eq!(attempt(&*store, &both, at(1)).await, Admission::Admitted);
    assert_eq!(attempt(&*store, &both, at(1)).await, wait(2));
    let [address, ada] = both.map(|key| Digest::of(key.as_bytes()));
    let forgiven = store.forgive_attempt(Some(ada), vec![address]);
    forgiven.await.unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    assert_eq!(attempt(&*store, &["ada"], at(1)).await, Admission::Admitted);
    assert_eq!(
        attempt(&*store, &["address"], at(1)).await,
        wait(1),
        "three of four failures are left"
    );
    assert_eq!(store.sweep(at(601), 100).await.unwrap().removed, 0);
    assert_eq!(store.sweep(at(602), 100).await.unwrap().removed, 1);
    store.sweep(at(10_000), 100).await.unwrap();
    for _ in 0..3 {
        let admitted = attempt(&*store, &both, at(10_000)).await;
        assert_eq!(admitted, Admission::Admitted, "all is forgotten");
    }
}

pub(crate) async fn attempts_that_wait_count_for_the_keys_before_the_one_that_waits(
    subject: &mut impl Subject,
) {
    let keys = ["address", "account from network", "account"];
    for _ in 0..3 {
        // From another address.
        let admitted = attempt(&*subject.store(), &keys[1..], at(0)).await;
        assert_eq!(admitted, Admission::Admitted);
    }
    subject.restart().await;
    let store = subject.store();
    for _ in 0..3 {
        let waits = attempt(&*store, &keys, at(0)).await;
        assert_eq!(waits, Admission::Wait(Duration::from_secs(1)));
    }
    let of = async |key: &str, now| attempt(&*store, &[key], now).await;
    assert_ne!(
        of("address", at(0)).await,
        Admission::Admitted,
        "it counted"
    );
    let account = of("account", at(1)).await;
    assert_eq!(account, Admission::Admitted, "three failures, not six");
    // An attempt without a result is removed from all keys.
    let take_back = vec![Digest::of(b"account"), Digest::of(b"never seen")];
    store.forgive_attempt(None, take_back).await.unwrap();
    assert_eq!(of("account", at(3)).await, Admission::Admitted);
}

pub(crate) async fn parallel_attempts_are_admitted_as_consecutive_ones(subject: &mut impl Subject) {
    let mut attempts = JoinSet::new();
    for _ in 0..PARALLEL {
        let store = subject.store();
        attempts.spawn(async move { attempt(&*store, &["ada", "address"], at(0)).await });
    }
    let admissions = attempts.join_all().await;
    let admitted = admissions
        .iter()
        .filter(|admission| **admission == Admission::Admitted);
    assert_eq!(admitted.count(), 3);
}
