//! Clients, users and instances of the legacy flow.

use super::*;

use domain::registry_index::{Named, NamedKind, account_value};
use domain::testing::account;

pub(crate) fn put(clients: Vec<Client>, users: Vec<User>) -> RegistryChange {
    RegistryChange {
        put_clients: clients,
        put_users: users,
        ..RegistryChange::default()
    }
}

pub(crate) fn remove(clients: &[&str], users: &[&str]) -> RegistryChange {
    RegistryChange {
        remove_clients: clients.iter().map(|id| client_id(id)).collect(),
        remove_users: users.iter().map(|name| username(name)).collect(),
        ..RegistryChange::default()
    }
}

/// All clients and users, read in small pages.
pub(crate) async fn registrations(store: &dyn Store) -> (Vec<Client>, Vec<User>) {
    let (mut clients, mut users): (Vec<Client>, Vec<User>) = (Vec::new(), Vec::new());
    loop {
        let after = clients.last().map(|last| last.client_id.to_string());
        let page = store
            .clients(after.unwrap_or_default(), 1500)
            .await
            .unwrap();
        let is_last = page.len() < 1500;
        clients.extend(page);
        if is_last {
            break;
        }
    }
    loop {
        let after = users.last().map(|last| last.username.to_string());
        let page = store.users(after.unwrap_or_default(), 1500).await.unwrap();
        let is_last = page.len() < 1500;
        users.extend(page);
        if is_last {
            break;
        }
    }
    (clients, users)
}

pub(crate) async fn registrations_are_found_one_by_one_and_in_pages(subject: &mut impl Subject) {
    let change = put(
        vec![client("b"), client("a"), client("c")],
        vec![user("grace"), user("ada")],
    );
    apply(&*subject.store(), change, 0).await;
    let store = subject.restarted().await;
    let found = store.client(client_id("b")).await.unwrap();
    assert_eq!(as_registered(&found.unwrap()), client("b"));
    assert_eq!(store.client(client_id("d")).await.unwrap(), None);
    let found = store.user(username("ada")).await.unwrap();
    assert_eq!(found.unwrap().username, username("ada"));
    assert_eq!(store.user(username("b")).await.unwrap(), None);
    let ids = async |after: &str, limit| -> Vec<String> {
        let page = store.clients(after.to_owned(), limit).await.unwrap();
        page.iter().map(|one| one.client_id.to_string()).collect()
    };
    assert_eq!(ids("", 2).await, ["a", "b"]);
    assert_eq!(ids("b", 2).await, ["c"]);
    assert_eq!(ids("aa", 1).await, ["b"]);
    assert_eq!(ids("c", 2).await, [""; 0]);
    let users = store.users("ada".to_owned(), 2).await.unwrap();
    assert_eq!(users.len(), 1);
    assert_eq!(users[0].username, username("grace"));
}

pub(crate) async fn a_plan_is_overtaken_by_what_it_rests_on_alone(subject: &mut impl Subject) {
    let version = subject.store().registry_version().await.unwrap();
    let planned = |client: Client| RegistryChange {
        planned_on: Some(version),
        ..put(vec![client], vec![])
    };
    let named = |name: &str| Client {
        name: name.to_owned(),
        ..client("web")
    };
    let (one, other) = (subject.store(), subject.store());
    let outcomes = futures_util::join!(
        one.change_registry(planned(named("one")), at(0)),
        other.change_registry(planned(named("other")), at(0))
    );
    let outcomes = [outcomes.0.unwrap(), outcomes.1.unwrap()];
    drop((one, other));
    assert!(outcomes.contains(&RegistryOutcome::Changed), "{outcomes:?}");
    assert!(
        outcomes.contains(&RegistryOutcome::Overtaken),
        "{outcomes:?}"
    );
    let store = subject.restarted().await;
    assert_eq!(registrations(&*store).await.0.len(), 1);
    assert_eq!(store.registry_version().await.unwrap(), version + 1);
    // Many other objects changed in the meantime.
    for number in 0..50 {
        let other = client(&format!("other-{number}"));
        let made = store.change_registry(planned(other), at(0)).await.unwrap();
        assert_eq!(made, RegistryOutcome::Changed);
    }
    let stale = store.change_registry(planned(named("stale")), at(0));
    assert_eq!(stale.await.unwrap(), RegistryOutcome::Overtaken);
    assert_eq!(store.registry_version().await.unwrap(), version + 51);
}

/// Two imports in parallel: each wants the account for its own user (D-52).
pub(crate) async fn a_value_that_others_may_not_have_goes_to_one(subject: &mut impl Subject) {
    let shared_by = |names: &[&str]| {
        let users = names.iter().map(|name| user(name).with_accounts(&["42"]));
        put(vec![], users.collect())
    };
    let wants = |name: &str| RegistryChange {
        untaken: vec![Named {
            kind: NamedKind::Account,
            value: account_value(&account("42")).unwrap(),
            name: name.to_owned(),
        }],
        ..shared_by(&[name])
    };
    let (one, other) = (subject.store(), subject.store());
    let outcomes = futures_util::join!(
        one.change_registry(wants("ada"), at(0)),
        other.change_registry(wants("grace"), at(0))
    );
    let outcomes = [outcomes.0.unwrap(), outcomes.1.unwrap()];
    drop((one, other));
    assert!(outcomes.contains(&RegistryOutcome::Changed), "{outcomes:?}");
    assert!(
        outcomes.contains(&RegistryOutcome::Overtaken),
        "{outcomes:?}"
    );
    let store = subject.restarted().await;
    let users = registrations(&*store).await.1;
    assert_eq!(users.len(), 1);
    // The owner keeps it.
    let again = wants(users[0].username.as_str());
    let again = store.change_registry(again, at(0)).await.unwrap();
    assert_eq!(again, RegistryOutcome::Changed);
    // The name of the owner is the first of those that have it.
    apply(&*store, shared_by(&["ada", "grace"]), 0).await;
    let shared = store.change_registry(wants("ada"), at(0)).await.unwrap();
    assert_eq!(shared, RegistryOutcome::Overtaken);
}

/// A second factor is no change of the registry, but it ends what rests on the credentials before.
pub(crate) async fn a_change_that_rests_on_former_credentials_is_overtaken(
    subject: &mut impl Subject,
) {
    let store = subject.store();
    let register = put(vec![], vec![user("ada")]);
    store.change_registry(register, at(0)).await.unwrap();
    let version = version_of(&*store, &username("ada")).await;
    let resting = |enabled| RegistryChange {
        credentials: vec![(username("ada"), version)],
        ..put(
            vec![],
            vec![User {
                enabled,
                ..user("ada")
            }],
        )
    };
    let made = store.change_registry(resting(true), at(0)).await.unwrap();
    assert_eq!(made, RegistryOutcome::Changed);
    let factor = Some(second_factor(&["a"]));
    let set = store.set_second_factor(username("ada"), factor, None, None, Arc::default(), at(0));
    assert!(set.await.unwrap().is_some());
    let made = store.change_registry(resting(false), at(0)).await.unwrap();
    assert_eq!(made, RegistryOutcome::Overtaken);
    assert!(store.user(username("ada")).await.unwrap().unwrap().enabled);
}

pub(crate) async fn changes_of_the_registry_are_told_by_their_objects(subject: &mut impl Subject) {
    let name = |kind, name: &str| ObjectName::new(kind, name);
    let known = |touched: &[ObjectName]| RegistryChanges::Known(touched.to_vec());
    let store = subject.store();
    let start = store.registry_version().await.unwrap();
    let changes =
        async |store: &dyn Store, after, limit| store.registry_changes(after, limit).await.unwrap();
    assert_eq!(changes(&*store, start, 10).await, known(&[]));
    let change = RegistryChange {
        put_legacy_instances: vec![legacy_instance("us1.example")],
        ..put(vec![client("web")], vec![user("ada")])
    };
    apply(&*store, change, 0).await;
    let change = RegistryChange {
        remove_clients: vec![client_id("web")],
        put_clients: vec![client("other")],
        ..RegistryChange::default()
    };
    apply(&*store, change, 0).await;
    let rehash = store.rehash_password(username("ada"), "hash".into(), "stronger".into());
    rehash.await.unwrap();
    let store = subject.again(store).await;
    let all = [
        name(ObjectKind::Client, "web"),
        name(ObjectKind::User, "ada"),
        name(ObjectKind::LegacyInstance, "us1.example"),
        name(ObjectKind::Client, "other"),
        name(ObjectKind::Client, "web"),
        name(ObjectKind::User, "ada"),
    ];
    assert_eq!(changes(&*store, start, 10).await, known(&all));
    assert_eq!(changes(&*store, start + 1, 2).await, known(&all[1..3]));
    let last = store.registry_version().await.unwrap();
    assert_eq!(last, start + 6);
    assert_eq!(changes(&*store, last, 10).await, known(&[]));
    // A position that the store never had, for example because a backup replaced the store.
    assert_eq!(
        changes(&*store, last + 1, 10).await,
        RegistryChanges::Forgotten
    );
    let absent = (0..CHANGES_KEPT).map(|number| client_id(&number.to_string()));
    let change = RegistryChange {
        remove_clients: absent.collect(),
        ..RegistryChange::default()
    };
    apply(&*store, change, 0).await;
    assert_eq!(
        changes(&*store, last - 1, 10).await,
        RegistryChanges::Forgotten
    );
    let RegistryChanges::Known(kept) = changes(&*store, last, usize::MAX).await else {
        panic!("the newest changes are known");
    };
    assert_eq!(kept.len() as u64, CHANGES_KEPT);
    let stale = RegistryChange {
        planned_on: Some(last - 1),
        ..put(vec![client("new")], vec![])
    };
    let stale = store.change_registry(stale, at(0)).await.unwrap();
    assert_eq!(stale, RegistryOutcome::Overtaken);
}

pub(crate) async fn the_applied_file_is_remembered(subject: &mut impl Subject) {
    let replace = |before, after| FileChange::Replace { before, after };
    let [one, other, forgotten] = [b"one", b"two", b"ran"].map(|text| Some(Digest::of(text)));
    let forget = FileChange::Forget(Digest::of(b"ran"));
    let mut stored = None;
    for (applied_file, outcome, found) in [
        (replace(None, one), RegistryOutcome::Changed, one),
        (FileChange::Keep, RegistryOutcome::Changed, one),
        // Another replica applied a file in the meantime.
        (replace(None, other), RegistryOutcome::Overtaken, one),
        (replace(other, other), RegistryOutcome::Overtaken, one),
        (replace(one, other), RegistryOutcome::Changed, other),
        (forget, RegistryOutcome::Changed, forgotten),
        (replace(other, one), RegistryOutcome::Overtaken, forgotten),
        (replace(forgotten, None), RegistryOutcome::Changed, None),
        (replace(None, other), RegistryOutcome::Changed, other),
        (replace(other, None), RegistryOutcome::Changed, None),
        // A start that has found no digest notices too.
        (forget, RegistryOutcome::Changed, forgotten),
        (replace(None, one), RegistryOutcome::Overtaken, forgotten),
        (replace(forgotten, None), RegistryOutcome::Changed, None),
        (replace(None, one), RegistryOutcome::Changed, one),
    ] {
        let position = subject.store().registry_version().await.unwrap();
        let change = RegistryChange {
            applied_file,
            ..put(vec![], vec![user("ada")])
        };
        let made = subject.store().change_registry(change, at(0)).await;
        assert_eq!(made.unwrap(), outcome, "{applied_file:?}");
        let moved = subject.store().registry_version().await.unwrap() > position;
        assert_eq!(
            moved,
            outcome == RegistryOutcome::Changed,
            "{applied_file:?}"
        );
        stored = subject.store().applied_file().await.unwrap();
        assert_eq!(stored, found, "{applied_file:?}");
    }
    subject.restart().await;
    assert_eq!(subject.store().applied_file().await.unwrap(), stored);
}

pub(crate) async fn registry_changes_as_a_whole(subject: &mut impl Subject) {
    let change = RegistryChange {
        put_legacy_instances: vec![
            legacy_instance("us2.example"),
            legacy_instance("us1.example"),
        ],
        ..put(
            vec![client("web"), client("other")],
            vec![user("ada"), user("grace")],
        )
    };
    apply(&*subject.store(), change, 0).await;
    let version = subject.store().registry_version().await.unwrap();
    subject.restart().await;
    assert_eq!(subject.store().registry_version().await.unwrap(), version);
    let change = RegistryChange {
        put_clients: vec![Client {
            name: "Renamed".into(),
            ..client("web")
        }],
        remove_clients: vec![client_id("other"), client_id("never-there")],
        put_users: vec![],
        remove_users: vec![username("grace")],
        put_legacy_instances: vec![legacy_instance("us3.example")],
        remove_legacy_instances: vec!["us2.example".into(), "never-there".into()],
        ..RegistryChange::default()
    };
    apply(&*subject.store(), change, 1).await;
    subject.restart().await;
    assert_ne!(subject.store().registry_version().await.unwrap(), version);
    let (clients, users) = registrations(&*subject.store()).await;
    let renamed = Client {
        name: "Renamed".into(),
        ..client("web")
    };
    let clients: Vec<Client> = clients.iter().map(as_registered).collect();
    assert_eq!(clients, [renamed]);
    assert_eq!(users.len(), 1);
    let ada = User {
        credentials_version: CredentialsVersion::default(),
        ..users.first().unwrap().clone()
    };
    assert_eq!(ada, user("ada"));
    assert_eq!(
        subject.store().legacy_instances().await.unwrap(),
        ["us1.example", "us3.example"].map(legacy_instance)
    );
    assert_eq!(
        feed(&*subject.store()).await,
        [
            Revoked::Client(client_id("other")),
            Revoked::User(username("grace")),
            Revoked::Issuer("https://us2.example".into())
        ],
        "what was never there is not announced"
    );
}

pub(crate) async fn disabling_a_legacy_instance_ends_its_tokens(subject: &mut impl Subject) {
    let put = |hostname: &str, enabled| RegistryChange {
        put_legacy_instances: vec![LegacyInstance {
            enabled,
            ..legacy_instance(hostname)
        }],
        ..RegistryChange::default()
    };
    let store = subject.store();
    for (second, (hostname, enabled)) in (0..).zip([
        ("us1.example", true),
        ("us2.example", false),
        ("us1.example", true),
        ("us1.example", false),
        ("us1.example", false),
        ("us1.example", true),
    ]) {
        apply(&*store, put(hostname, enabled), second).await;
    }
    let issuer = Revoked::Issuer("https://us1.example".into());
    let entries = entries_since(&*store, 0, 10).await;
    let announced: Vec<&Revoked> = entries.iter().map(|entry| &entry.revoked).collect();
    assert_eq!(announced, [&issuer]);
    let token = |issued_at| TokenReference {
        issuer: "https://us1.example".into(),
        ..legacy_token(issued_at)
    };
    let until = issued_until(at(3));
    assert!(store.is_revoked(token(until)).await.unwrap());
    let next = token(until + Duration::from_secs(1));
    assert!(!store.is_revoked(next).await.unwrap());
}

/// A grant of client `web` and user `ada`, a grant of another client and user, and a session of each user.
pub(crate) async fn two_grants(store: &dyn Store) -> (Grant, Grant) {
    let change = put(
        vec![client("web"), client("other")],
        vec![user("ada"), user("grace")],
    );
    apply(store, change, 0).await;
    let mine = grant_of(store, code()).await;
    let theirs = CodeRecord {
        client_id: client_id("other"),
        username: username("grace"),
        account: account("2"),
        ..code()
    };
    let theirs = grant_of(store, theirs).await;
    for name in ["ada", "grace"] {
        let id = Digest::of(name.as_bytes());
        start(store, id, session(name, at(900)), None).await;
    }
    (mine, theirs)
}

pub(crate) async fn has_session(store: &dyn Store, name: &str) -> bool {
    let id = Digest::of(name.as_bytes());
    store.session(id, at(5)).await.unwrap().is_some()
}

pub(crate) async fn ends_one_of_two_grants(
    subject: &mut impl Subject,
    change: RegistryChange,
    announced: impl FnOnce(&Grant) -> Vec<Revoked>,
    ends_sessions: bool,
) {
    let (mine, theirs) = two_grants(&*subject.store()).await;
    subject.restart().await;
    apply(&*subject.store(), change, 5).await;
    let store = subject.restarted().await;
    assert!(is_revoked(&*store, &mine).await);
    assert!(!is_revoked(&*store, &theirs).await);
    assert_eq!(has_session(&*store, "ada").await, !ends_sessions);
    assert!(has_session(&*store, "grace").await);
    let entries = entries_since(&*store, 0, 10).await;
    let expected: Vec<Revocation> = (1..)
        .zip(announced(&mine))
        .map(|(sequence, revoked)| {
            // Tokens that other replicas still issue from the old registrations are revoked too.
            let at = if revoked.is_up_to_a_time() {
                issued_until(at(5))
            } else {
                at(5)
            };
            Revocation {
                sequence,
                revoked,
                at,
                expires_at: at + ACCESS,
            }
        })
        .collect();
    assert_eq!(entries, expected);
    let rotation = use_of(&mine, mine.current.refresh_id, at(6));
    assert_eq!(
        refresh(&*store, rotation).await,
        Rotation::Refused(RotationRefusal::Revoked)
    );
}

/// More objects than a store reads at once, and then exactly as many.
pub(crate) async fn many_registrations_are_read_whole(subject: &mut impl Subject) {
    let store = subject.store();
    let names: Vec<String> = (0..4001).map(|number| format!("{number}-name")).collect();
    let (first, rest) = names.split_at(2000);
    for part in [first, rest] {
        // While a large change is computed without optimization on a busy machine, a database gives the transaction up.
        for some in part.chunks(250) {
            let change = put(
                some.iter().map(|name| client(name)).collect(),
                some.iter().map(|name| user(name)).collect(),
            );
            apply(&*store, change, 0).await;
        }
        let expected: BTreeSet<&str> = if part == first { first } else { &names }
            .iter()
            .map(String::as_str)
            .collect();
        let (clients, users) = registrations(&*store).await;
        assert_eq!(clients.len(), expected.len());
        assert_eq!(users.len(), expected.len());
        let clients: BTreeSet<&str> = clients.iter().map(|one| one.client_id.as_str()).collect();
        let users: BTreeSet<&str> = users.iter().map(|one| one.username.as_str()).collect();
        assert_eq!(clients, expected);
        assert_eq!(users, expected);
    }
}

pub(crate) async fn removing_a_client_ends_its_grants(subject: &mut impl Subject) {
    let change = remove(&["web"], &[]);
    let announced = |_: &Grant| vec![Revoked::Client(client_id("web"))];
    ends_one_of_two_grants(subject, change, announced, false).await;
}

pub(crate) async fn disabling_a_client_ends_its_grants(subject: &mut impl Subject) {
    let disabled = client("web").disabled();
    let announced = |_: &Grant| vec![Revoked::Client(client_id("web"))];
    ends_one_of_two_grants(subject, put(vec![disabled], vec![]), announced, false).await;
}

/// A removed key may have got tokens at a replica that does not know of its removal yet.
pub(crate) async fn a_change_of_a_client_can_end_its_grants(subject: &mut impl Subject) {
    let changed = Client {
        name: "Changed".to_owned(),
        ..client("web")
    };
    let change = RegistryChange {
        revoke_clients: vec![client_id("web")],
        ..put(vec![changed], vec![])
    };
    let announced = |_: &Grant| vec![Revoked::Client(client_id("web"))];
    ends_one_of_two_grants(subject, change, announced, false).await;
    let store = subject.store();
    let web = store.client(client_id("web")).await.unwrap().unwrap();
    assert!(web.enabled);
    let late = TokenReference {
        client_id: web.client_id,
        issued_at: Timestamp::from_seconds(web.tokens_from.seconds() - 1),
        ..token(at(0))
    };
    assert_eq!(store.is_revoked(late.clone()).await, Ok(true));
    let valid = TokenReference {
        issued_at: web.tokens_from,
        ..late
    };
    assert_eq!(store.is_revoked(valid).await, Ok(false));
}

pub(crate) async fn disabling_a_user_ends_grants_and_sessions(subject: &mut impl Subject) {
    let disabled = user("ada").disabled();
    let announced = |_: &Grant| vec![Revoked::User(username("ada"))];
    ends_one_of_two_grants(subject, put(vec![], vec![disabled]), announced, true).await;
}

pub(crate) async fn removing_a_user_ends_grants_and_sessions(subject: &mut impl Subject) {
    let change = remove(&[], &["ada"]);
    let announced = |_: &Grant| vec![Revoked::User(username("ada"))];
    ends_one_of_two_grants(subject, change, announced, true).await;
}

pub(crate) async fn a_new_password_ends_grants_and_sessions(subject: &mut impl Subject) {
    let changed = User {
        password_hash: Some("another".into()),
        ..user("ada")
    };
    let announced = |grant: &Grant| vec![Revoked::Grant(grant.grant_id)];
    ends_one_of_two_grants(subject, put(vec![], vec![changed]), announced, true).await;
}

pub(crate) async fn unlinking_an_account_ends_its_grants_alone(subject: &mut impl Subject) {
    let unlinked = user("ada").with_accounts(&["2"]);
    let kept = CodeRecord {
        account: account("2"),
        ..code()
    };
    let kept = grant_of(&*subject.store(), kept).await;
    let announced = |grant: &Grant| {
        let account = Revoked::account(&username("ada"), &account("1"));
        vec![Revoked::Grant(grant.grant_id), account]
    };
    ends_one_of_two_grants(subject, put(vec![], vec![unlinked]), announced, false).await;
    assert!(!is_revoked(&*subject.store(), &kept).await);
}
