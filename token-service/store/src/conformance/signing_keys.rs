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

pub(crate) async fn parallel_rotations_agree_on_one_signing_key(subject: &mut impl Subject) {
    for (round, unless_after) in [(0, None), (1, Some(at(0)))] {
        let mut tasks = JoinSet::new();
        for number in 0..PARALLEL {
            let store = subject.store();
            let kid = format!("kid-{round}-{number}");
            let key = signing_key(&kid, Algorithm::EdDsa, at(round));
            tasks.spawn(async move {
                store
                    .add_signing_key(key, unless_after, Arc::default())
                    .await
                    .unwrap()
            });
        }
        let added = tasks.join_all().await;
        assert_eq!(added.into_iter().filter(|added| *added).count(), 1);
        subject.restart().await;
    }
    let store = subject.store();
    let other = signing_key("another", Algorithm::Es256, at(2));
    assert!(
        store
            .add_signing_key(other.clone(), None, Arc::default())
            .await
            .unwrap()
    );
    let mut successor = signing_key("a successor", Algorithm::Es256, at(2));
    successor.signs_from = at(5);
    let added = store
        .add_signing_key(successor.clone(), Some(at(2)), Arc::default())
        .await;
    assert!(added.unwrap());
    let keys = store.signing_keys().await.unwrap();
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[2..], [other, successor], "oldest first");
}

pub(crate) async fn a_signing_key_retires_resumes_and_is_forgotten(subject: &mut impl Subject) {
    let key = signing_key("one", Algorithm::EdDsa, at(0));
    let added = subject
        .store()
        .add_signing_key(key, None, Arc::default())
        .await;
    assert!(added.unwrap());
    for retired_at in [Some(at(9)), None] {
        let store = subject.store();
        store
            .retire_signing_key("one".into(), retired_at)
            .await
            .unwrap();
        store
            .retire_signing_key("unknown".into(), retired_at)
            .await
            .unwrap();
        drop(store);
        subject.restart().await;
        let keys = subject.store().signing_keys().await.unwrap();
        let retired: Vec<_> = keys.iter().map(|key| key.retired_at).collect();
        assert_eq!(retired, [retired_at]);
    }
    let store = subject.store();
    assert!(
        store
            .forget_signing_key("one".into(), Arc::default())
            .await
            .unwrap()
    );
    assert!(
        !store
            .forget_signing_key("one".into(), Arc::default())
            .await
            .unwrap()
    );
    drop(store);
    subject.restart().await;
    assert!(subject.store().signing_keys().await.unwrap().is_empty());
}
