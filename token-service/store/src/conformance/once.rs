//! Values that may be used once.

use super::*;

pub(crate) async fn use_id(store: &dyn Store, client: &str, jti: &str, now: Timestamp) -> Use {
    let id = OnceId::of_user_assertion(&client_id(client), jti);
    let used = patiently(|| store.use_once(id, now + Duration::from_secs(60), now));
    used.await.unwrap()
}

pub(crate) async fn an_assertion_id_works_once_per_client(subject: &mut impl Subject) {
    assert_eq!(use_id(&*subject.store(), "a", "1", at(0)).await, Use::First);
    subject.restart().await;
    for (client, jti, now, used) in [
        ("a", "1", at(0), true),
        ("a", "1", at(59), true),
        ("a", "1", at(60), false),
        ("a", "2", at(0), false),
        ("b", "1", at(0), false),
    ] {
        let asked = subject
            .store()
            .is_used(OnceId::of_user_assertion(&client_id(client), jti), now)
            .await;
        assert_eq!(asked.unwrap(), used, "{client} {jti} {now}");
    }
    let store = subject.store();
    for other in [
        OnceId::of_provider_assertion("a", "1"),
        OnceId::of_client_assertion(&client_id("a"), "1"),
    ] {
        assert!(!store.is_used(other, at(0)).await.unwrap(), "another kind");
    }
    assert_eq!(use_id(&*store, "a", "1", at(59)).await, Use::Again);
    assert_eq!(use_id(&*store, "b", "1", at(59)).await, Use::First);
    assert_eq!(use_id(&*store, "a", "2", at(59)).await, Use::First);
    sweep(&*store, at(60)).await;
    assert_eq!(
        use_id(&*store, "a", "1", at(60)).await,
        Use::First,
        "the assertion that had it has expired"
    );
    sweep(&*store, at(61)).await;
    assert_eq!(use_id(&*store, "a", "1", at(61)).await, Use::Again);
}

pub(crate) async fn of_parallel_uses_one_is_the_first(subject: &mut impl Subject) {
    for round in 0..10 {
        let uses = in_parallel(subject, PARALLEL, |store, _| async move {
            use_id(&*store, "a", &format!("jti-{round}"), at(0)).await
        });
        let won = uses.await.into_iter().filter(|used| *used == Use::First);
        assert_eq!(won.count(), 1);
    }
}

pub(crate) async fn a_totp_step_works_once(subject: &mut impl Subject) {
    let ada = || username("ada");
    let use_id =
        async |store: Arc<dyn Store>, name, step| store.use_totp_step(name, step).await.unwrap();
    assert_eq!(use_id(subject.store(), ada(), 10).await, Use::First);
    subject.restart().await;
    assert_eq!(use_id(subject.store(), ada(), 10).await, Use::Again);
    assert_eq!(use_id(subject.store(), ada(), 9).await, Use::Again);
    assert_eq!(
        use_id(subject.store(), username("grace"), 10).await,
        Use::First
    );
    assert_eq!(use_id(subject.store(), ada(), 11).await, Use::First);
}
