//! Legacy authorization codes (D-2).

use super::*;

pub(crate) async fn a_legacy_code_is_redeemed_once(subject: &mut impl Subject) {
    let store = subject.store();
    issue_legacy(&*store, "c", code()).await;
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let Redemption::Redeemed(grant) = redeem_legacy(&*store, "c", fitting(), at(59)).await else {
        panic!("the code fits");
    };
    assert_eq!(grant.username, username("ada"));
    assert_eq!(grant.current.scope, code().scope);
    drop(store);
    subject.restart().await;
    let stored = subject.store().grant(grant.grant_id).await.unwrap();
    assert_eq!(stored, Some(*grant));
    let unknown = redeem_legacy(&*subject.store(), "another", fitting(), at(59)).await;
    assert_eq!(unknown, Redemption::Unknown);
}

pub(crate) async fn a_replayed_legacy_code_revokes_its_grant(subject: &mut impl Subject) {
    let store = subject.store();
    issue_legacy(&*store, "c", code()).await;
    let Redemption::Redeemed(grant) = redeem_legacy(&*store, "c", fitting(), at(1)).await else {
        panic!("the code fits");
    };
    drop(store);
    subject.restart().await;
    let store = subject.store();
    for (presented, mismatch) in misfits() {
        assert_eq!(
            redeem_legacy(&*store, "c", presented, at(2)).await,
            Redemption::Mismatch(mismatch)
        );
        assert!(
            !is_revoked(&*store, &grant).await,
            "a stranger ends nothing"
        );
    }
    let replayed = redeem_legacy(&*store, "c", fitting(), at(300)).await;
    assert_eq!(replayed, Redemption::Replayed(grant.grant_id));
    drop(store);
    subject.restart().await;
    let store = subject.store();
    assert!(is_revoked(&*store, &grant).await);
    assert_eq!(feed(&*store).await, [Revoked::Grant(grant.grant_id)]);
    let again = redeem_legacy(&*store, "c", fitting(), at(301)).await;
    assert_eq!(again, Redemption::Replayed(grant.grant_id));
    assert_eq!(feed(&*store).await.len(), 1, "announced once");
}

pub(crate) async fn a_used_legacy_code_is_remembered_and_then_forgotten(
    subject: &mut impl Subject,
) {
    let store = subject.store();
    issue_legacy(&*store, "c", code()).await;
    redeem_legacy(&*store, "c", fitting(), at(1)).await;
    let last = code().expires_at + USED_CODE_RETENTION;
    store.sweep(code().expires_at, 100).await.unwrap();
    store.sweep(at(61), 100).await.unwrap();
    store.sweep(last, 100).await.unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let replayed = redeem_legacy(&*store, "c", fitting(), last).await;
    assert!(matches!(replayed, Redemption::Replayed(_)));
    let after = last + Duration::from_secs(1);
    store.sweep(after, 100).await.unwrap();
    assert_eq!(
        redeem_legacy(&*store, "c", fitting(), after).await,
        Redemption::Unknown
    );
}

pub(crate) async fn a_mismatch_leaves_the_legacy_code_to_its_client(subject: &mut impl Subject) {
    let store = subject.store();
    issue_legacy(&*store, "c", code()).await;
    for (presented, mismatch) in misfits() {
        assert_eq!(
            redeem_legacy(&*store, "c", presented, at(1)).await,
            Redemption::Mismatch(mismatch)
        );
    }
    assert_eq!(
        redeem_legacy(&*store, "c", fitting(), at(60)).await,
        Redemption::Mismatch(CodeMismatch::Expired)
    );
    assert!(matches!(
        redeem_legacy(&*store, "c", fitting(), at(59)).await,
        Redemption::Redeemed(_)
    ));
}

pub(crate) async fn parallel_redemptions_of_a_legacy_code_have_one_winner(
    subject: &mut impl Subject,
) {
    for round in 0..10 {
        let code_text = format!("c{round}");
        issue_legacy(&*subject.store(), &code_text, code()).await;
        let mut tasks = JoinSet::new();
        for _ in 0..PARALLEL {
            let (store, code_text) = (subject.store(), code_text.clone());
            tasks.spawn(async move { redeem_legacy(&*store, &code_text, fitting(), at(1)).await });
        }
        let outcomes = tasks.join_all().await;
        assert_one_winner(&outcomes, &*subject.store()).await;
    }
}
