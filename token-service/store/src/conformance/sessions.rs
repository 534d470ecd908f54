//! Sign-in sessions.

use super::*;

pub(crate) async fn sessions_start_end_and_expire(subject: &mut impl Subject) {
    let id = Digest::of(b"session");
    let started = start(&*subject.store(), id, session("ada", at(100)), None).await;
    let store = subject.restarted().await;
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
    let store = subject.again(store).await;
    assert_eq!(store.session(unknown, at(99)).await.unwrap(), None);
    assert_eq!(sweep(&*store, at(199)).await.removed, 0);
    assert!(store.session(id, at(199)).await.unwrap().is_some());
    store.extend_session(id, at(300), at(200)).await.unwrap();
    assert_eq!(store.session(id, at(200)).await.unwrap(), None);
    assert_eq!(sweep(&*store, at(201)).await.removed, 1);
}

/// The numbers of the live sessions of a user, of those that this file starts.
async fn held_by(store: &dyn Store, name: &str) -> Vec<usize> {
    let sessions = store.sessions(username(name), at(50)).await.unwrap();
    let numbers = sessions.into_iter().map(|(id, session)| {
        assert_eq!(session.username.as_str(), name);
        (0..9)
            .find(|number| numbered("held", *number) == id)
            .unwrap()
    });
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

pub(crate) async fn a_person_ends_own_sessions_alone(subject: &mut impl Subject) {
    let id = |number| numbered("held", number);
    let store = subject.store();
    let place = SessionPlace {
        network: "192.0.2.1".into(),
        browser: "Firefox".into(),
        system: "Linux".into(),
    };
    let placed = Session {
        place,
        ..session("ada", at(100))
    };
    let placed = start(&*store, id(0), placed, None).await;
    start(&*store, id(1), session("ada", at(100)), None).await;
    start(&*store, id(2), owed("a", at(0)), None).await;
    start(&*store, id(3), session("grace", at(100)), None).await;
    start(&*store, id(4), session("ada", at(50)), None).await;
    store.extend_session(id(0), at(200), at(40)).await.unwrap();
    let store = subject.again(store).await;
    assert_eq!(held_by(&*store, "ada").await, [0, 1, 2], "live ones");
    let used = Session {
        used_at: at(40),
        expires_at: at(200),
        ..placed
    };
    assert_eq!(store.session(id(0), at(50)).await, Ok(Some(used)));

    let end = async |store: &dyn Store, which| {
        let entry = audit_event(50);
        let audit = [entry.clone()].into();
        let ended = store
            .end_sessions(username("ada"), which, audit, at(50))
            .await;
        let newest = store.audit(AuditRange::Before(None), 1).await.unwrap();
        (ended.unwrap(), newest.len())
    };
    for of_nobody in [id(3), id(8)] {
        let ended = end(&*store, EndingSessions::One(of_nobody)).await;
        assert_eq!(ended, (0, 1));
    }
    assert_eq!(end(&*store, EndingSessions::One(id(1))).await, (1, 1));
    assert_eq!(held_by(&*store, "ada").await, [0, 2]);
    // Those that expired without a sweep are among them.
    assert_eq!(end(&*store, EndingSessions::Others(id(0))).await, (2, 1));
    let store = subject.again(store).await;
    assert_eq!(held_by(&*store, "ada").await, [0]);
    assert_eq!(held_by(&*store, "grace").await, [3]);
}

pub(crate) async fn a_session_replaces_another(subject: &mut impl Subject) {
    let (old, new) = (Digest::of(b"old"), Digest::of(b"new"));
    let store = subject.store();
    start(&*store, old, session("ada", at(100)), None).await;
    start(&*store, new, session("ada", at(200)), Some(old)).await;
    let store = subject.again(store).await;
    assert_eq!(store.session(old, at(1)).await.unwrap(), None);
    assert!(store.session(new, at(1)).await.unwrap().is_some());
}

/// The networks of the sign-ins that a complete one tells of, and the number of earlier ones.
async fn told(store: &dyn Store, replaces: Option<Digest>) -> (Vec<String>, u64) {
    let complete = Session {
        credentials_version: version_of(store, &username("ada")).await,
        ..session("ada", at(900))
    };
    let id = Digest::of(b"complete");
    match store.start_session(id, complete, replaces).await.unwrap() {
        SessionBegin::Begun(UnfinishedSignIns { newest, earlier }) => {
            let newest = newest.into_iter().map(|one| one.network);
            (newest.collect(), earlier)
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_complete_sign_in_tells_of_unfinished_ones(subject: &mut impl Subject) {
    let id = |number| numbered("owed", number);
    let store = subject.store();
    assert_eq!(told(&*store, None).await, (vec![], 0));
    for (number, network) in ["a", "b"].into_iter().enumerate() {
        start(&*store, id(number), owed(network, at(1)), None).await;
    }
    // The same browser again, which then gives the second factor too.
    start(&*store, id(2), owed("c", at(2)), None).await;
    start(&*store, id(3), owed("d", at(3)), Some(id(2))).await;
    let other = Session {
        username: username("grace"),
        ..owed("e", at(3))
    };
    start(&*store, id(4), other, None).await;
    // They are told of even when their sessions are over.
    store.end_session(id(0)).await.unwrap();
    sweep(&*store, at(5000)).await;
    let store = subject.again(store).await;
    let expected = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(told(&*store, Some(id(3))).await, (expected, 0));
    let store = subject.again(store).await;
    assert_eq!(told(&*store, None).await, (vec![], 0), "once");

    let listed = UnfinishedSignIns::LISTED;
    for number in 0..listed + 3 {
        start(&*store, id(number), owed("f", at(6)), None).await;
    }
    assert_eq!(told(&*store, None).await, (vec!["f".to_owned(); listed], 3));
    start(&*store, id(0), owed("g", at(7)), None).await;
    set_factor(&*store, "ada", None, at(8)).await;
    assert_eq!(told(&*store, None).await, (vec![], 0), "other credentials");
}
