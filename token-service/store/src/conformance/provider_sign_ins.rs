//! Sign-ins at identity providers, and what ends with them.

use super::*;
use domain::testing::identity;

/// Ada with these identities.
fn linked(subjects: &[&str]) -> User {
    let identities = subjects.iter().map(|subject| LinkedIdentity {
        identity: identity(subject),
        by_email: false,
    });
    User {
        identities: identities.collect(),
        ..user("ada")
    }
}

fn at_provider(subject: &str, sid: &str) -> Option<ProviderSignIn> {
    Some(ProviderSignIn {
        identity: identity(subject),
        sid: Some(sid.to_owned()),
    })
}

/// A sign-in of ada, with a grant and an unused code of each flow.
struct SignedIn {
    session: Digest,
    grants: [Grant; 2],
    current: SelfContainedCode,
    legacy: String,
}

impl SignedIn {
    async fn begin(store: &dyn Store, name: &str, provider: Option<ProviderSignIn>) -> Self {
        let session = Digest::of(name.as_bytes());
        let begun = Session {
            provider: provider.clone(),
            ..self::session("ada", at(100))
        };
        start(store, session, begun, None).await;
        let record = CodeRecord {
            session: provider.is_some().then_some(session),
            provider,
            ..code()
        };
        let [legacy, used] = ["unused", "used"].map(|code| format!("{name} {code}"));
        issue_legacy(store, &legacy, record.clone()).await;
        issue_legacy(store, &used, record.clone()).await;
        let redeemed = redeem_legacy(store, &used, fitting(), at(0)).await;
        Self {
            session,
            grants: [
                *redeemed_of(redeemed).0,
                grant_of(store, record.clone()).await,
            ],
            current: self_contained(store, record).await,
            legacy,
        }
    }

    /// Asserts that everything is over, or that nothing is.
    async fn assert_over(&self, store: &dyn Store, is_over: bool) {
        let session = store.session(self.session, at(1)).await.unwrap();
        assert_eq!(session.is_none(), is_over, "session of {}", self.legacy);
        for grant in &self.grants {
            let is_revoked = is_revoked(store, grant).await;
            assert_eq!(is_revoked, is_over, "grant of {}", self.legacy);
        }
        for redeemed in [
            redeem(store, &self.current, fitting(), at(1)).await,
            redeem_legacy(store, &self.legacy, fitting(), at(1)).await,
        ] {
            let refused = redeemed == Redemption::Mismatch(CodeMismatch::Outdated);
            assert_eq!(refused, is_over, "code of {}: {redeemed:?}", self.legacy);
        }
    }
}

pub(crate) async fn a_provider_ends_its_sign_ins_alone(subject: &mut impl Subject) {
    for (sid, person, ended) in [(Some("a"), "1", [true, false]), (None, "3", [true, true])] {
        let store = subject.store();
        apply(&*store, put(vec![], vec![linked(&[person, "2"])]), 0).await;
        let begin = async |name, provider| {
            SignedIn::begin(&*store, &format!("{person} {name}"), provider).await
        };
        let one = begin("one", at_provider(person, "a")).await;
        let other = begin("other", at_provider(person, "b")).await;
        let left = [
            begin("another", at_provider("2", "a")).await,
            begin("password", None).await,
        ];
        let announced = feed(&*store).await.len();
        let end = async |store: &dyn Store, subject: &str| {
            let audit = [audit_event(5)].into();
            let sid = sid.map(str::to_owned);
            let ended = store.end_provider_sign_ins(identity(subject), sid, audit, at(1));
            let ended = ended.await.unwrap();
            let entries = store.audit(AuditRange::Before(None), 100).await.unwrap();
            (ended.sessions, ended.grants, entries.len())
        };
        let before = end(&*store, "unknown").await.2;
        let number = ended.iter().filter(|ends| **ends).count() as u64;
        let expected = (number, number * 2, before + 1);
        assert_eq!(end(&*store, person).await, expected);
        let store = subject.again(store).await;
        assert_eq!(end(&*store, person).await, (0, 0, before + 1), "once");
        let mut revoked = feed(&*store).await.split_off(announced);
        let of_ended = [&one, &other].into_iter().zip(ended);
        let of_ended = of_ended.filter(|(_, ends)| *ends);
        let grants = of_ended.flat_map(|(sign_in, _)| &sign_in.grants);
        let mut grants: Vec<Revoked> = grants.map(|one| Revoked::Grant(one.grant_id)).collect();
        for revoked in [&mut revoked, &mut grants] {
            revoked.sort_by_key(Revoked::key);
        }
        assert_eq!(revoked, grants, "at the gateway too");
        one.assert_over(&*store, ended[0]).await;
        other.assert_over(&*store, ended[1]).await;
        for sign_in in left {
            sign_in.assert_over(&*store, false).await;
        }
    }
}

pub(crate) async fn unlinking_an_identity_ends_its_sign_ins_alone(subject: &mut impl Subject) {
    let store = subject.store();
    apply(&*store, put(vec![], vec![linked(&["1", "2"])]), 0).await;
    let version = version_of(&*store, &username("ada")).await;
    let lost = SignedIn::begin(&*store, "lost", at_provider("1", "a")).await;
    let left = [
        SignedIn::begin(&*store, "left", at_provider("2", "a")).await,
        SignedIn::begin(&*store, "password", None).await,
    ];
    apply(&*store, put(vec![], vec![linked(&["2", "3"])]), 1).await;
    let store = subject.again(store).await;
    assert_eq!(version_of(&*store, &username("ada")).await, version);
    let feed = feed(&*store).await;
    assert!(
        feed.iter()
            .all(|revoked| matches!(revoked, Revoked::Grant(_)))
    );
    assert_eq!(feed.len(), lost.grants.len());
    lost.assert_over(&*store, true).await;
    for sign_in in left {
        sign_in.assert_over(&*store, false).await;
    }
    let late = Session {
        provider: at_provider("1", "a"),
        credentials_version: version,
        ..session("ada", at(100))
    };
    let started = store.start_session(Digest::of(b"late"), late, None).await;
    assert_eq!(started, Ok(SessionBegin::CredentialsChanged));
    let record = CodeRecord {
        provider: at_provider("1", "a"),
        ..code()
    };
    let record = with_current_credentials(&*store, record).await;
    let issued = store.issue_legacy_code(Digest::of(b"late"), record).await;
    assert_eq!(issued, Ok(Begin::CredentialsChanged));
}

/// In any order, no live grant of a sign-in that its provider ended remains.
pub(crate) async fn redemptions_leave_nothing_of_a_sign_in_that_its_provider_ends_in_parallel(
    subject: &mut impl Subject,
) {
    for round in 0..4 {
        let store = subject.store();
        apply(&*store, put(vec![], vec![linked(&["1"])]), 0).await;
        let id = numbered("session", round);
        let begun = Session {
            provider: at_provider("1", "a"),
            ..session("ada", at(100))
        };
        start(&*store, id, begun, None).await;
        let mut tasks = JoinSet::new();
        for number in 0..20 {
            let record = CodeRecord {
                client_id: client_id(&format!("client-{number}")),
                provider: at_provider("1", "a"),
                session: Some(id),
                ..code()
            };
            let presented = PresentedCode {
                client_id: record.client_id.clone(),
                ..fitting()
            };
            let code = self_contained(&*store, record).await;
            let store = subject.store();
            tasks.spawn(async move {
                redeem(&*store, &code, presented, at(1)).await;
            });
        }
        let ended = store.end_provider_sign_ins(identity("1"), None, Arc::default(), at(1));
        assert_eq!(ended.await.unwrap().sessions, 1);
        tasks.join_all().await;
        let live = store.live_grants(username("ada"), None, 1000).await;
        assert_eq!(live, Ok(vec![]));
    }
}
