//! Sweeping and counting.

use super::*;

pub(crate) async fn rows_are_counted(subject: &mut impl Subject) {
    assert_eq!(subject.store().counts().await.unwrap(), Counts::default());
    let grant = grant_of(&*subject.store(), code()).await;
    let store = subject.store();
    store
        .revoke_grant(grant.grant_id, Arc::default(), at(1))
        .await
        .unwrap();
    store.append_audit([audit_event(0)].into()).await.unwrap();
    drop(store);
    subject.restart().await;
    let expected = Counts {
        clients: 1,
        users: 1,
        grants: 1,
        sessions: 0,
        revocations: 1,
        audit_entries: 1,
    };
    assert_eq!(subject.store().counts().await.unwrap(), expected);
}

pub(crate) async fn the_sweep_removes_what_is_over_and_nothing_else(subject: &mut impl Subject) {
    let store = subject.store();
    let dead = grant_of(&*store, code()).await;
    let revoked = grant_of(&*store, code()).await;
    let alive = grant_of(&*store, code()).await;
    let refreshed = use_of(&alive, alive.current.refresh_id, at(1000));
    store.rotate_refresh(refreshed).await.unwrap();
    store
        .revoke_grant(revoked.grant_id, Arc::default(), at(0))
        .await
        .unwrap();
    issue_legacy(&*store, "c", code()).await;
    let id = Digest::of(b"session");
    start(&*store, id, session("ada", at(0) + WEEK + WEEK), None).await;
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let remembered = async |grant: &Grant| store.grant(grant.grant_id).await.unwrap().is_some();
    store
        .sweep(at(0) + ACCESS, at(0) + ACCESS, 100)
        .await
        .unwrap();
    assert!(
        remembered(&revoked).await,
        "its access token lives to the end of the hour"
    );
    store
        .sweep(at(1) + ACCESS, at(1) + ACCESS, 100)
        .await
        .unwrap();
    assert!(!remembered(&revoked).await);
    assert!(remembered(&dead).await);
    assert_eq!(
        redeem_legacy(&*store, "c", fitting(), at(1)).await,
        Redemption::Unknown,
        "an expired code is forgotten"
    );
    store.sweep(at(0) + WEEK, at(0) + WEEK, 100).await.unwrap();
    assert!(remembered(&dead).await);
    store.sweep(at(1) + WEEK, at(1) + WEEK, 100).await.unwrap();
    assert!(!remembered(&dead).await);
    assert!(remembered(&alive).await);
    assert!(store.session(id, at(1) + WEEK).await.unwrap().is_some());
}

pub(crate) async fn the_sweep_keeps_to_its_limit(subject: &mut impl Subject) {
    let store = subject.store();
    for number in 0..25 {
        use_id(&*store, "a", &format!("jti-{number}"), at(0)).await;
    }
    drop(store);
    subject.restart().await;
    let mut swept = Vec::new();
    loop {
        let Swept { removed, more } = subject.store().sweep(at(100), at(100), 10).await.unwrap();
        swept.push(removed);
        if !more {
            break;
        }
    }
    assert_eq!(swept, [10, 10, 5]);
}

pub(crate) async fn the_sweep_finds_expired_assertion_ids_among_live_ones(
    subject: &mut impl Subject,
) {
    const EACH: usize = 50;
    let store = subject.store();
    for number in 0..EACH {
        use_id(&*store, "a", &format!("expired-{number}"), at(0)).await;
        use_id(&*store, "a", &format!("live-{number}"), at(1000)).await;
    }
    let mut removed = 0;
    // A batch may find no expired id, because it reads only a part of the ids.
    for _ in 0..EACH {
        removed += store.sweep(at(100), at(100), 2).await.unwrap().removed;
    }
    assert_eq!(removed, EACH);
    drop(store);
    subject.restart().await;
    let store = subject.store();
    for number in 0..EACH {
        let live = format!("live-{number}");
        let id = OnceId::of_user_assertion(&client_id("a"), &live);
        let again = store.use_once(id, at(1000), at(100));
        assert_eq!(again.await, Ok(Use::Again));
    }
}

pub(crate) async fn a_sweep_notes_its_time(subject: &mut impl Subject) {
    assert!(subject.store().swept_at().await.unwrap() > Timestamp::default());
    let swept = subject.store().sweep(at(5), at(4000), 10).await;
    assert_eq!(swept, Ok(Swept::default()));
    subject.restart().await;
    assert_eq!(subject.store().swept_at().await, Ok(at(5)));
}
