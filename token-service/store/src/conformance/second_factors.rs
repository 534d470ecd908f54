//! Second factors that users set up.

use super::*;

pub(crate) fn second_factor(codes: &[&str]) -> SecondFactor {
    SecondFactor {
        totp_secret_sealed: b"sealed".to_vec(),
        recovery_codes: codes
            .iter()
            .map(|code| Digest::of(code.as_bytes()))
            .collect(),
    }
}

/// Sets the second factor of a registered user, without an entry of the audit log.
pub(crate) async fn set_factor(
    store: &dyn Store,
    name: &str,
    factor: Option<SecondFactor>,
    now: Timestamp,
) {
    let set = store.set_second_factor(username(name), factor, None, None, Arc::default(), now);
    assert!(set.await.unwrap().is_some());
}

pub(crate) async fn a_second_factor_ends_what_was_there_and_goes_with_its_user(
    subject: &mut impl Subject,
) {
    let ada = || username("ada");
    let known = async |store: Arc<dyn Store>| store.second_factor(ada()).await.unwrap();
    let set = async |store: Arc<dyn Store>, second_factor: Option<SecondFactor>| {
        set_factor(&*store, "ada", second_factor, at(2)).await;
    };
    let change = async |store: Arc<dyn Store>, change: RegistryChange| {
        apply(&*store, change, 0).await;
    };
    let one = || Some(second_factor(&["a"]));
    change(subject.store(), put(vec![], vec![user("ada")])).await;
    assert_eq!(known(subject.store()).await, None);
    let id = Digest::of(b"session");
    start(&*subject.store(), id, session("ada", at(100)), None).await;
    let grant = grant_of(&*subject.store(), code()).await;
    set(subject.store(), one()).await;
    subject.restart().await;
    assert_eq!(known(subject.store()).await, one());
    assert_eq!(subject.store().session(id, at(1)).await.unwrap(), None);
    assert!(is_revoked(&*subject.store(), &grant).await);
    let announced = [Revoked::Grant(grant.grant_id)];
    assert_eq!(feed(&*subject.store()).await, announced);
    // A registration with the same TOTP secret does not change the second factor.
    change(subject.store(), put(vec![], vec![user("ada")])).await;
    assert_eq!(known(subject.store()).await, one());
    let registered = User {
        totp_secret_sealed: Some(b"other".to_vec()),
        ..user("ada")
    };
    change(subject.store(), put(vec![], vec![registered])).await;
    assert_eq!(known(subject.store()).await, None);

    set(subject.store(), one()).await;
    set(subject.store(), None).await;
    assert_eq!(known(subject.store()).await, None);
    set(subject.store(), one()).await;
    let removed = RegistryChange {
        remove_users: vec![ada()],
        ..RegistryChange::default()
    };
    change(subject.store(), removed).await;
    subject.restart().await;
    assert_eq!(known(subject.store()).await, None);
}

pub(crate) async fn sign_ins_are_known_until_the_user_is_removed(subject: &mut impl Subject) {
    let known = async |store: Arc<dyn Store>| {
        let names = ["ida", "ada", "nobody"].map(username).to_vec();
        let found = store.sign_ins(names.clone()).await.unwrap();
        let order: Vec<Username> = found.iter().map(|one| one.username.clone()).collect();
        assert_eq!(order, names);
        let facts = found.iter();
        let facts = facts.map(|one| (one.has_own_second_factor, one.last_at));
        facts.collect::<Vec<_>>()
    };
    let users = vec![user("ada"), user("ida")];
    apply(&*subject.store(), put(vec![], users), 0).await;
    assert_eq!(known(subject.store()).await, [(false, None); 3]);
    set_factor(&*subject.store(), "ida", Some(second_factor(&["a"])), at(1)).await;
    let begin = async |store: Arc<dyn Store>, stage, seconds| {
        let session = Session {
            stage,
            used_at: at(seconds),
            ..session("ada", at(100))
        };
        start(&*store, Digest::of(&[1]), session, None).await;
    };
    begin(subject.store(), SessionStage::SecondFactorOwed, 2).await;
    let owed = [(true, None), (false, None), (false, None)];
    assert_eq!(known(subject.store()).await, owed);
    begin(subject.store(), SessionStage::SignedIn, 3).await;
    begin(subject.store(), SessionStage::SignedIn, 4).await;
    let step = async |store: Arc<dyn Store>| store.use_totp_step(username("ada"), 9).await;
    assert_eq!(step(subject.store()).await, Ok(Use::First));
    subject.restart().await;
    let complete = [(true, None), (false, Some(at(4))), (false, None)];
    assert_eq!(known(subject.store()).await, complete);
    let removed = RegistryChange {
        remove_users: vec![username("ada"), username("ida")],
        ..RegistryChange::default()
    };
    apply(&*subject.store(), removed, 0).await;
    assert_eq!(known(subject.store()).await, [(false, None); 3]);
    assert_eq!(
        step(subject.store()).await,
        Ok(Use::First),
        "of another user"
    );
}

pub(crate) async fn a_recovery_code_works_once(subject: &mut impl Subject) {
    let use_id = async |store: Arc<dyn Store>, name, code: &str| {
        store
            .use_recovery_code(username(name), Digest::of(code.as_bytes()))
            .await
            .unwrap()
    };
    assert_eq!(use_id(subject.store(), "ada", "a").await, Use::Again);
    let codes = Some(second_factor(&["a", "b", "c"]));
    version_of(&*subject.store(), &username("ada")).await;
    set_factor(&*subject.store(), "ada", codes, at(0)).await;
    for (name, code, expected) in [
        ("ada", "d", Use::Again),
        ("grace", "a", Use::Again),
        ("ada", "a", Use::First),
        ("ada", "a", Use::Again),
    ] {
        assert_eq!(
            use_id(subject.store(), name, code).await,
            expected,
            "{code}"
        );
        subject.restart().await;
    }
    let attempts = (0..16).map(|_| use_id(subject.store(), "ada", "b"));
    let uses = futures_util::future::join_all(attempts).await;
    let won = uses.into_iter().filter(|used| *used == Use::First);
    assert_eq!(won.count(), 1);
    let left = subject.store().second_factor(username("ada")).await;
    assert_eq!(left.unwrap(), Some(second_factor(&["c"])));
}

pub(crate) async fn new_recovery_codes_end_the_earlier_ones(subject: &mut impl Subject) {
    let store = subject.store();
    let digest = |code: &str| Digest::of(code.as_bytes());
    let version = version_of(&*store, &username("ada")).await;
    let replace = async |store: &Arc<dyn Store>, rests_on| {
        let (ada, codes) = (username("ada"), vec![digest("new")]);
        let (told, audit) = (Some(notice("ada", 1)), [audit_event(1)].into());
        let replaced = store.replace_recovery_codes(ada, codes, rests_on, told, audit, at(1));
        replaced.await.unwrap()
    };
    assert!(!replace(&store, version).await, "no app is set up");
    set_factor(&*store, "ada", Some(second_factor(&["old"])), at(0)).await;
    assert!(!replace(&store, version).await, "another app since");
    let user = store.user(username("ada")).await.unwrap().unwrap();
    let id = digest("session");
    start(&*store, id, session("ada", at(100)), None).await;
    assert!(replace(&store, user.credentials_version).await);
    let store = subject.again(store).await;
    for (code, expected) in [("old", Use::Again), ("new", Use::First)] {
        let used = store.use_recovery_code(username("ada"), digest(code)).await;
        assert_eq!(used, Ok(expected), "{code}");
    }
    assert!(
        store.session(id, at(1)).await.unwrap().is_some(),
        "the app stays"
    );
    let audit = store.audit(AuditRange::After(0), 10).await.unwrap();
    assert_eq!(audit.len(), 1);
    assert_eq!(
        store.claim_notices(at(1), at(2), 10).await.unwrap().len(),
        1
    );
}
