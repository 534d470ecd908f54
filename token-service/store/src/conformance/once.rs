//! Values that may be used once.

use super::*;

pub(crate) async fn claim(store: &dyn Store, client: &str, jti: &str, now: Timestamp) -> Claim {
    store
        .claim_jti(
            AssertionId::of_user_assertion(&client_id(client), jti),
            now + Duration::from_secs(60),
            now,
        )
        .await
        .unwrap()
}

pub(crate) async fn an_assertion_id_is_claimed_once_per_client(subject: &mut impl Subject) {
    assert_eq!(
        claim(&*subject.store(), "a", "1", at(0)).await,
        Claim::Claimed
    );
    subject.restart().await;
    for (client, jti, now, claimed) in [
        ("a", "1", at(0), true),
        ("a", "1", at(59), true),
        ("a", "1", at(60), false),
        ("a", "2", at(0), false),
        ("b", "1", at(0), false),
    ] {
        let asked = subject
            .store()
            .is_jti_claimed(AssertionId::of_user_assertion(&client_id(client), jti), now)
            .await;
        assert_eq!(asked.unwrap(), claimed, "{client} {jti} {now}");
    }
    let store = subject.store();
    assert_eq!(
        claim(&*store, "a", "1", at(59)).await,
        Claim::AlreadyClaimed
    );
    assert_eq!(claim(&*store, "b", "1", at(59)).await, Claim::Claimed);
    assert_eq!(claim(&*store, "a", "2", at(59)).await, Claim::Claimed);
    store.sweep(at(60), at(60), 100).await.unwrap();
    assert_eq!(
        claim(&*store, "a", "1", at(60)).await,
        Claim::Claimed,
        "the assertion that had it has expired"
    );
    store.sweep(at(61), at(61), 100).await.unwrap();
    assert_eq!(
        claim(&*store, "a", "1", at(61)).await,
        Claim::AlreadyClaimed
    );
}

pub(crate) async fn parallel_claims_have_one_winner(subject: &mut impl Subject) {
    for round in 0..10 {
        let mut tasks = JoinSet::new();
        for _ in 0..PARALLEL {
            let store = subject.store();
            tasks.spawn(async move { claim(&*store, "a", &format!("jti-{round}"), at(0)).await });
        }
        let outcomes = tasks.join_all().await;
        let won = outcomes
            .iter()
            .filter(|outcome| **outcome == Claim::Claimed);
        assert_eq!(won.count(), 1);
    }
}

pub(crate) async fn a_totp_step_is_claimed_once(subject: &mut impl Subject) {
    let ada = || username("ada");
    let claim =
        async |store: Arc<dyn Store>, name, step| store.claim_totp_step(name, step).await.unwrap();
    assert_eq!(claim(subject.store(), ada(), 10).await, Claim::Claimed);
    subject.restart().await;
    assert_eq!(
        claim(subject.store(), ada(), 10).await,
        Claim::AlreadyClaimed
    );
    assert_eq!(
        claim(subject.store(), ada(), 9).await,
        Claim::AlreadyClaimed
    );
    assert_eq!(
        claim(subject.store(), username("grace"), 10).await,
        Claim::Claimed
    );
    assert_eq!(claim(subject.store(), ada(), 11).await, Claim::Claimed);
}
