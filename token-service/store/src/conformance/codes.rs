//! Authorization codes of the current flows, and what also holds for codes of the legacy flow (D-2).

use super::*;

/// Requests that do not fit [`code`], and the reasons for refusal.
fn misfits() -> [(PresentedCode, CodeMismatch); 4] {
    [
        (
            PresentedCode {
                client_id: client_id("other"),
                ..fitting()
            },
            CodeMismatch::Client,
        ),
        (
            PresentedCode {
                verifier_digest: None,
                ..fitting()
            },
            CodeMismatch::VerifierMissing,
        ),
        (
            PresentedCode {
                verifier_digest: Some(Digest::of(b"wrong")),
                ..fitting()
            },
            CodeMismatch::VerifierWrong,
        ),
        (
            PresentedCode {
                redirect_uri: "https://app.example.com/callback/".into(),
                ..fitting()
            },
            CodeMismatch::RedirectUri,
        ),
    ]
}

/// A code of a flow, issued for [`code`].
#[derive(Clone)]
enum Issued {
    Current(Box<SelfContainedCode>),
    Legacy(String),
}

impl Issued {
    /// A code of each flow.
    async fn of_each_flow(store: &dyn Store) -> [Self; 2] {
        let text = TokenId::generate(&OsRandom).unwrap().to_string();
        issue_legacy(store, &text, code()).await;
        let current = self_contained(store, code()).await;
        [Self::Current(Box::new(current)), Self::Legacy(text)]
    }

    async fn redeem(
        &self,
        store: &dyn Store,
        presented: PresentedCode,
        now: Timestamp,
    ) -> Redemption {
        match self {
            Self::Current(code) => redeem(store, code, presented, now).await,
            Self::Legacy(text) => redeem_legacy(store, text, presented, now).await,
        }
    }
}

pub(crate) async fn a_code_is_redeemed_once(subject: &mut impl Subject) {
    let code = self_contained(&*subject.store(), code()).await;
    subject.restart().await;
    let (grant, _) = redeemed_of(redeem(&*subject.store(), &code, fitting(), at(59)).await);
    assert_eq!(grant.grant_id, code.grant_id);
    assert_eq!(grant.username, username("ada"));
    assert_eq!(grant.current.scope, code.record.scope);
    subject.restart().await;
    let stored = subject.store().grant(grant.grant_id).await.unwrap();
    assert_eq!(stored, Some(*grant));
    let again = redeem(&*subject.store(), &code, fitting(), at(59)).await;
    assert_eq!(again, Redemption::Replayed(code.grant_id));
}

pub(crate) async fn a_replayed_code_revokes_its_grant(subject: &mut impl Subject) {
    let codes = Issued::of_each_flow(&*subject.store()).await;
    for (number, code) in codes.into_iter().enumerate() {
        let (grant, _) = redeemed_of(code.redeem(&*subject.store(), fitting(), at(1)).await);
        let store = subject.restarted().await;
        // An attacker who has only the code has neither verifier nor redirect URI.
        for (presented, mismatch) in misfits() {
            let redeemed = code.redeem(&*store, presented, at(2)).await;
            assert_eq!(redeemed, Redemption::Mismatch(mismatch));
            let is_ended = is_revoked(&*store, &grant).await;
            assert!(!is_ended, "a stranger ends nothing");
        }
        let replayed = code.redeem(&*store, fitting(), at(2)).await;
        assert_eq!(replayed, Redemption::Replayed(grant.grant_id));
        let store = subject.again(store).await;
        assert!(is_revoked(&*store, &grant).await);
        let again = code.redeem(&*store, fitting(), at(3)).await;
        assert_eq!(again, Redemption::Replayed(grant.grant_id));
        let announced = feed(&*store).await;
        assert_eq!(announced.len(), number + 1, "announced once");
        assert_eq!(announced.last(), Some(&Revoked::Grant(grant.grant_id)));
    }
}

/// Neither the expiry of the code nor the requested scope matters for a second use.
pub(crate) async fn a_second_use_revokes_until_the_code_is_forgotten(subject: &mut impl Subject) {
    let store = subject.store();
    let last = code().expires_at + USED_CODE_RETENTION;
    for (now, revokes) in [(last, true), (last + Duration::from_secs(1), false)] {
        let code = self_contained(&*store, code()).await;
        let (grant, _) = redeemed_of(redeem(&*store, &code, fitting(), at(1)).await);
        sweep(&*store, now).await;
        let again = redeem(&*store, &code, fitting(), now).await;
        let expected = if revokes {
            Redemption::Replayed(code.grant_id)
        } else {
            Redemption::Mismatch(CodeMismatch::Expired)
        };
        assert_eq!(again, expected);
        assert_eq!(is_revoked(&*store, &grant).await, revokes);
    }
    let grant = grant_of(&*store, code()).await;
    let code = SelfContainedCode {
        grant_id: grant.grant_id,
        record: with_current_credentials(&*store, code()).await,
        dpop_jkt: None,
    };
    let again = store.redeem_code(code, fitting(), exceeding_step(), at(2));
    assert_eq!(
        again.await.unwrap(),
        Redemption::Replayed(grant.grant_id),
        "the scope exceeds the code's"
    );
    assert!(is_revoked(&*store, &grant).await);
}

/// A first step with more scopes than [`code`].
fn exceeding_step() -> FirstStep {
    FirstStep {
        scope: Scope::parse("projects admin"),
        ..first_step(at(1))
    }
}

pub(crate) async fn a_mismatch_leaves_the_code_to_its_client(subject: &mut impl Subject) {
    let store = subject.store();
    for code in Issued::of_each_flow(&*store).await {
        for (presented, mismatch) in misfits() {
            let redeemed = code.redeem(&*store, presented, at(1)).await;
            assert_eq!(redeemed, Redemption::Mismatch(mismatch));
        }
        if let Issued::Current(code) = &code {
            let code = SelfContainedCode::clone(code);
            let exceeding = store.redeem_code(code, fitting(), exceeding_step(), at(1));
            let excess = CodeMismatch::ScopeExceeded(Scope::parse("admin").unwrap());
            assert_eq!(exceeding.await.unwrap(), Redemption::Mismatch(excess));
        }
        let late = code.redeem(&*store, fitting(), at(60)).await;
        assert_eq!(late, Redemption::Mismatch(CodeMismatch::Expired));
        redeemed_of(code.redeem(&*store, fitting(), at(59)).await);
    }
}

pub(crate) async fn a_code_ends_with_its_user_and_its_account(subject: &mut impl Subject) {
    let unlinked = user("ada").with_accounts(&["2"]);
    let disabled = user("ada").disabled();
    for changed in [unlinked, disabled] {
        let store = subject.store();
        apply(&*store, put(vec![], vec![user("ada")]), 0).await;
        let code = self_contained(&*store, code()).await;
        apply(&*store, put(vec![], vec![changed]), 1).await;
        let store = subject.again(store).await;
        assert_eq!(
            redeem(&*store, &code, fitting(), at(2)).await,
            Redemption::Mismatch(CodeMismatch::Outdated)
        );
        assert_eq!(store.grant(code.grant_id).await.unwrap(), None);
    }
}

pub(crate) async fn a_code_ends_with_its_session(subject: &mut impl Subject) {
    let store = subject.store();
    let id = Digest::of(b"session");
    start(&*store, id, session("ada", at(30)), None).await;
    let record = CodeRecord {
        session: Some(id),
        ..code()
    };
    let code = self_contained(&*store, record).await;
    let store = subject.again(store).await;
    let late = redeem(&*store, &code, fitting(), at(30)).await;
    assert_eq!(late, Redemption::Mismatch(CodeMismatch::Outdated));
    redeemed_of(redeem(&*store, &code, fitting(), at(29)).await);
}

/// D-56. The code of a client is as good as before once its rule is gone.
pub(crate) async fn a_code_needs_the_second_factor_that_is_required(subject: &mut impl Subject) {
    let store = subject.store();
    let rule = |requires_second_factor| {
        let client = Client {
            requires_second_factor,
            ..client("web")
        };
        put(vec![client], vec![])
    };
    for code in Issued::of_each_flow(&*store).await {
        apply(&*store, rule(true), 1).await;
        let refused = code.redeem(&*store, fitting(), at(1)).await;
        let missing = CodeMismatch::SecondFactorMissing;
        assert_eq!(refused, Redemption::Mismatch(missing));
        apply(&*store, rule(false), 2).await;
        redeemed_of(code.redeem(&*store, fitting(), at(2)).await);
    }
}

/// The ways in which codes of client `web` end with the client or its redirect URI.
fn ends_of_a_client() -> [RegistryChange; 3] {
    let disabled = client("web").disabled();
    let without_redirect_uri = installed("web", &["https://app.example.com/"]);
    let removed = remove(&["web"], &[]);
    [
        removed,
        put(vec![disabled], vec![]),
        put(vec![without_redirect_uri], vec![]),
    ]
}

/// D-2: legacy codes too. A client that is registered or enabled again has none of its earlier codes.
pub(crate) async fn a_code_ends_with_its_client_and_its_redirect_uri(subject: &mut impl Subject) {
    for (way, change) in ends_of_a_client().into_iter().enumerate() {
        let store = subject.store();
        let legacy = format!("c{way}");
        issue_legacy(&*store, &legacy, code()).await;
        let code = self_contained(&*store, code()).await;
        apply(&*store, change, 1).await;
        let store = subject.again(store).await;
        let is_unregistered_redirect_uri = way == 2;
        for registered_again in [false, true] {
            if registered_again {
                apply(&*store, put(vec![client("web")], vec![]), 1).await;
            }
            if registered_again && is_unregistered_redirect_uri {
                continue;
            }
            let changed = Redemption::Mismatch(CodeMismatch::ClientChanged);
            let redeemed = redeem(&*store, &code, fitting(), at(59)).await;
            assert_eq!(redeemed, changed, "way {way}");
            let redeemed = redeem_legacy(&*store, &legacy, fitting(), at(59)).await;
            assert_eq!(redeemed, changed, "way {way}");
            let late = store.issue_legacy_code(Digest::of(b"late"), code.record.clone());
            assert_eq!(late.await.unwrap(), Begin::CredentialsChanged, "way {way}");
        }
        assert_eq!(store.grant(code.grant_id).await.unwrap(), None);
        let new = self_contained(&*store, super::code()).await;
        let redeemed = redeem(&*store, &new, fitting(), at(59)).await;
        assert!(matches!(redeemed, Redemption::Redeemed { .. }), "way {way}");
    }
}

/// A change revokes tokens that are issued for some seconds yet. A code that is redeemed in this time would get such tokens.
pub(crate) async fn a_code_waits_until_its_tokens_are_not_revoked_already(
    subject: &mut impl Subject,
) {
    let clients = || vec![client("web")];
    let disabled_client = client("web").disabled();
    let disabled_user = user("ada").disabled();
    let unlinked = user("ada").with_accounts(&["2"]);
    let mut now = at(0);
    for change in [
        remove(&["web"], &[]),
        put(vec![disabled_client], vec![]),
        remove(&[], &["ada"]),
        put(clients(), vec![disabled_user]),
        put(clients(), vec![unlinked]),
    ] {
        let store = subject.store();
        let again = || put(clients(), vec![user("ada")]);
        store.change_registry(again(), now).await.unwrap();
        store.change_registry(change, now).await.unwrap();
        store.change_registry(again(), now).await.unwrap();
        let covered = issued_until(now);
        let store = subject.again(store).await;
        let record = CodeRecord {
            expires_at: covered + Duration::from_secs(60),
            ..code()
        };
        let code = self_contained(&*store, record.clone()).await;
        let text = format!("c{now}");
        issue_legacy(&*store, &text, record).await;
        let second = Duration::from_secs(1);
        let wait = Redemption::TooEarly(second);
        assert_eq!(redeem(&*store, &code, fitting(), covered).await, wait);
        let legacy = redeem_legacy(&*store, &text, fitting(), covered).await;
        assert_eq!(legacy, wait);
        redeemed_of(redeem(&*store, &code, fitting(), covered + second).await);
        redeemed_of(redeem_legacy(&*store, &text, fitting(), covered + second).await);
        now = covered + second;
    }
}

/// D-28: an account that was unlinked, or linked with another name, keeps no other account of the user waiting.
pub(crate) async fn a_code_waits_for_its_own_account_alone(subject: &mut impl Subject) {
    let mut renamed = user("ada");
    renamed.accounts[0].username = "other".to_owned();
    let unlinked = user("ada").with_accounts(&["2"]);
    for (second, states) in [
        (0, vec![user("ada"), renamed]),
        (100, vec![unlinked, user("ada")]),
    ] {
        let store = subject.restarted().await;
        for state in &states {
            apply(&*store, put(vec![], vec![state.clone()]), second).await;
        }
        let accounts = &states[states.len() - 1].accounts;
        for (account, waits) in [(&accounts[0], true), (&accounts[1], false)] {
            let record = CodeRecord {
                account: account.clone(),
                expires_at: at(1000),
                ..code()
            };
            let code = self_contained(&*store, record).await;
            let redeemed = redeem(&*store, &code, fitting(), at(second + 1)).await;
            let is_early = matches!(redeemed, Redemption::TooEarly(_));
            assert_eq!(is_early, waits, "{account:?}: {redeemed:?}");
        }
    }
}

/// In any order, no live grant of a disabled client remains.
pub(crate) async fn redemptions_leave_nothing_of_a_client_that_is_disabled_in_parallel(
    subject: &mut impl Subject,
) {
    for _ in 0..10 {
        let store = subject.store();
        let enabled = put(vec![client("web")], vec![]);
        apply(&*store, enabled, 0).await;
        let mut tasks = JoinSet::new();
        for number in 0..PARALLEL {
            let record = CodeRecord {
                username: username(&format!("user-{number}")),
                expires_at: at(100),
                ..code()
            };
            let code = self_contained(&*store, record).await;
            let store = subject.store();
            tasks.spawn(async move {
                redeem(&*store, &code, fitting(), at(90)).await;
            });
        }
        let disabled = client("web").disabled();
        apply(&*store, put(vec![disabled], vec![]), 0).await;
        tasks.join_all().await;
        let grants = store.grants(GrantFilter::default(), None, 1000).await;
        let live = grants.unwrap().into_iter();
        let live = live.filter(|grant| grant.revoked_at.is_none());
        assert_eq!(live.count(), 0);
    }
}

/// Whose access ends, also the codes that are not redeemed yet.
fn access() -> Owner {
    Owner::UserAtClient {
        username: username("ada"),
        client_id: client_id("web"),
    }
}

pub(crate) async fn a_code_ends_with_the_access_of_its_client(subject: &mut impl Subject) {
    let store = subject.store();
    let codes = Issued::of_each_flow(&*store).await;
    let others = [code_of("other", "ada"), code_of("web", "grace")];
    let [at_another, anothers] = others.map(|record| self_contained(&*store, record));
    let (at_another, anothers) = (at_another.await, anothers.await);
    let ended = store.revoke_all(access(), Arc::default(), at(5)).await;
    assert_eq!(ended, Ok(0));
    let store = subject.again(store).await;
    for code in codes {
        let redeemed = code.redeem(&*store, fitting(), at(6)).await;
        assert_eq!(redeemed, Redemption::Mismatch(CodeMismatch::Outdated));
    }
    let presented = PresentedCode {
        client_id: client_id("other"),
        ..fitting()
    };
    redeemed_of(redeem(&*store, &at_another, presented, at(6)).await);
    redeemed_of(redeem(&*store, &anothers, fitting(), at(6)).await);
    // The person authorizes the client again.
    for (issued_at, is_refused) in [(at(5), true), (at(6), false)] {
        let record = CodeRecord {
            issued_at,
            ..code()
        };
        let again = self_contained(&*store, record).await;
        let redeemed = redeem(&*store, &again, fitting(), at(7)).await;
        let refused = matches!(redeemed, Redemption::Mismatch(CodeMismatch::Outdated));
        assert_eq!(refused, is_refused);
    }
}

/// In any order, no live grant of an ended access remains.
pub(crate) async fn redemptions_leave_nothing_of_an_access_that_is_ended_in_parallel(
    subject: &mut impl Subject,
) {
    let store = subject.store();
    let mut tasks = JoinSet::new();
    for number in 0..PARALLEL {
        let text = format!("c{number}");
        let codes = [
            Issued::Current(Box::new(self_contained(&*store, code()).await)),
            Issued::Legacy(text.clone()),
        ];
        if number < cap::CODES.most() {
            issue_legacy(&*store, &text, code()).await;
        }
        let store = subject.store();
        tasks.spawn(async move {
            for code in codes {
                code.redeem(&*store, fitting(), at(5)).await;
            }
        });
    }
    let ended = patiently(|| store.revoke_all(access(), Arc::default(), at(5))).await;
    tasks.join_all().await;
    let live = store.live_grants(username("ada"), None, 1000).await;
    assert_eq!(live.map(|live| live.len()), Ok(0), "{ended:?} ended");
}

/// The others revoke the grant.
pub(crate) async fn parallel_redemptions_have_one_winner(subject: &mut impl Subject) {
    let store = subject.store();
    for _ in 0..10 {
        for code in Issued::of_each_flow(&*store).await {
            let redeemed = in_parallel(subject, PARALLEL, |store, _| {
                let code = code.clone();
                async move { code.redeem(&*store, fitting(), at(1)).await }
            });
            let outcomes = redeemed.await;
            let winners = outcomes.iter().filter_map(|outcome| match outcome {
                Redemption::Redeemed { grant, .. } => Some(grant),
                _ => None,
            });
            let winners: Vec<_> = winners.collect();
            let [winner] = winners.as_slice() else {
                panic!("{} winners", winners.len());
            };
            let replayed = Redemption::Replayed(winner.grant_id);
            let losers = outcomes.iter().filter(|outcome| **outcome == replayed);
            assert_eq!(losers.count(), outcomes.len() - 1);
            assert!(is_revoked(&*store, winner).await);
        }
    }
}

/// RFC 9449 §10.
pub(crate) async fn a_bound_code_needs_its_key(subject: &mut impl Subject) {
    let (key, other) = (Thumbprint::of(b"key"), Thumbprint::of(b"other"));
    let code = SelfContainedCode {
        dpop_jkt: Some(key),
        ..self_contained(&*subject.store(), code()).await
    };
    let with = |key| PresentedCode {
        proven: of_key(key),
        ..fitting()
    };
    let mismatch = Redemption::Mismatch(CodeMismatch::Key);
    for wrong in [None, Some(other)] {
        let refused = redeem(&*subject.store(), &code, with(wrong), at(1)).await;
        assert_eq!(refused, mismatch);
    }
    let (grant, _) = redeemed_of(redeem(&*subject.store(), &code, with(Some(key)), at(2)).await);
    assert_eq!(grant.bound, of_key(Some(key)));
    let store = subject.restarted().await;
    // Somebody who has the code without the key does not end the grant.
    let stolen = redeem(&*store, &code, with(Some(other)), at(3)).await;
    assert_eq!(stolen, mismatch);
    assert!(!is_revoked(&*store, &grant).await);
    let again = redeem(&*store, &code, with(Some(key)), at(4)).await;
    assert_eq!(again, Redemption::Replayed(grant.grant_id));
}
