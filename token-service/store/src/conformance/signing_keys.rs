//! Signing keys.

use super::*;

pub(crate) fn signing_key(
    kid: &str,
    algorithm: Algorithm,
    created_at: Timestamp,
) -> SealedSigningKey {
    SealedSigningKey {
        kid: kid.into(),
        algorithm,
        sealed_pkcs8: vec![1, 2, 3],
        created_at,
        signs_from: created_at,
        number: 0,
        retired_at: None,
    }
}

/// Adds a signing key without an entry of the audit log. Returns true if it was added.
pub(crate) async fn add_key(
    store: &dyn Store,
    key: &SealedSigningKey,
    unless_after: Option<Timestamp>,
) -> bool {
    let added = patiently(|| store.add_signing_key(key.clone(), unless_after, Arc::default()));
    added.await.unwrap()
}

pub(crate) async fn parallel_rotations_agree_on_one_signing_key(subject: &mut impl Subject) {
    for (round, unless_after) in [(0, None), (1, Some(at(0)))] {
        let added = in_parallel(subject, PARALLEL, |store, number| {
            let kid = format!("kid-{round}-{number}");
            let key = signing_key(&kid, Algorithm::EdDsa, at(round));
            async move { add_key(&*store, &key, unless_after).await }
        });
        let added = added.await.into_iter();
        assert_eq!(added.filter(|added| *added).count(), 1);
        subject.restart().await;
    }
    let store = subject.store();
    let other = signing_key("another", Algorithm::Es256, at(2));
    assert!(add_key(&*store, &other, None).await);
    let mut successor = signing_key("a successor", Algorithm::Es256, at(2));
    successor.signs_from = at(5);
    assert!(add_key(&*store, &successor, Some(at(2))).await);
    let keys = store.signing_keys().await.unwrap();
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[2..], [other, successor], "oldest first");
}

pub(crate) async fn a_signing_key_retires_resumes_and_is_forgotten(subject: &mut impl Subject) {
    let key = signing_key("one", Algorithm::EdDsa, at(0));
    assert!(add_key(&*subject.store(), &key, None).await);
    for retired_at in [Some(at(9)), None] {
        let store = subject.store();
        for kid in ["one", "unknown"] {
            let retired = store.retire_signing_key(kid.into(), retired_at);
            retired.await.unwrap();
        }
        drop(store);
        subject.restart().await;
        let keys = subject.store().signing_keys().await.unwrap();
        let retired: Vec<_> = keys.iter().map(|key| key.retired_at).collect();
        assert_eq!(retired, [retired_at]);
    }
    let store = subject.store();
    for known in [true, false] {
        let forgotten = store.forget_signing_key("one".into(), Arc::default());
        assert_eq!(forgotten.await, Ok(known));
    }
    drop(store);
    subject.restart().await;
    assert!(subject.store().signing_keys().await.unwrap().is_empty());
}
