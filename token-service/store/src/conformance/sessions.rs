//! Sign-in sessions.

use super::*;

pub(crate) async fn sessions_start_end_and_expire(subject: &mut impl Subject) {
    let id = Digest::of(b"session");
    let started = start(&*subject.store(), id, session("ada", at(100)), None).await;
    subject.restart().await;
    let store = subject.store();
    assert_eq!(store.session(id, at(99)).await.unwrap(), Some(started));
    assert_eq!(store.session(id, at(100)).await.unwrap(), None);
    let other = Digest::of(b"other");
    assert_eq!(store.session(other, at(1)).await.unwrap(), None);
    store.end_session(other).await.unwrap();
    store.end_session(id).await.unwrap();
    drop(store);
    subject.restart().await;
    assert_eq!(subject.store().session(id, at(1)).await.unwrap(), None);
}

pub(crate) async fn a_session_lives_on_while_it_is_used(subject: &mut impl Subject) {
    let id = Digest::of(b"session");
    let store = subject.store();
    start(&*store, id, session("ada", at(100)), None).await;
    store.extend_session(id, at(200), at(99)).await.unwrap();
    let unknown = Digest::of(b"other");
    store
        .extend_session(unknown, at(200), at(99))
        .await
        .unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    assert_eq!(store.session(unknown, at(99)).await.unwrap(), None);
    assert_eq!(store.sweep(at(199), 100).await.unwrap().removed, 0);
    assert!(store.session(id, at(199)).await.unwrap().is_some());
    store.extend_session(id, at(300), at(200)).await.unwrap();
    assert_eq!(store.session(id, at(200)).await.unwrap(), None);
    assert_eq!(store.sweep(at(201), 100).await.unwrap().removed, 1);
}

pub(crate) async fn a_session_replaces_another(subject: &mut impl Subject) {
    let (old, new) = (Digest::of(b"old"), Digest::of(b"new"));
    let store = subject.store();
    start(&*store, old, session("ada", at(100)), None).await;
    start(&*store, new, session("ada", at(200)), Some(old)).await;
    drop(store);
    subject.restart().await;
    let store = subject.store();
    assert_eq!(store.session(old, at(1)).await.unwrap(), None);
    assert!(store.session(new, at(1)).await.unwrap().is_some());
}
