//! Sign-ins at identity providers, and what ends with them.

use super::*;
use domain::testing::{identity, provider_sign_in};

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
    Some(provider_sign_in(subject, Some(sid), at(0)))
}

/// Ends the sign-ins of a person at the provider, up to this second.
async fn sign_out(
    store: &dyn Store,
    subject: &str,
    sid: Option<&str>,
    second: u64,
) -> EndedSignIns {
    let sign_out = ProviderSignOut {
        identity: identity(subject),
        sid: sid.map(str::to_owned),
        at: at(second),
    };
    let audit: Arc<[_]> = [audit_event(5)].into();
    let ended =
        patiently(|| store.end_provider_sign_ins(sign_out.clone(), Arc::clone(&audit), at(1)));
    ended.await.unwrap()
}

/// How a session of a sign-in begins.
async fn begin(store: &dyn Store, provider: ProviderSignIn) -> SessionBegin {
    let session = Session {
        credentials_version: version_of(store, &username("ada")).await,
        provider: Some(provider),
        ..session("ada", at(100))
    };
    let begun = store.start_session(Digest::of(b"begun"), session, None);
    begun.await.unwrap()
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
            begin("newer", Some(provider_sign_in(person, Some("a"), at(2)))).await,
            begin("password", None).await,
        ];
        let announced = feed(&*store).await.len();
        let end = async |store: &dyn Store, subject: &str| {
            let ended = sign_out(store, subject, sid, 1).await;
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

/// D-66.
pub(crate) async fn a_sign_out_ends_the_sign_ins_that_are_under_way(subject: &mut impl Subject) {
    for (ended, of_other_session) in [(Some("a"), false), (None, true)] {
        let store = subject.store();
        apply(&*store, put(vec![], vec![linked(&["1"])]), 0).await;
        sign_out(&*store, "1", ended, 3).await;
        // Late: what the later one ends stays ended.
        sign_out(&*store, "1", ended, 2).await;
        let store = subject.again(store).await;
        for (sid, began_at, is_over) in [
            (Some("a"), 0, true),
            (Some("a"), 3, true),
            (Some("a"), 4, false),
            (Some("b"), 3, of_other_session),
            (None, 3, of_other_session),
        ] {
            let begun = begin(&*store, provider_sign_in("1", sid, at(began_at))).await;
            let is_signed_out = begun == SessionBegin::SignedOut;
            assert_eq!(
                is_signed_out, is_over,
                "{ended:?} {sid:?} {began_at}: {begun:?}"
            );
        }
        let unrelated = begin(&*store, provider_sign_in("2", Some("a"), at(0))).await;
        assert_eq!(
            unrelated,
            SessionBegin::CredentialsChanged,
            "linked to nobody"
        );
    }
}

/// D-65.
pub(crate) async fn what_ends_sessions_asks_for_newer_sign_ins_at_a_provider(
    subject: &mut impl Subject,
) {
    for (way, second) in (0..=WAYS_TO_CHANGE_CREDENTIALS).zip((10..).step_by(10)) {
        let store = subject.store();
        apply(&*store, put(vec![], vec![linked(&["1"])]), 0).await;
        let of_second = |second| provider_sign_in("1", None, at(second));
        let has_begun = async |store: &dyn Store, sign_in| match begin(store, sign_in).await {
            SessionBegin::Begun(_) => true,
            SessionBegin::TooOld => false,
            other => panic!("way {way}: {other:?}"),
        };
        assert!(has_begun(&*store, of_second(second - 1)).await, "way {way}");
        if way == WAYS_TO_CHANGE_CREDENTIALS {
            let others = EndingSessions::Others(Digest::of(b"begun"));
            let ended = store.end_sessions(username("ada"), others, Arc::default(), at(second));
            assert_eq!(ended.await, Ok(0), "also without another session");
        } else {
            change_credentials_at(&*store, way, second).await;
        }
        // What ends nothing changes nothing of it.
        apply(&*store, put(vec![], vec![linked(&["1"])]), second + 2).await;
        let store = subject.again(store).await;
        assert!(
            !has_begun(&*store, of_second(second - 1)).await,
            "way {way}"
        );
        assert!(has_begun(&*store, of_second(second)).await, "way {way}");
    }
}

/// In any order, no live grant of a sign-in that its provider ended remains.
pub(crate) async fn redemptions_leave_nothing_of_a_sign_in_that_its_provider_ends_in_parallel(
    subject: &mut impl Subject,
) {
    for (round, second) in (0..4).zip(0..) {
        // The sign-out of the round before does not end this sign-in.
        let sign_in = || Some(provider_sign_in("1", Some("a"), at(second)));
        let store = subject.store();
        apply(&*store, put(vec![], vec![linked(&["1"])]), 0).await;
        let id = numbered("session", round);
        let begun = Session {
            provider: sign_in(),
            ..session("ada", at(100))
        };
        start(&*store, id, begun, None).await;
        let mut tasks = JoinSet::new();
        for number in 0..20 {
            let record = CodeRecord {
                client_id: client_id(&format!("client-{number}")),
                provider: sign_in(),
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
        assert_eq!(sign_out(&*store, "1", None, second).await.sessions, 1);
        tasks.join_all().await;
        let live = store.live_grants(username("ada"), None, 1000).await;
        assert_eq!(live, Ok(vec![]));
    }
}
