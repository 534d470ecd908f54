//! Sweeping and counting.

use super::*;

/// For a store that was opened with twice [`ACCESS`], and then again with [`ACCESS`].
pub(crate) async fn assert_a_longer_lifetime_holds(store: &dyn Store) {
    assert_eq!(store.longest_token(), ACCESS * 2);
    let grant = grant_of(store, code()).await;
    revoke(store, &grant, at(5)).await;
    let entries = entries_since(store, 0, 10).await;
    assert_eq!(entries[0].expires_at, at(5) + ACCESS * 2);
    sweep(store, at(5)).await;
    assert_eq!(store.longest_token(), ACCESS * 2);
    sweep(
        store,
        at(5) + ACCESS * 2 + crate::token_lifetime::LIFETIME_MARGIN,
    )
    .await;
    assert_eq!(store.longest_token(), ACCESS);
}

/// Writes rows whose secrets the store must have only as digests. Returns the secrets, which must not be in the store.
pub(crate) async fn present_secrets(store: &dyn Store) -> [&'static str; 3] {
    let secrets = ["a-secret-code", "a-secret-session", "a-secret-jti"];
    let [text, id, jti] = secrets;
    issue_legacy(store, text, code()).await;
    start(
        store,
        Digest::of(id.as_bytes()),
        session("ada", at(100)),
        None,
    )
    .await;
    assert_eq!(use_id(store, "web", jti, at(0)).await, Use::First);
    secrets
}

/// A hash that [`rehash`] replaces.
pub(crate) const WEAK: &str =
    "$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA";

pub(crate) async fn register_weak(store: &dyn Store) {
    let weak = User {
        password_hash: Some(WEAK.into()),
        ..user("ada")
    };
    apply(store, put(vec![], vec![weak]), 0).await;
}

pub(crate) async fn rehash(store: &dyn Store) {
    let stronger = store.rehash_password(username("ada"), WEAK.into(), "stronger".into());
    stronger.await.unwrap();
}

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
        revocations: 1,
        audit_entries: 1,
        ..Counts::default()
    };
    assert_eq!(subject.store().counts().await.unwrap(), expected);
}

pub(crate) async fn the_sweep_removes_what_is_over_and_nothing_else(subject: &mut impl Subject) {
    let store = subject.store();
    let dead = grant_of(&*store, code()).await;
    let revoked = grant_of(&*store, code()).await;
    let alive = grant_of(&*store, code()).await;
    let refreshed = use_of(&alive, alive.current.refresh_id, at(1000));
    refresh(&*store, refreshed).await;
    store
        .revoke_grant(revoked.grant_id, Arc::default(), at(0))
        .await
        .unwrap();
    issue_legacy(&*store, "c", code()).await;
    let id = Digest::of(b"session");
    start(&*store, id, session("ada", at(0) + WEEK + WEEK), None).await;
    let store = subject.again(store).await;
    let remembered = async |grant: &Grant| store.grant(grant.grant_id).await.unwrap().is_some();
    sweep(&*store, at(0) + ACCESS).await;
    assert!(
        remembered(&revoked).await,
        "its access token lives to the end of the hour"
    );
    sweep(&*store, at(1) + ACCESS).await;
    assert!(!remembered(&revoked).await);
    assert!(remembered(&dead).await);
    assert_eq!(
        redeem_legacy(&*store, "c", fitting(), at(1)).await,
        Redemption::Unknown,
        "an expired code is forgotten"
    );
    sweep(&*store, at(0) + WEEK).await;
    assert!(remembered(&dead).await);
    sweep(&*store, at(1) + WEEK).await;
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
    let store = subject.again(store).await;
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
