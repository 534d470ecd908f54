//! What holds for only codes of the legacy flow (D-2).

use super::*;

pub(crate) async fn a_legacy_code_is_redeemed_once(subject: &mut impl Subject) {
    let store = subject.store();
    issue_legacy(&*store, "c", code()).await;
    let store = subject.again(store).await;
    let (grant, _) = redeemed_of(redeem_legacy(&*store, "c", fitting(), at(59)).await);
    assert_eq!(grant.username, username("ada"));
    assert_eq!(grant.current.scope, code().scope);
    drop(store);
    subject.restart().await;
    let stored = subject.store().grant(grant.grant_id).await.unwrap();
    assert_eq!(stored, Some(*grant));
    let unknown = redeem_legacy(&*subject.store(), "another", fitting(), at(59)).await;
    assert_eq!(unknown, Redemption::Unknown);
}

pub(crate) async fn a_used_legacy_code_is_remembered_and_then_forgotten(
    subject: &mut impl Subject,
) {
    let store = subject.store();
    issue_legacy(&*store, "c", code()).await;
    redeem_legacy(&*store, "c", fitting(), at(1)).await;
    let last = code().expires_at + USED_CODE_RETENTION;
    sweep(&*store, code().expires_at).await;
    sweep(&*store, at(61)).await;
    sweep(&*store, last).await;
    let store = subject.again(store).await;
    let replayed = redeem_legacy(&*store, "c", fitting(), last).await;
    assert!(matches!(replayed, Redemption::Replayed(_)));
    let after = last + Duration::from_secs(1);
    sweep(&*store, after).await;
    assert_eq!(
        redeem_legacy(&*store, "c", fitting(), after).await,
        Redemption::Unknown
    );
}
