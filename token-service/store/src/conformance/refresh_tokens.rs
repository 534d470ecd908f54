//! Refresh tokens (D-3).

use super::*;

pub(crate) async fn refresh_rotates(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    let mut live = grant.current.refresh_id;
    for second in [10, 100, 1000] {
        subject.restart().await;
        let rotation = use_of(&grant, live, at(second));
        let (rotated, _, _) = rotated_of(refresh(&*subject.store(), rotation.clone()).await);
        assert_eq!(rotated.current.refresh_id, rotation.next_refresh_id);
        assert_eq!(rotated.current.access_id, rotation.next_access_id);
        assert_eq!(rotated.current.refresh_expires_at, at(second) + WEEK);
        live = rotation.next_refresh_id;
    }
    let missing = RefreshRotation {
        grant_id: GrantId::generate(&OsRandom, at(0)).unwrap(),
        ..use_of(&grant, live, at(1001))
    };
    assert_eq!(
        refresh(&*subject.store(), missing).await,
        Rotation::Refused(RotationRefusal::Unknown)
    );
}

/// D-56.
pub(crate) async fn a_refresh_needs_the_second_factor_that_is_required(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    let rotation = use_of(&grant, grant.current.refresh_id, at(10));
    let everybody = SecondFactorRules {
        everybody: true,
        ..SecondFactorRules::default()
    };
    let ruled = RefreshRotation {
        second_factor: Arc::new(everybody),
        ..rotation.clone()
    };
    let refused = Rotation::Refused(RotationRefusal::SecondFactorMissing);
    assert_eq!(refresh(&*subject.store(), ruled).await, refused);
    subject.restart().await;
    // Without the rule, the same token is good.
    rotated_of(refresh(&*subject.store(), rotation).await);
}

pub(crate) async fn a_repeated_refresh_within_the_grace_gets_the_same_answer(
    subject: &mut impl Subject,
) {
    let grant = grant_of(&*subject.store(), code()).await;
    let first = grant.current.refresh_id;
    let rotation = use_of(&grant, first, at(100));
    let (rotated, _, _) = rotated_of(refresh(&*subject.store(), rotation).await);
    for second in [100, 105, 110] {
        subject.restart().await;
        let repeated = use_of(&grant, first, at(second));
        let Rotation::Repeated { step, .. } = refresh(&*subject.store(), repeated).await else {
            panic!("second {second} is within the grace");
        };
        assert_eq!(step, rotated.current);
    }
    let late = use_of(&grant, first, at(111));
    assert_eq!(
        refresh(&*subject.store(), late).await,
        Rotation::Reused(grant.grant_id),
        "the grace counts from the first use"
    );
}

pub(crate) async fn a_reused_refresh_token_revokes_its_grant_alone(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    let other_device = grant_of(&*subject.store(), code()).await;
    let stolen = grant.current.refresh_id;
    let rotation = use_of(&grant, stolen, at(100));
    refresh(&*subject.store(), rotation).await;
    subject.restart().await;
    let reuse = use_of(&grant, stolen, at(200));
    assert_eq!(
        refresh(&*subject.store(), reuse).await,
        Rotation::Reused(grant.grant_id)
    );
    let store = subject.restarted().await;
    assert!(is_revoked(&*store, &grant).await);
    assert!(!is_revoked(&*store, &other_device).await);
    assert_eq!(feed(&*store).await, [Revoked::Grant(grant.grant_id)]);
}

pub(crate) async fn parallel_refreshes_have_one_successor(subject: &mut impl Subject) {
    for _ in 0..10 {
        let grant = grant_of(&*subject.store(), code()).await;
        let outcomes = in_parallel(subject, PARALLEL, |store, _| {
            let rotation = use_of(&grant, grant.current.refresh_id, at(5));
            async move { refresh(&*store, rotation).await }
        });
        let outcomes = outcomes.await.into_iter();
        let mut rotated = 0;
        let successors: BTreeSet<String> = outcomes
            .map(|outcome| match outcome {
                Rotation::Rotated { grant, .. } => {
                    rotated += 1;
                    grant.current.refresh_id.to_string()
                }
                Rotation::Repeated { step, .. } => step.refresh_id.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((rotated, successors.len()), (1, 1));
    }
}

/// D-42.
pub(crate) async fn a_refresh_leaves_the_scopes_that_the_client_lost(subject: &mut impl Subject) {
    use domain::testing::scope;
    let registered = |text: &str| put(vec![client("web").with_scopes(text)], vec![]);
    let store = subject.store();
    let both = registered("documents projects");
    apply(&*store, both, 0).await;
    let record = CodeRecord {
        scope: scope("documents projects"),
        ..code()
    };
    let grant = grant_of(&*store, record.clone()).await;
    let code = self_contained(&*store, record).await;
    let less = registered("projects users");
    apply(&*store, less, 1).await;
    let store = subject.again(store).await;
    let (other, step) = redeemed_of(redeem(&*store, &code, fitting(), at(2)).await);
    assert_eq!(step.scope, scope("projects"));
    let first = other.current;
    let rotation = use_of(&grant, grant.current.refresh_id, at(2));
    let (grant, step, asked) = rotated_of(refresh(&*store, rotation).await);
    assert_eq!(step.scope, scope("projects"));
    assert_eq!(asked, scope("documents projects"));
    drop(store);
    subject.restart().await;
    // The user's authorization of a scope lasts as long as the grant.
    let store = subject.store();
    let stored = store.grant(grant.grant_id).await.unwrap().unwrap();
    assert_eq!(stored.scope, scope("documents projects"));
    let again = registered("documents projects users");
    apply(&*store, again, 3).await;
    let rotation = use_of(&grant, step.refresh_id, at(4));
    let (_, step, asked) = rotated_of(refresh(&*store, rotation).await);
    assert_eq!(step.scope, scope("documents projects"));
    assert_eq!(asked, step.scope);
    // Nor does it matter when the scope was away: here, while the code was redeemed.
    let rotation = RefreshRotation {
        grant_id: other.grant_id,
        ..use_of(&grant, first.refresh_id, at(4))
    };
    let (_, step, _) = rotated_of(refresh(&*store, rotation).await);
    assert_eq!(step.scope, scope("documents projects"));
}

/// D-50, RFC 9700 §4.14.
pub(crate) async fn a_refresh_does_not_bind_and_reuse_ends_the_grant(subject: &mut impl Subject) {
    bind_to_certificates(&*subject.store()).await;
    for proof_of in [of_key, of_certificate] {
        let (owner, thief) = (
            Some(Thumbprint::of(b"owner")),
            Some(Thumbprint::of(b"thief")),
        );
        for (first, second) in [(None, thief), (thief, None), (owner, thief), (thief, owner)] {
            let grant = grant_of(&*subject.store(), code()).await;
            let stolen = grant.current.refresh_id;
            let with = |key, refresh_id, now| RefreshRotation {
                proven: proof_of(key),
                ..use_of(&grant, refresh_id, now)
            };
            let rotation = with(first, stolen, at(1));
            let next = rotation.next_refresh_id;
            rotated_of(refresh(&*subject.store(), rotation).await);
            let store = subject.restarted().await;
            let repeated = store.rotate_refresh(with(second, stolen, at(2))).await;
            let Ok(Rotation::Repeated { step, .. }) = repeated else {
                panic!("{repeated:?}");
            };
            assert_eq!(step.refresh_id, next);
            let stored = store.grant(grant.grant_id).await.unwrap().unwrap();
            assert_eq!(stored.bound, Confirmation::default());
            let reused = store.rotate_refresh(with(second, stolen, at(100))).await;
            assert_eq!(reused, Ok(Rotation::Reused(grant.grant_id)));
            let over = store.rotate_refresh(with(first, next, at(100))).await;
            assert_eq!(over, Ok(Rotation::Refused(RotationRefusal::Revoked)));
        }
    }
}

/// RFC 9449 §5, RFC 8705 §4, D-39.
pub(crate) async fn a_bound_refresh_token_needs_its_key_or_certificate(subject: &mut impl Subject) {
    bind_to_certificates(&*subject.store()).await;
    refreshes_with(subject, of_key, RotationRefusal::OtherKey).await;
    refreshes_with(subject, of_certificate, RotationRefusal::OtherCertificate).await;
}

async fn refreshes_with(
    subject: &mut impl Subject,
    proof_of: fn(Option<Thumbprint>) -> Confirmation,
    refusal: RotationRefusal,
) {
    let (key, other) = (Thumbprint::of(b"key"), Thumbprint::of(b"other"));
    let grant = grant_with(&*subject.store(), code(), proof_of(Some(key))).await;
    let first = grant.current.refresh_id;
    let with = |key, refresh_id, now| RefreshRotation {
        proven: proof_of(key),
        ..use_of(&grant, refresh_id, now)
    };
    let rotation = with(Some(key), first, at(1));
    let second = rotation.next_refresh_id;
    rotated_of(refresh(&*subject.store(), rotation).await);
    subject.restart().await;
    let stored = subject.store().grant(grant.grant_id).await.unwrap();
    assert_eq!(stored.unwrap().bound, proof_of(Some(key)));
    let refused = Rotation::Refused(refusal);
    for wrong in [None, Some(other)] {
        // Not even a token whose reuse would revoke the grant.
        for (token, now) in [(first, at(2)), (second, at(2)), (first, at(100))] {
            let rotation = with(wrong, token, now);
            let outcome = refresh(&*subject.store(), rotation).await;
            assert_eq!(outcome, refused);
        }
    }
    let repeated = with(Some(key), first, at(3));
    let repeated = refresh(&*subject.store(), repeated).await;
    assert!(
        matches!(repeated, Rotation::Repeated { .. }),
        "{repeated:?}"
    );
    let rotation = with(Some(key), second, at(100));
    rotated_of(refresh(&*subject.store(), rotation).await);
}
