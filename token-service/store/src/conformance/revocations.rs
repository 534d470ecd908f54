//! The revocation feed.

use super::*;
use domain::revocation::READERS_CLOCK_SKEW;

/// Time when nothing is left in the feed that was revoked before `at`.
fn swept_at(at: Timestamp) -> Timestamp {
    at + ACCESS + READERS_CLOCK_SKEW
}

pub(crate) async fn the_revocation_feed_rises_and_pages(subject: &mut impl Subject) {
    let mut revoked = Vec::new();
    // The first entry outlives those behind it.
    for second in [15].into_iter().chain(0..10) {
        let grant = grant_of(&*subject.store(), code()).await;
        revoke(&*subject.store(), &grant, at(second)).await;
        revoked.push(Revoked::Grant(grant.grant_id));
    }
    let store = subject.restarted().await;
    let mut since = 0;
    let mut read = Vec::new();
    loop {
        let page = entries_since(&*store, since, 3).await;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        assert!(page.is_sorted_by(|one, other| one.sequence < other.sequence));
        since = last.sequence;
        read.extend(page.into_iter().map(|entry| entry.revoked));
    }
    assert_eq!(read, revoked);
    // Sequences are not reused after a sweep, because a reader at position 10 must see the next entries.
    sweep(&*store, swept_at(at(8))).await;
    revoked.drain(1..9);
    assert_eq!(
        feed(&*store).await,
        revoked,
        "until no gateway accepts the tokens"
    );
    sweep(&*store, swept_at(at(20))).await;
    assert_eq!(feed(&*store).await, []);
    let store = subject.again(store).await;
    let grant = grant_of(&*store, code()).await;
    revoke(&*store, &grant, at(30)).await;
    let page = entries_since(&*store, since, 3).await;
    let sequences: Vec<_> = page.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [12]);
}

pub(crate) async fn a_token_is_revoked_by_itself_its_grant_its_client_or_its_user(
    subject: &mut impl Subject,
) {
    let (mine, theirs) = two_grants(&*subject.store()).await;
    let token_of = |grant: &Grant, issued_at| TokenReference {
        issuer: "https://lobby.example".into(),
        token_id: grant.current.access_id,
        grant_id: grant.grant_id,
        client_id: grant.client_id.clone(),
        subject: TokenSubject::User {
            username: grant.username.clone(),
            account: Some((grant.account.user_id.clone(), grant.account.site.clone())),
        },
        bound_to: Confirmation::default(),
        issued_at,
    };
    let another = |token: &TokenReference| TokenReference {
        token_id: TokenId::generate(&OsRandom).unwrap(),
        ..token.clone()
    };
    let is_revoked = async |subject: &dyn Store, token| subject.is_revoked(token).await.unwrap();
    let token = token_of(&mine, at(0));
    assert!(!is_revoked(&*subject.store(), token.clone()).await);

    let store = subject.store();
    let at_five = Extent {
        at: at(5),
        expires_at: at(0) + ACCESS,
    };
    assert!(announce(&*store, &Revoked::Token(token.token_id), at_five).await);
    let store = subject.again(store).await;
    assert!(is_revoked(&*store, token.clone()).await);
    let itself = (Revoked::Token(token.token_id), at(5));
    assert_eq!(store.revoked_by(token.clone()).await, Ok(vec![itself]));
    assert!(!is_revoked(&*store, another(&token)).await);
    revoke(&*store, &mine, at(6)).await;
    assert!(is_revoked(&*store, another(&token)).await);

    let theirs = token_of(&theirs, at(7));
    assert!(!is_revoked(&*store, theirs.clone()).await);
    let disabled = user("grace").disabled();
    apply(&*store, put(vec![], vec![disabled]), 7).await;
    assert!(is_revoked(&*store, theirs.clone()).await);
    let issued_at = |issued_at: Timestamp| TokenReference {
        grant_id: GrantId::generate(&OsRandom, issued_at).unwrap(),
        issued_at,
        ..theirs.clone()
    };
    assert!(
        is_revoked(&*store, issued_at(at(7) + REGISTRATIONS_MAX_AGE)).await,
        "issued by a replica that did not know yet"
    );
    let later = issued_at(issued_until(at(8)));
    assert!(!is_revoked(&*store, later.clone()).await);
    let change = remove(&["other"], &[]);
    apply(&*store, change, 8).await;
    assert!(is_revoked(&*store, later.clone()).await);
    assert_eq!(store.feed_state().await.unwrap().last, 4);

    sweep(&*store, swept_at(issued_until(at(9)))).await;
    assert!(!is_revoked(&*store, later).await, "it expired by itself");
    assert_eq!(store.feed_state().await.unwrap().last, 4);
}

pub(crate) fn token(issued_at: Timestamp) -> TokenReference {
    TokenReference {
        issuer: "https://lobby.example".into(),
        token_id: TokenId::generate(&OsRandom).unwrap(),
        grant_id: GrantId::generate(&OsRandom, issued_at).unwrap(),
        client_id: client_id("web"),
        subject: TokenSubject::User {
            username: username("1"),
            account: Some(("1".into(), "https://us1.example.com".into())),
        },
        bound_to: Confirmation::default(),
        issued_at,
    }
}

pub(crate) fn legacy_token(issued_at: Timestamp) -> TokenReference {
    TokenReference {
        issuer: "https://us1.legacy.example".into(),
        subject: TokenSubject::Account {
            user_id: "1".into(),
        },
        ..token(issued_at)
    }
}

pub(crate) async fn an_account_and_an_issuer_end_their_own_tokens_up_to_a_time(
    subject: &mut impl Subject,
) {
    let store = subject.store();
    let announce = async |revoked: Revoked| {
        assert!(super::announce(&*store, &revoked, Extent::of(at(5), ACCESS)).await);
    };
    let is_revoked = async |token: &TokenReference| store.is_revoked(token.clone()).await.unwrap();
    let (mine, later, legacy) = (token(at(5)), token(at(6)), legacy_token(at(5)));
    let elsewhere = TokenReference {
        subject: TokenSubject::User {
            username: username("1"),
            account: Some(("1".into(), "https://us2.example.com".into())),
        },
        ..mine.clone()
    };
    announce(Revoked::account(&username("1"), &account("1"))).await;
    assert!(is_revoked(&mine).await);
    assert!(!is_revoked(&later).await);
    assert!(!is_revoked(&elsewhere).await);
    announce(Revoked::User(username("1"))).await;
    assert!(is_revoked(&elsewhere).await);
    assert!(!is_revoked(&legacy).await, "a username is no user_id");
    let another = TokenReference {
        token_id: TokenId::generate(&OsRandom).unwrap(),
        ..legacy.clone()
    };
    announce(Revoked::LegacyToken(legacy.token_id)).await;
    assert!(is_revoked(&legacy).await);
    assert!(!is_revoked(&another).await);
    announce(Revoked::Issuer(legacy.issuer.clone())).await;
    assert!(is_revoked(&another).await);
    assert!(!is_revoked(&legacy_token(at(6))).await);
}

pub(crate) async fn nothing_is_announced_twice(subject: &mut impl Subject) {
    let grant = Revoked::Grant(GrantId::generate(&OsRandom, at(0)).unwrap());
    let issuer = Revoked::Issuer("https://lobby.example".into());
    let extent = Extent::of(at(5), ACCESS);
    for revoked in [&grant, &issuer] {
        assert!(announce(&*subject.store(), revoked, extent).await);
    }
    assert_eq!(subject.store().feed_state().await.unwrap().last, 2);
    let store = subject.restarted().await;
    for revoked in [&grant, &issuer] {
        assert!(!announce(&*store, revoked, extent).await);
    }
    let later = Extent {
        at: at(6),
        ..extent
    };
    assert!(!announce(&*store, &grant, later).await);
    assert!(announce(&*store, &issuer, later).await);
    let longer = Extent::of(at(5), ACCESS * 2);
    assert!(announce(&*store, &grant, longer).await);
    let entry = |sequence, revoked: &Revoked, at, expires_at| Revocation {
        sequence,
        revoked: revoked.clone(),
        at,
        expires_at,
    };
    assert_eq!(
        entries_since(&*store, 0, 10).await,
        [
            entry(3, &issuer, at(6), at(5) + ACCESS),
            entry(4, &grant, at(5), at(5) + ACCESS * 2),
        ]
    );
    assert_eq!(store.feed_state().await.unwrap().last, 4);
    assert_eq!(store.counts().await.unwrap().revocations, 2);
    // The replacing entry is swept at its own time, and nothing of the replaced entry remains.
    sweep(&*store, swept_at(at(6))).await;
    assert_eq!(feed(&*store).await, std::slice::from_ref(&grant));
    sweep(&*store, swept_at(at(6)) + ACCESS).await;
    assert_eq!(feed(&*store).await, []);
    assert!(announce(&*store, &grant, extent).await);

    let racing = Revoked::Token(TokenId::generate(&OsRandom).unwrap());
    let announced = in_parallel(subject, PARALLEL, |store, _| {
        let racing = racing.clone();
        async move { announce(&*store, &racing, extent).await }
    });
    let announced = announced.await.into_iter();
    assert_eq!(announced.filter(|announced| *announced).count(), 1);
}

/// The client `old` of the legacy flow.
fn legacy_client() -> Client {
    legacy("old", &[REDIRECT_URI], None)
}

pub(crate) async fn a_user_that_ends_takes_legacy_grants_along_by_name(subject: &mut impl Subject) {
    let store = subject.store();
    apply(
        &*store,
        put(vec![client("web"), legacy_client()], vec![user("ada")]),
        0,
    )
    .await;
    let current = grant_of(&*store, code()).await;
    let old = grant_of(&*store, code_of("old", "ada")).await;
    let store = subject.again(store).await;
    let disabled = user("ada").disabled();
    apply(&*store, put(vec![], vec![disabled]), 5).await;
    assert!(is_revoked(&*store, &current).await && is_revoked(&*store, &old).await);
    assert_eq!(
        feed(&*store).await,
        [Revoked::Grant(old.grant_id), Revoked::User(username("ada")),]
    );
}

pub(crate) async fn an_owner_ends_with_all_grants_and_tokens(subject: &mut impl Subject) {
    let clients = vec![client("web"), client("other"), legacy_client()];
    let store = subject.store();
    apply(&*store, put(clients, vec![user("ada"), user("grace")]), 0).await;
    let (ada, client) = (username("ada"), client_id("other"));
    let both = Owner::UserAtClient {
        username: ada.clone(),
        client_id: client.clone(),
    };
    drop(store);
    for (owner, ends) in [
        (
            Owner::Client(client),
            ["other ada", "other grace"].as_slice(),
        ),
        (Owner::User(ada), &["web ada", "other ada", "old ada"]),
        (both, &["other ada"]),
    ] {
        let store = subject.store();
        let mut grants = Vec::new();
        for (client, name) in [
            ("web", "ada"),
            ("other", "ada"),
            ("old", "ada"),
            ("other", "grace"),
        ] {
            let record = code_of(client, name);
            grants.push(grant_of(&*store, record).await);
        }
        let before = store.feed_state().await.unwrap().last;
        let entry = audit_event(5);
        let revoked = store
            .revoke_all(owner.clone(), [entry.clone()].into(), at(5))
            .await;
        assert_eq!(revoked, Ok(ends.len() as u64), "{owner:?}");
        let store = subject.again(store).await;
        let mut announced = Vec::new();
        for grant in grants {
            let name = format!("{} {}", grant.client_id, grant.username);
            let ended = is_revoked(&*store, &grant).await;
            assert_eq!(ended, ends.contains(&name.as_str()), "{owner:?}: {name}");
            // Tokens of JWT bearer and client credentials grants have no stored grant.
            let token = |issued_at| TokenReference {
                client_id: grant.client_id.clone(),
                subject: TokenSubject::User {
                    username: grant.username.clone(),
                    account: None,
                },
                ..token(issued_at)
            };
            assert_eq!(
                store.is_revoked(token(at(5))).await,
                Ok(ended),
                "{owner:?}: {name}"
            );
            assert_eq!(
                store.is_revoked(token(at(6))).await,
                Ok(false),
                "{owner:?}: {name}"
            );
            if name == "old ada" && ended {
                announced.push(Revoked::Grant(grant.grant_id));
            }
            store
                .revoke_grant(grant.grant_id, Arc::default(), at(4))
                .await
                .unwrap();
        }
        announced.push(owner.revoked());
        let entries = entries_since(&*store, before, 100).await;
        let entries = entries.into_iter().map(|entry| entry.revoked);
        let entries: Vec<_> = entries.take(announced.len()).collect();
        assert_eq!(entries, announced);
        let newest = store.audit(AuditRange::Before(None), 1).await.unwrap();
        assert_eq!(newest[0].event, entry);
        sweep(&*store, swept_at(at(10))).await;
    }
}

pub(crate) async fn the_feed_keeps_its_identity_until_it_is_renewed<S: Subject>(subject: &mut S) {
    let before = subject.store().feed_state().await.unwrap();
    assert_eq!(before.last, 0);
    subject.restart().await;
    let after = subject.store().feed_state().await.unwrap();
    assert_eq!(after == before, S::KEEPS_FEED);
    let fresh = FeedId::generate(&OsRandom).unwrap();
    subject
        .store()
        .renew_feed(fresh, Arc::default())
        .await
        .unwrap();
    subject.restart().await;
    let after = subject.store().feed_state().await.unwrap();
    assert_eq!(after.feed == fresh, S::KEEPS_FEED);
}

/// A lost device: everything that is bound to its key or certificate ends, for every user, and nothing else.
pub(crate) async fn a_key_ends_with_all_that_is_bound_to_it(subject: &mut impl Subject) {
    let (key, other) = (Thumbprint::of(b"key"), Thumbprint::of(b"other"));
    let (bound, unbound) = (of_key(Some(key)), Confirmation::default());
    let both = Confirmation {
        certificate: Some(key),
        ..of_key(Some(other))
    };
    let store = subject.store();
    bind_to_certificates(&*store).await;
    let mut grants = Vec::new();
    // A refresh does not bind the last two (D-50).
    for (name, proven) in [
        ("ada", bound),
        ("grace", of_certificate(Some(key))),
        ("grace", both),
        ("ada", of_key(Some(other))),
        ("ada", of_certificate(Some(other))),
        ("ada", unbound),
        ("grace", unbound),
        ("ada", unbound),
    ] {
        let record = code_of("web", name);
        grants.push(grant_with(&*store, record, proven).await);
    }
    for (grant, proven) in [(&grants[6], bound), (&grants[7], of_certificate(Some(key)))] {
        let late = RefreshRotation {
            proven,
            ..use_of(grant, grant.current.refresh_id, at(1))
        };
        refresh(&*store, late).await;
    }
    let store = subject.again(store).await;
    let entry = audit_event(5);
    let revoked = store.revoke_all(Owner::Key(key), [entry].into(), at(5));
    assert_eq!(revoked.await, Ok(3));
    let store = subject.again(store).await;
    assert_eq!(feed(&*store).await, [Revoked::Key(key)]);
    for (grant, ended) in grants
        .iter()
        .zip([true, true, true, false, false, false, false, false])
    {
        let stored = store.grant(grant.grant_id).await.unwrap().unwrap();
        assert_eq!(stored.revoked_at.is_some(), ended, "{grant:?}");
    }
    for (bound_to, issued_at, ended) in [
        (bound, at(5), true),
        (of_certificate(Some(key)), at(5), true),
        (both, at(5), true),
        (bound, at(6), false),
        (of_key(Some(other)), at(5), false),
        (unbound, at(5), false),
    ] {
        let token = TokenReference {
            bound_to,
            ..token(issued_at)
        };
        assert_eq!(store.is_revoked(token).await, Ok(ended), "{bound_to:?}");
    }
}
