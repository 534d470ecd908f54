//! Credentials of users, and what a change of them ends (D-35).

use super::*;

/// Changes the credentials of ada in one of several ways. The rest of the registration stays the same.
pub(crate) async fn change_credentials(store: &dyn Store, way: usize) {
    change_credentials_at(store, way, 5).await;
}

pub(crate) async fn change_credentials_at(store: &dyn Store, way: usize, second: u64) {
    let ada = username("ada");
    let put_user = async |changed: User| {
        apply(store, put(vec![], vec![changed]), second).await;
    };
    let set = async |factor| set_factor(store, "ada", factor, at(second)).await;
    match way {
        0 => {
            put_user(User {
                password_hash: Some("another".into()),
                ..user("ada")
            })
            .await;
        }
        1 => {
            put_user(User {
                totp_secret_sealed: Some(b"registered".to_vec()),
                ..user("ada")
            })
            .await;
        }
        2 => {
            put_user(user("ada").disabled()).await;
        }
        3 => {
            let change = RegistryChange {
                remove_users: vec![ada.clone()],
                ..RegistryChange::default()
            };
            apply(store, change, second).await;
        }
        4 => set(Some(second_factor(&["a"]))).await,
        _ => set(None).await,
    }
    put_user(user("ada")).await;
}

pub(crate) const WAYS_TO_CHANGE_CREDENTIALS: usize = 6;

/// RFC 9700 §4.14.2, D-35: covers what was issued before a change, and what is issued during the change.
pub(crate) async fn other_credentials_end_codes_sessions_and_grants_in_the_making(
    subject: &mut impl Subject,
) {
    for way in 0..WAYS_TO_CHANGE_CREDENTIALS {
        let store = subject.store();
        let version = version_of(&*store, &username("ada")).await;
        let code_text = format!("c{way}");
        issue_legacy(&*store, &code_text, code()).await;
        let current = self_contained(&*store, code()).await;
        let fresh = self_contained(&*store, code()).await;
        let (grant, _) = redeemed_of(redeem(&*store, &fresh, fitting(), at(59)).await);
        assert_eq!(grant.credentials_version, version);
        change_credentials(&*store, way).await;
        let store = subject.again(store).await;
        assert_ne!(version_of(&*store, &username("ada")).await, version);
        let redeemed = redeem_legacy(&*store, &code_text, fitting(), at(6)).await;
        let outdated = Redemption::Mismatch(CodeMismatch::Outdated);
        assert_eq!(redeemed, outdated, "way {way}");
        let redeemed = redeem(&*store, &current, fitting(), at(6)).await;
        assert_eq!(redeemed, outdated, "way {way}");
        let record = CodeRecord {
            credentials_version: version,
            ..code()
        };
        let issued = store.issue_legacy_code(Digest::of(b"late"), record).await;
        assert_eq!(issued.unwrap(), Begin::CredentialsChanged);
        let redeemed = redeem_legacy(&*store, "late", fitting(), at(6)).await;
        assert_eq!(redeemed, Redemption::Unknown);
        for stage in [SessionStage::SecondFactorOwed, SessionStage::SignedIn] {
            let id = Digest::of(b"late");
            let late = Session {
                stage,
                credentials_version: version,
                ..session("ada", at(100))
            };
            let started = store.start_session(id, late, None).await;
            assert_eq!(started.unwrap(), SessionBegin::CredentialsChanged);
            assert_eq!(store.session(id, at(6)).await.unwrap(), None);
        }
        let rotation = use_of(&grant, grant.current.refresh_id, at(6));
        assert_eq!(
            refresh(&*store, rotation).await,
            Rotation::Refused(RotationRefusal::Revoked)
        );
        let factor = Some(second_factor(&["b"]));
        let set = store.set_second_factor(
            username("ada"),
            factor,
            Some(version),
            None,
            Arc::default(),
            at(6),
        );
        assert_eq!(set.await.unwrap(), None);
    }
    let unknown = store_credentials(&*subject.store(), "grace").await;
    assert_eq!(unknown, None);
}

pub(crate) async fn store_credentials(store: &dyn Store, name: &str) -> Option<Option<Vec<u8>>> {
    let credentials = store.credentials(username(name)).await.unwrap();
    credentials.map(|credentials| credentials.totp_secret_sealed)
}

/// In any order, no session and no live grant with the old credentials remains.
pub(crate) async fn credentials_that_change_in_parallel_leave_nothing_behind(
    subject: &mut impl Subject,
) {
    for round in 0..12_u32 {
        let store = subject.store();
        let ada = username("ada");
        let version = version_of(&*store, &ada).await;
        let mut codes = Vec::new();
        for number in 0..4 {
            let code_text = format!("{round}-{number}");
            issue_legacy(&*store, &code_text, code()).await;
            codes.push((code_text, self_contained(&*store, code()).await));
        }
        drop(store);
        subject.restart().await;
        let mut tasks = JoinSet::new();
        for (number, (code_text, current)) in codes.into_iter().enumerate() {
            let store = subject.store();
            let id = Digest::of(code_text.as_bytes());
            tasks.spawn(async move {
                if number == 2 {
                    let changed = User {
                        password_hash: Some(format!("password {round}")),
                        ..user("ada")
                    };
                    apply(&*store, put(vec![], vec![changed]), 5).await;
                }
                redeem_legacy(&*store, &code_text, fitting(), at(5)).await;
                redeem(&*store, &current, fitting(), at(5)).await;
                let late = Session {
                    credentials_version: version,
                    ..session("ada", at(100))
                };
                let started = patiently(|| store.start_session(id, late.clone(), None));
                let _ = started.await.unwrap();
                id
            });
        }
        let ids = tasks.join_all().await;
        let store = subject.store();
        assert_ne!(version_of(&*store, &ada).await, version);
        for id in ids {
            assert_eq!(store.session(id, at(5)).await.unwrap(), None);
        }
        let grants = store.grants(GrantFilter::default(), None, 1000).await;
        let live = grants
            .unwrap()
            .into_iter()
            .filter(|grant| grant.revoked_at.is_none());
        assert_eq!(live.count(), 0);
    }
}

pub(crate) async fn a_stronger_hash_of_the_same_password_ends_nothing(subject: &mut impl Subject) {
    apply(&*subject.store(), put(vec![], vec![user("ada")]), 0).await;
    let grant = grant_of(&*subject.store(), code()).await;
    issue_legacy(&*subject.store(), "c", code()).await;
    let rehash = async |store: Arc<dyn Store>, hash: &str, stronger: &str| {
        store
            .rehash_password(username("ada"), hash.to_owned(), stronger.to_owned())
            .await
            .unwrap();
    };
    let version = subject.store().registry_version().await.unwrap();
    rehash(subject.store(), "hash", "stronger").await;
    rehash(subject.store(), "hash", "of somebody who came too late").await;
    rehash(subject.store(), "stronger", "strongest").await;
    let store = subject.restarted().await;
    assert!(store.registry_version().await.unwrap() > version);
    let (_, users) = registrations(&*store).await;
    let ada = users.first().unwrap();
    assert_eq!(ada.password_hash.as_deref(), Some("strongest"));
    assert_eq!(ada.registered_password_digest, Some(Digest::of(b"hash")));
    assert!(!is_revoked(&*store, &grant).await);
    redeemed_of(redeem_legacy(&*store, "c", fitting(), at(1)).await);
}
