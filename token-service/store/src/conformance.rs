//! What every store must do, as plain functions over the trait. Each store's tests run all of them, once on a
//! store that stays open and once on one that is closed and opened again between the steps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use claims::Algorithm;
use tokio::task::JoinSet;

use super::*;
use domain::authorization_code::USED_CODE_RETENTION;
use domain::cap;
use domain::client::ClientSecret;
use domain::random::OsRandom;
use domain::remembered::{Element, Made, ObjectKind, Said};
use domain::{
    AuditAction, CodeMismatch, IntegrationType, LinkedAccount, ObjectName, Pace, RotationRefusal,
    Scope, SessionStage, TokenId, TokenSubject,
};

/// How long access tokens live in these tests.
pub(super) const ACCESS: Duration = Duration::from_secs(3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const GRACE: Duration = Duration::from_secs(10);
const PARALLEL: usize = 100;

/// A store under test.
pub(super) trait Subject: Send {
    /// The store, open.
    fn store(&self) -> Arc<dyn Store>;
    /// Closes and opens the store, in the run that tests durability.
    fn restart(&mut self) -> impl Future<Output = ()>;
}

/// Defines one test per case for a store.
macro_rules! conformance {
    ($subject:expr) => {
        $crate::conformance::conformance!($subject;
            registry_changes_as_a_whole,
            a_change_of_the_registry_is_made_on_the_version_that_it_was_planned_on,
            what_files_said_is_remembered,
            many_registrations_are_read_whole,
            removing_a_client_ends_its_grants,
            disabling_a_client_ends_its_grants,
            disabling_a_user_ends_grants_and_sessions,
            removing_a_user_ends_grants_and_sessions,
            a_new_password_ends_grants_and_sessions,
            other_credentials_end_codes_sessions_and_grants_in_the_making,
            credentials_that_change_in_parallel_leave_nothing_behind,
            a_stronger_hash_of_the_same_password_ends_nothing,
            unlinking_an_account_ends_its_grants_alone,
            client_secrets_have_times,
            parallel_rotations_agree_on_one_signing_key,
            a_signing_key_retires_resumes_and_is_forgotten,
            what_is_sealed_is_sealed_anew,
            a_code_is_redeemed_once,
            a_replayed_code_revokes_its_grant,
            a_used_code_is_remembered_and_then_forgotten,
            a_mismatch_leaves_the_code_to_its_client,
            parallel_redemptions_have_one_winner,
            refresh_rotates,
            a_repeated_refresh_within_the_grace_gets_the_same_answer,
            a_reused_refresh_token_revokes_its_grant_alone,
            refresh_expires_at_the_second,
            parallel_refreshes_have_one_successor,
            revoking_a_grant,
            grants_are_listed_by_client_and_user_and_paged,
            the_audit_log_is_appended_listed_and_swept,
            rows_are_counted,
            the_revocation_feed_rises_and_pages,
            a_token_is_revoked_by_itself_its_grant_its_client_or_its_user,
            an_account_and_an_issuer_end_their_own_tokens_up_to_a_time,
            nothing_is_announced_twice,
            a_user_that_ends_takes_legacy_grants_along_by_name,
            the_feed_keeps_its_identity_until_it_is_renewed,
            an_assertion_id_is_claimed_once_per_client,
            parallel_claims_have_one_winner,
            a_totp_step_is_claimed_once,
            a_second_factor_ends_what_was_there_and_goes_with_its_user,
            a_recovery_code_works_once,
            failures_slow_attempts_down_until_they_are_forgiven_or_forgotten,
            attempts_that_wait_count_for_the_keys_before_the_one_that_waits,
            parallel_attempts_are_admitted_as_consecutive_ones,
            sessions_start_end_and_expire,
            a_session_lives_on_while_it_is_used,
            a_session_replaces_another,
            a_person_has_so_many_sessions_of_a_stage,
            sessions_that_start_in_parallel_are_no_more_than_one_person_has,
            a_person_has_so_many_unused_codes_for_a_client,
            codes_issued_in_parallel_are_no_more_than_one_person_has,
            a_person_has_so_many_live_grants_for_a_client,
            grants_made_in_parallel_are_no_more_than_one_person_has,
            the_sweep_removes_what_is_over_and_nothing_else,
            the_sweep_keeps_to_its_limit,
        );
    };
    ($subject:expr; $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance::$case(&mut $subject).await;
            }
        )*
    };
}
pub(super) use conformance;

pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_seconds(1_800_000_000 + seconds)
}

pub(super) fn client_id(text: &str) -> ClientId {
    ClientId::parse(text).unwrap()
}

pub(super) fn username(text: &str) -> Username {
    Username::parse(text).unwrap()
}

fn account(user_id: &str) -> LinkedAccount {
    LinkedAccount {
        user_id: user_id.into(),
        username: format!("hat-{user_id}"),
        site: "https://us1.example.com".into(),
    }
}

pub(super) fn client(id: &str) -> Client {
    Client {
        client_id: client_id(id),
        name: "A client".into(),
        integration: IntegrationType::Installed {
            redirect_uris: vec![],
        },
        scopes: Scope::parse("projects").unwrap(),
        enabled: true,
    }
}

pub(super) fn legacy_instance(hostname: &str) -> LegacyInstance {
    LegacyInstance {
        hostname: hostname.into(),
        auth_server_hostname: format!("sso-{hostname}"),
        enabled: true,
    }
}

pub(super) fn user(name: &str) -> User {
    User {
        username: username(name),
        email: None,
        password_hash: Some("hash".into()),
        registered_password_digest: None,
        totp_secret_sealed: None,
        organization: None,
        single_sign_on: false,
        accounts: vec![account("1"), account("2")],
        enabled: true,
        credentials_version: CredentialsVersion::default(),
    }
}

/// A code of client `web`, user `ada` and account 1 that was issued at 0.
pub(super) fn code() -> CodeRecord {
    CodeRecord {
        client_id: client_id("web"),
        redirect_uri: "https://app.example.com/callback".into(),
        code_challenge: Some(Digest::of(b"verifier")),
        username: username("ada"),
        account: account("1"),
        scope: Scope::parse("projects").unwrap(),
        amr: vec!["USERNAME_PASSWORD".into()],
        authenticated_at: at(0),
        expires_at: at(60),
        credentials_version: CredentialsVersion::default(),
    }
}

/// Registers a user who has used one code of an authenticator app.
pub(super) async fn registered(store: &dyn Store, username: &Username) {
    version_of(store, username).await;
    let step = store.claim_totp_step(username.clone(), 7).await;
    assert_eq!(step, Ok(Claim::Claimed));
}

/// Asserts that the user of [`registered`] is known, and the code used.
pub(super) async fn assert_registered(store: &dyn Store, username: &Username) {
    assert!(store.credentials(username.clone()).await.unwrap().is_some());
    let step = store.claim_totp_step(username.clone(), 7).await;
    assert_eq!(step, Ok(Claim::AlreadyClaimed));
}

/// The version of a user's credentials; the user is registered if that has not been done.
pub(super) async fn version_of(store: &dyn Store, username: &Username) -> CredentialsVersion {
    let known = || store.credentials(username.clone());
    if known().await.unwrap().is_none() {
        let change = put(vec![], vec![user(username.as_str())]);
        store.change_registry(change, at(0)).await.unwrap();
    }
    known().await.unwrap().unwrap().version
}

/// Issues a code of a user with the credentials of now.
pub(super) async fn issue(store: &dyn Store, code: &str, record: CodeRecord) {
    let record = CodeRecord {
        credentials_version: version_of(store, &record.username).await,
        ..record
    };
    let issued = store.issue_code(Digest::of(code.as_bytes()), record).await;
    assert_eq!(issued.unwrap(), Begin::Begun);
}

/// Starts a session of a user with the credentials of now, and returns it.
pub(super) async fn start(
    store: &dyn Store,
    id: Digest,
    session: Session,
    replaces: Option<Digest>,
) -> Session {
    let session = Session {
        credentials_version: version_of(store, &session.username).await,
        ..session
    };
    let started = store.start_session(id, session.clone(), replaces).await;
    assert_eq!(started.unwrap(), Begin::Begun);
    session
}

pub(super) fn fitting() -> PresentedCode {
    PresentedCode {
        client_id: client_id("web"),
        redirect_uri: "https://app.example.com/callback".into(),
        verifier_digest: Some(Digest::of(b"verifier")),
        client_authenticated: false,
    }
}

fn first_step(now: Timestamp) -> RefreshStep {
    RefreshStep {
        refresh_id: TokenId::generate(&OsRandom).unwrap(),
        access_id: TokenId::generate(&OsRandom).unwrap(),
        scope: Scope::default(),
        issued_at: now,
        refresh_expires_at: now + WEEK,
    }
}

async fn redeem(
    store: &dyn Store,
    code: &str,
    presented: PresentedCode,
    now: Timestamp,
) -> Redemption {
    store
        .redeem_code(
            Digest::of(code.as_bytes()),
            presented,
            GrantId::generate(&OsRandom, now).unwrap(),
            first_step(now),
            now,
        )
        .await
        .unwrap()
}

/// A grant that redeeming `record` gave at 0.
pub(super) async fn grant_of(store: &dyn Store, record: CodeRecord) -> Grant {
    let code = domain::random::text::<16>(&OsRandom).unwrap();
    let presented = PresentedCode {
        client_id: record.client_id.clone(),
        ..fitting()
    };
    issue(store, &code, record).await;
    match redeem(store, &code, presented, at(0)).await {
        Redemption::Redeemed(grant) => *grant,
        other => panic!("{other:?}"),
    }
}

pub(super) fn use_of(grant: &Grant, refresh_id: TokenId, now: Timestamp) -> RefreshRotation {
    RefreshRotation {
        grant_id: grant.grant_id,
        refresh_id,
        client_id: grant.client_id.clone(),
        scope: None,
        next_refresh_id: TokenId::generate(&OsRandom).unwrap(),
        next_access_id: TokenId::generate(&OsRandom).unwrap(),
        now,
        lifetime: WEEK,
        grace: GRACE,
    }
}

pub(super) fn session(name: &str, expires_at: Timestamp) -> Session {
    Session {
        username: username(name),
        stage: SessionStage::SignedIn,
        amr: vec!["USERNAME_PASSWORD".into()],
        authenticated_at: at(0),
        expires_at,
        ends_at: expires_at,
        credentials_version: CredentialsVersion::default(),
    }
}

async fn is_revoked(store: &dyn Store, grant: &Grant) -> bool {
    let stored = store.grant(grant.grant_id).await.unwrap().unwrap();
    stored.revoked_at.is_some()
}

async fn feed(store: &dyn Store) -> Vec<Revoked> {
    store
        .revocations_since(0, 100)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.revoked)
        .collect()
}

pub(super) fn put(clients: Vec<Client>, users: Vec<User>) -> RegistryChange {
    RegistryChange {
        put_clients: clients,
        put_users: users,
        ..RegistryChange::default()
    }
}

pub(super) async fn a_change_of_the_registry_is_made_on_the_version_that_it_was_planned_on(
    subject: &mut impl Subject,
) {
    let version = subject.store().registry_version().await.unwrap();
    let planned = |name: &str| RegistryChange {
        planned_on: Some(version),
        ..put(vec![client(name)], vec![])
    };
    let (one, other) = (subject.store(), subject.store());
    let outcomes = futures_util::join!(
        one.change_registry(planned("one"), at(0)),
        other.change_registry(planned("other"), at(0))
    );
    let outcomes = [outcomes.0.unwrap(), outcomes.1.unwrap()];
    drop((one, other));
    assert!(outcomes.contains(&RegistryOutcome::Changed), "{outcomes:?}");
    assert!(
        outcomes.contains(&RegistryOutcome::Overtaken),
        "{outcomes:?}"
    );
    subject.restart().await;
    let (clients, _) = subject.store().registry().await.unwrap();
    assert_eq!(clients.len(), 1);
    assert_eq!(
        subject.store().registry_version().await.unwrap(),
        version + 1
    );
}

pub(super) fn remembered(name: &str, value: &str) -> Remembered {
    Remembered {
        object: ObjectName::new(ObjectKind::Client, name),
        last: Said::from([(
            "name".to_owned(),
            vec![Element {
                key: String::new(),
                value: value.to_owned(),
            }],
        )]),
        start: Some(Said::new()),
        made: [(
            "password".to_owned(),
            Made {
                value: "tag".to_owned(),
                digest: Digest::of(b"hash"),
            },
        )]
        .into(),
    }
}

pub(super) async fn what_files_said_is_remembered(subject: &mut impl Subject) {
    let remember = |remember| RegistryChange {
        remember,
        ..RegistryChange::default()
    };
    let change = remember(vec![remembered("a", "1"), remembered("b", "1")]);
    subject
        .store()
        .change_registry(change, at(0))
        .await
        .unwrap();
    let change = RegistryChange {
        forget: vec![
            ObjectName::new(ObjectKind::Client, "b"),
            // Another kind of the same name.
            ObjectName::new(ObjectKind::User, "a"),
        ],
        ..remember(vec![remembered("a", "2")])
    };
    subject
        .store()
        .change_registry(change, at(1))
        .await
        .unwrap();
    subject.restart().await;
    let found = subject.store().remembered().await.unwrap();
    assert_eq!(found, [remembered("a", "2")]);
}

pub(super) async fn registry_changes_as_a_whole(subject: &mut impl Subject) {
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
    subject
        .store()
        .change_registry(change, at(0))
        .await
        .unwrap();
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
    subject
        .store()
        .change_registry(change, at(1))
        .await
        .unwrap();
    subject.restart().await;
    assert_ne!(subject.store().registry_version().await.unwrap(), version);
    let (clients, users) = subject.store().registry().await.unwrap();
    assert_eq!(
        clients,
        [Client {
            name: "Renamed".into(),
            ..client("web")
        }]
    );
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
            Revoked::User(username("grace"))
        ],
        "what was never there is not announced"
    );
}

/// One grant of client `web` and user `ada`, one of others; and a session of each user.
async fn two_grants(store: &dyn Store) -> (Grant, Grant) {
    let change = put(
        vec![client("web"), client("other")],
        vec![user("ada"), user("grace")],
    );
    store.change_registry(change, at(0)).await.unwrap();
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

async fn has_session(store: &dyn Store, name: &str) -> bool {
    let id = Digest::of(name.as_bytes());
    store.session(id, at(5)).await.unwrap().is_some()
}

async fn ends_one_of_two_grants(
    subject: &mut impl Subject,
    change: RegistryChange,
    announced: impl FnOnce(&Grant) -> Vec<Revoked>,
    ends_sessions: bool,
) {
    let (mine, theirs) = two_grants(&*subject.store()).await;
    subject.restart().await;
    subject
        .store()
        .change_registry(change, at(5))
        .await
        .unwrap();
    subject.restart().await;
    let store = subject.store();
    assert!(is_revoked(&*store, &mine).await);
    assert!(!is_revoked(&*store, &theirs).await);
    assert_eq!(has_session(&*store, "ada").await, !ends_sessions);
    assert!(has_session(&*store, "grace").await);
    let entries = store.revocations_since(0, 10).await.unwrap();
    let expected: Vec<Revocation> = (1..)
        .zip(announced(&mine))
        .map(|(sequence, revoked)| {
            // What others still issue by the registrations before is revoked too.
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
        store.rotate_refresh(rotation).await.unwrap(),
        Rotation::Refused(RotationRefusal::Revoked)
    );
}

/// More of each than a store reads at a time, and once exactly as many.
pub(super) async fn many_registrations_are_read_whole(subject: &mut impl Subject) {
    let store = subject.store();
    let names: Vec<String> = (0..4001).map(|number| format!("{number}-name")).collect();
    let (first, rest) = names.split_at(2000);
    for part in [first, rest] {
        let change = put(
            part.iter().map(|name| client(name)).collect(),
            part.iter().map(|name| user(name)).collect(),
        );
        store.change_registry(change, at(0)).await.unwrap();
        let expected: BTreeSet<&str> = if part == first { first } else { &names }
            .iter()
            .map(String::as_str)
            .collect();
        let (clients, users) = store.registry().await.unwrap();
        assert_eq!(clients.len(), expected.len());
        assert_eq!(users.len(), expected.len());
        let clients: BTreeSet<&str> = clients.iter().map(|one| one.client_id.as_str()).collect();
        let users: BTreeSet<&str> = users.iter().map(|one| one.username.as_str()).collect();
        assert_eq!(clients, expected);
        assert_eq!(users, expected);
    }
}

pub(super) async fn removing_a_client_ends_its_grants(subject: &mut impl Subject) {
    let change = RegistryChange {
        remove_clients: vec![client_id("web")],
        ..RegistryChange::default()
    };
    let announced = |_: &Grant| vec![Revoked::Client(client_id("web"))];
    ends_one_of_two_grants(subject, change, announced, false).await;
}

pub(super) async fn disabling_a_client_ends_its_grants(subject: &mut impl Subject) {
    let disabled = Client {
        enabled: false,
        ..client("web")
    };
    let announced = |_: &Grant| vec![Revoked::Client(client_id("web"))];
    ends_one_of_two_grants(subject, put(vec![disabled], vec![]), announced, false).await;
}

pub(super) async fn disabling_a_user_ends_grants_and_sessions(subject: &mut impl Subject) {
    let disabled = User {
        enabled: false,
        ..user("ada")
    };
    let announced = |_: &Grant| vec![Revoked::User(username("ada"))];
    ends_one_of_two_grants(subject, put(vec![], vec![disabled]), announced, true).await;
}

pub(super) async fn removing_a_user_ends_grants_and_sessions(subject: &mut impl Subject) {
    let change = RegistryChange {
        remove_users: vec![username("ada")],
        ..RegistryChange::default()
    };
    let announced = |_: &Grant| vec![Revoked::User(username("ada"))];
    ends_one_of_two_grants(subject, change, announced, true).await;
}

pub(super) async fn a_new_password_ends_grants_and_sessions(subject: &mut impl Subject) {
    let changed = User {
        password_hash: Some("another".into()),
        ..user("ada")
    };
    let announced = |grant: &Grant| vec![Revoked::Grant(grant.grant_id)];
    ends_one_of_two_grants(subject, put(vec![], vec![changed]), announced, true).await;
}

/// Ways of changing the credentials of ada. Afterwards she is as she was, but for those.
async fn change_credentials(store: &dyn Store, way: usize) {
    let ada = username("ada");
    let put_user = async |changed: User| {
        let change = put(vec![], vec![changed]);
        store.change_registry(change, at(5)).await.unwrap();
    };
    let set = async |second_factor: Option<SecondFactor>| {
        let set = store.set_second_factor(ada.clone(), second_factor, None, at(5));
        assert!(set.await.unwrap().is_some());
    };
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
            put_user(User {
                enabled: false,
                ..user("ada")
            })
            .await;
        }
        3 => {
            let change = RegistryChange {
                remove_users: vec![ada.clone()],
                ..RegistryChange::default()
            };
            store.change_registry(change, at(5)).await.unwrap();
        }
        4 => set(Some(second_factor(&["a"]))).await,
        _ => set(None).await,
    }
    put_user(user("ada")).await;
}

const WAYS_TO_CHANGE_CREDENTIALS: usize = 6;

/// RFC 9700 §4.14.2, D-35: what was issued before a change, and what is being made while it happens.
pub(super) async fn other_credentials_end_codes_sessions_and_grants_in_the_making(
    subject: &mut impl Subject,
) {
    for way in 0..WAYS_TO_CHANGE_CREDENTIALS {
        let store = subject.store();
        let version = version_of(&*store, &username("ada")).await;
        let code_text = format!("c{way}");
        issue(&*store, &code_text, code()).await;
        let grant = grant_of(&*store, code()).await;
        assert_eq!(grant.credentials_version, version);
        change_credentials(&*store, way).await;
        drop(store);
        subject.restart().await;
        let store = subject.store();
        assert_ne!(version_of(&*store, &username("ada")).await, version);
        let redeemed = redeem(&*store, &code_text, fitting(), at(6)).await;
        let outdated = Redemption::Mismatch(CodeMismatch::Outdated);
        assert_eq!(redeemed, outdated, "way {way}");
        let record = CodeRecord {
            credentials_version: version,
            ..code()
        };
        let issued = store.issue_code(Digest::of(b"late"), record).await;
        assert_eq!(issued.unwrap(), Begin::CredentialsChanged);
        let redeemed = redeem(&*store, "late", fitting(), at(6)).await;
        assert_eq!(redeemed, Redemption::Unknown);
        for stage in [SessionStage::SecondFactorOwed, SessionStage::SignedIn] {
            let id = Digest::of(b"late");
            let late = Session {
                stage,
                credentials_version: version,
                ..session("ada", at(100))
            };
            let started = store.start_session(id, late, None).await;
            assert_eq!(started.unwrap(), Begin::CredentialsChanged);
            assert_eq!(store.session(id, at(6)).await.unwrap(), None);
        }
        let rotation = use_of(&grant, grant.current.refresh_id, at(6));
        assert_eq!(
            store.rotate_refresh(rotation).await.unwrap(),
            Rotation::Refused(RotationRefusal::Revoked)
        );
        let factor = Some(second_factor(&["b"]));
        let set = store.set_second_factor(username("ada"), factor, Some(version), at(6));
        assert_eq!(set.await.unwrap(), None);
        grant_of(&*store, code()).await;
    }
    let unknown = store_credentials(&*subject.store(), "grace").await;
    assert_eq!(unknown, None);
}

async fn store_credentials(store: &dyn Store, name: &str) -> Option<Option<Vec<u8>>> {
    let credentials = store.credentials(username(name)).await.unwrap();
    credentials.map(|credentials| credentials.totp_secret_sealed)
}

/// Whatever comes first: in the end no session and no live grant rests on the old credentials.
pub(super) async fn credentials_that_change_in_parallel_leave_nothing_behind(
    subject: &mut impl Subject,
) {
    for round in 0..12_u32 {
        let store = subject.store();
        let ada = username("ada");
        let version = version_of(&*store, &ada).await;
        let codes: Vec<String> = (0..4).map(|number| format!("{round}-{number}")).collect();
        for code_text in &codes {
            issue(&*store, code_text, code()).await;
        }
        drop(store);
        subject.restart().await;
        let mut tasks = JoinSet::new();
        for (number, code_text) in codes.into_iter().enumerate() {
            let store = subject.store();
            let id = Digest::of(code_text.as_bytes());
            tasks.spawn(async move {
                if number == 2 {
                    let changed = User {
                        password_hash: Some(format!("password {round}")),
                        ..user("ada")
                    };
                    let change = put(vec![], vec![changed]);
                    store.change_registry(change, at(5)).await.unwrap();
                }
                redeem(&*store, &code_text, fitting(), at(5)).await;
                let late = Session {
                    credentials_version: version,
                    ..session("ada", at(100))
                };
                let _ = store.start_session(id, late, None).await.unwrap();
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

pub(super) async fn a_stronger_hash_of_the_same_password_ends_nothing(subject: &mut impl Subject) {
    let change = put(vec![], vec![user("ada")]);
    subject
        .store()
        .change_registry(change, at(0))
        .await
        .unwrap();
    let grant = grant_of(&*subject.store(), code()).await;
    issue(&*subject.store(), "c", code()).await;
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
    subject.restart().await;
    let store = subject.store();
    assert!(store.registry_version().await.unwrap() > version);
    let (_, users) = store.registry().await.unwrap();
    let ada = users.first().unwrap();
    assert_eq!(ada.password_hash.as_deref(), Some("strongest"));
    assert_eq!(ada.registered_password_digest, Some(Digest::of(b"hash")));
    assert!(!is_revoked(&*store, &grant).await);
    let redeemed = redeem(&*store, "c", fitting(), at(1)).await;
    assert!(matches!(redeemed, Redemption::Redeemed(_)), "{redeemed:?}");
}

pub(super) async fn what_is_sealed_is_sealed_anew(subject: &mut impl Subject) {
    let joan = User {
        totp_secret_sealed: Some(b"registered".to_vec()),
        ..user("joan")
    };
    let made = |form: &[u8]| Remembered {
        object: ObjectName::new(ObjectKind::User, "joan"),
        last: Said::new(),
        start: None,
        made: [("totp_secret", form), ("password", b"hash")]
            .map(|(field, form)| {
                let (value, digest) = ("tag".to_owned(), Digest::of(form));
                (field.to_owned(), Made { value, digest })
            })
            .into(),
    };
    let change = RegistryChange {
        remember: vec![made(b"registered")],
        ..put(vec![], vec![joan, user("ada")])
    };
    let store = subject.store();
    store.change_registry(change, at(0)).await.unwrap();
    let set = store.set_second_factor(username("ada"), Some(second_factor(&["a"])), None, at(0));
    assert!(set.await.unwrap().is_some());
    let key = signing_key("kid", Algorithm::EdDsa, at(0));
    assert!(store.add_signing_key(key.clone(), None).await.unwrap());
    assert_eq!(store.sealed_root().await.unwrap(), None);
    let start = async |root: &[u8]| {
        let root = root.to_vec();
        store.reseal(SealedValue::Root, None, root).await.unwrap()
    };
    assert_eq!(
        (start(b"root").await, start(b"of a replica").await),
        (true, false)
    );
    let credentials = store.credentials(username("ada")).await.unwrap().unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let version = store.registry_version().await.unwrap();
    let all = [
        (SealedValue::Root, b"root".to_vec()),
        (SealedValue::SigningKey("kid".to_owned()), key.sealed_pkcs8),
        (
            SealedValue::RegisteredTotpSecret(username("joan")),
            b"registered".to_vec(),
        ),
        (
            SealedValue::OwnTotpSecret(username("ada")),
            b"sealed".to_vec(),
        ),
    ];
    assert_eq!(store.sealed_values().await.unwrap(), all);
    for (value, before) in &all {
        let reseal = async |before: Option<&[u8]>, after: &[u8]| {
            let before = before.map(<[u8]>::to_vec);
            store
                .reseal(value.clone(), before, after.to_vec())
                .await
                .unwrap()
        };
        assert!(!reseal(Some(b"something else"), b"lost").await);
        assert!(!reseal(None, b"lost").await);
        assert!(reseal(Some(before), b"anew").await);
        assert!(!reseal(Some(before), b"lost").await);
    }
    for unknown in [
        SealedValue::SigningKey("unknown".to_owned()),
        SealedValue::RegisteredTotpSecret(username("ada")),
        SealedValue::OwnTotpSecret(username("joan")),
        SealedValue::RegisteredTotpSecret(username("nobody")),
    ] {
        for before in [None, Some(Vec::new())] {
            let lost = b"lost".to_vec();
            assert!(!store.reseal(unknown.clone(), before, lost).await.unwrap());
        }
    }
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let anew = all.map(|(value, _)| (value, b"anew".to_vec()));
    assert_eq!(store.sealed_values().await.unwrap(), anew);
    assert_eq!(store.remembered().await.unwrap(), [made(b"anew")]);
    assert!(store.registry_version().await.unwrap() > version);
    let after = store.credentials(username("ada")).await.unwrap().unwrap();
    assert!(after.version == credentials.version, "nothing ends");
    let second_factor = store.second_factor(username("ada")).await.unwrap().unwrap();
    assert_eq!(second_factor.recovery_codes, [Digest::of(b"a")]);
}

pub(super) async fn unlinking_an_account_ends_its_grants_alone(subject: &mut impl Subject) {
    let unlinked = User {
        accounts: vec![account("2")],
        ..user("ada")
    };
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

fn with_secrets(id: &str, secrets: &[&str]) -> Client {
    let secrets = secrets.iter().map(|secret| ClientSecret::of(secret));
    Client {
        integration: IntegrationType::WebServer {
            secrets: secrets.collect(),
            redirect_uris: vec![],
        },
        ..client(id)
    }
}

pub(super) async fn client_secrets_have_times(subject: &mut impl Subject) {
    let change = async |store: Arc<dyn Store>, change: RegistryChange, now| {
        store.change_registry(change, now).await.unwrap();
    };
    let clients = |secrets: &[&str]| put(vec![with_secrets("web", secrets)], vec![]);
    let times = async |store: Arc<dyn Store>| {
        let client_ids = vec![client_id("web"), client_id("nobody")];
        let mut times: Vec<_> = store.secret_times(client_ids).await.unwrap();
        times.sort_by_key(|times| times.added_at);
        let known = |times: SecretTimes| (times.secret, times.added_at, times.last_used_at);
        times.into_iter().map(known).collect::<Vec<_>>()
    };
    let use_of = |id: &str, secret: &str, now| SecretUse {
        client_id: client_id(id),
        secret: ClientSecret::of(secret),
        at: now,
    };
    change(subject.store(), clients(&["one"]), at(0)).await;
    let other = put(vec![with_secrets("other", &["one"])], vec![]);
    change(subject.store(), other, at(1)).await;
    change(subject.store(), clients(&["one", "two"]), at(2)).await;
    subject.restart().await;
    let (one, two) = (ClientSecret::of("one"), ClientSecret::of("two"));
    let mut expected = vec![(one, Some(at(0)), None), (two, Some(at(2)), None)];
    assert_eq!(times(subject.store()).await, expected);

    let uses = vec![
        use_of("web", "one", at(9)),
        use_of("web", "three", at(9)),
        use_of("nobody", "one", at(9)),
    ];
    subject.store().note_secret_uses(uses).await.unwrap();
    // Another replica writes later what it noted before.
    let earlier = vec![use_of("web", "one", at(8))];
    subject.store().note_secret_uses(earlier).await.unwrap();
    expected[0].2 = Some(at(9));
    subject.restart().await;
    assert_eq!(times(subject.store()).await, expected);

    change(subject.store(), clients(&["two"]), at(10)).await;
    let late = vec![use_of("web", "one", at(11))];
    subject.store().note_secret_uses(late).await.unwrap();
    assert_eq!(times(subject.store()).await, expected[1..]);
    change(subject.store(), clients(&["one"]), at(12)).await;
    let again = (ClientSecret::of("one"), Some(at(12)), None);
    assert_eq!(times(subject.store()).await, [again]);
    let removed = RegistryChange {
        remove_clients: vec![client_id("web")],
        ..RegistryChange::default()
    };
    change(subject.store(), removed, at(13)).await;
    assert_eq!(times(subject.store()).await, []);
}

pub(super) fn signing_key(
    kid: &str,
    algorithm: Algorithm,
    created_at: Timestamp,
) -> SealedSigningKey {
    SealedSigningKey {
        kid: kid.into(),
        algorithm,
        sealed_pkcs8: vec![1, 2, 3],
        created_at,
        signs_from: created_at,
        retired_at: None,
    }
}

pub(super) async fn parallel_rotations_agree_on_one_signing_key(subject: &mut impl Subject) {
    for (round, unless_after) in [(0, None), (1, Some(at(0)))] {
        let mut tasks = JoinSet::new();
        for number in 0..PARALLEL {
            let store = subject.store();
            let kid = format!("kid-{round}-{number}");
            let key = signing_key(&kid, Algorithm::EdDsa, at(round));
            tasks.spawn(async move { store.add_signing_key(key, unless_after).await.unwrap() });
        }
        let added = tasks.join_all().await;
        assert_eq!(added.into_iter().filter(|added| *added).count(), 1);
        subject.restart().await;
    }
    let store = subject.store();
    let other = signing_key("another", Algorithm::Es256, at(2));
    assert!(store.add_signing_key(other.clone(), None).await.unwrap());
    let mut successor = signing_key("a successor", Algorithm::Es256, at(2));
    successor.signs_from = at(5);
    let added = store.add_signing_key(successor.clone(), Some(at(2))).await;
    assert!(added.unwrap());
    let keys = store.signing_keys().await.unwrap();
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[2..], [other, successor], "oldest first");
}

pub(super) async fn a_signing_key_retires_resumes_and_is_forgotten(subject: &mut impl Subject) {
    let key = signing_key("one", Algorithm::EdDsa, at(0));
    let added = subject.store().add_signing_key(key, None).await;
    assert!(added.unwrap());
    for retired_at in [Some(at(9)), None] {
        let store = subject.store();
        store
            .retire_signing_key("one".into(), retired_at)
            .await
            .unwrap();
        store
            .retire_signing_key("unknown".into(), retired_at)
            .await
            .unwrap();
        drop(store);
        subject.restart().await;
        let keys = subject.store().signing_keys().await.unwrap();
        let retired: Vec<_> = keys.iter().map(|key| key.retired_at).collect();
        assert_eq!(retired, [retired_at]);
    }
    let store = subject.store();
    assert!(store.forget_signing_key("one".into()).await.unwrap());
    assert!(!store.forget_signing_key("one".into()).await.unwrap());
    drop(store);
    subject.restart().await;
    assert!(subject.store().signing_keys().await.unwrap().is_empty());
}

pub(super) async fn a_code_is_redeemed_once(subject: &mut impl Subject) {
    let store = subject.store();
    issue(&*store, "c", code()).await;
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let Redemption::Redeemed(grant) = redeem(&*store, "c", fitting(), at(59)).await else {
        panic!("the code fits");
    };
    assert_eq!(grant.username, username("ada"));
    assert_eq!(grant.current.scope, code().scope);
    drop(store);
    subject.restart().await;
    let stored = subject.store().grant(grant.grant_id).await.unwrap();
    assert_eq!(stored, Some(*grant));
    let unknown = redeem(&*subject.store(), "another", fitting(), at(59)).await;
    assert_eq!(unknown, Redemption::Unknown);
}

pub(super) async fn a_replayed_code_revokes_its_grant(subject: &mut impl Subject) {
    let store = subject.store();
    issue(&*store, "c", code()).await;
    let Redemption::Redeemed(grant) = redeem(&*store, "c", fitting(), at(1)).await else {
        panic!("the code fits");
    };
    drop(store);
    subject.restart().await;
    let stranger = PresentedCode {
        client_id: client_id("other"),
        ..fitting()
    };
    let store = subject.store();
    // Whoever read the code somewhere has neither verifier nor redirect URI. Its expiry does not matter any more.
    let without_verifier = PresentedCode {
        verifier_digest: None,
        ..fitting()
    };
    let wrong_verifier = PresentedCode {
        verifier_digest: Some(Digest::of(b"wrong")),
        ..fitting()
    };
    let elsewhere = PresentedCode {
        redirect_uri: "https://app.example.com/".into(),
        ..fitting()
    };
    for (presented, mismatch) in [
        (stranger, CodeMismatch::Client),
        (without_verifier, CodeMismatch::VerifierMissing),
        (wrong_verifier, CodeMismatch::VerifierWrong),
        (elsewhere, CodeMismatch::RedirectUri),
    ] {
        assert_eq!(
            redeem(&*store, "c", presented, at(2)).await,
            Redemption::Mismatch(mismatch)
        );
        assert!(
            !is_revoked(&*store, &grant).await,
            "a stranger ends nothing"
        );
    }
    let replayed = redeem(&*store, "c", fitting(), at(300)).await;
    assert_eq!(replayed, Redemption::Replayed(grant.grant_id));
    drop(store);
    subject.restart().await;
    let store = subject.store();
    assert!(is_revoked(&*store, &grant).await);
    assert_eq!(feed(&*store).await, [Revoked::Grant(grant.grant_id)]);
    let again = redeem(&*store, "c", fitting(), at(301)).await;
    assert_eq!(again, Redemption::Replayed(grant.grant_id));
    assert_eq!(feed(&*store).await.len(), 1, "announced once");
}

pub(super) async fn a_used_code_is_remembered_and_then_forgotten(subject: &mut impl Subject) {
    let store = subject.store();
    issue(&*store, "c", code()).await;
    redeem(&*store, "c", fitting(), at(1)).await;
    let last = at(1) + USED_CODE_RETENTION;
    store.sweep(last, 100).await.unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let replayed = redeem(&*store, "c", fitting(), last).await;
    assert!(matches!(replayed, Redemption::Replayed(_)));
    let after = last + Duration::from_secs(1);
    store.sweep(after, 100).await.unwrap();
    assert_eq!(
        redeem(&*store, "c", fitting(), after).await,
        Redemption::Unknown
    );
}

pub(super) async fn a_mismatch_leaves_the_code_to_its_client(subject: &mut impl Subject) {
    let store = subject.store();
    issue(&*store, "c", code()).await;
    let cases = [
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
    ];
    for (presented, mismatch) in cases {
        assert_eq!(
            redeem(&*store, "c", presented, at(1)).await,
            Redemption::Mismatch(mismatch)
        );
    }
    assert_eq!(
        redeem(&*store, "c", fitting(), at(60)).await,
        Redemption::Mismatch(CodeMismatch::Expired)
    );
    assert!(matches!(
        redeem(&*store, "c", fitting(), at(59)).await,
        Redemption::Redeemed(_)
    ));
}

pub(super) async fn parallel_redemptions_have_one_winner(subject: &mut impl Subject) {
    for round in 0..10 {
        let code_text = format!("c{round}");
        issue(&*subject.store(), &code_text, code()).await;
        let mut tasks = JoinSet::new();
        for _ in 0..PARALLEL {
            let (store, code_text) = (subject.store(), code_text.clone());
            tasks.spawn(async move { redeem(&*store, &code_text, fitting(), at(1)).await });
        }
        let outcomes = tasks.join_all().await;
        let winners: Vec<_> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Redemption::Redeemed(grant) => Some(grant),
                _ => None,
            })
            .collect();
        let [winner] = winners.as_slice() else {
            panic!("{} winners", winners.len());
        };
        let replayed = Redemption::Replayed(winner.grant_id);
        let losers = outcomes.iter().filter(|outcome| **outcome == replayed);
        assert_eq!(losers.count(), PARALLEL - 1);
        assert!(is_revoked(&*subject.store(), winner).await);
    }
}

pub(super) async fn refresh_rotates(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    let mut live = grant.current.refresh_id;
    for second in [10, 100, 1000] {
        subject.restart().await;
        let rotation = use_of(&grant, live, at(second));
        let outcome = subject
            .store()
            .rotate_refresh(rotation.clone())
            .await
            .unwrap();
        let Rotation::Rotated(rotated) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(rotated.current.refresh_id, rotation.next_refresh_id);
        assert_eq!(rotated.current.access_id, rotation.next_access_id);
        assert_eq!(rotated.current.refresh_expires_at, at(second) + WEEK);
        live = rotation.next_refresh_id;
    }
    let missing = RefreshRotation {
        grant_id: GrantId::generate(&OsRandom, at(0)).unwrap(),
        ..use_of(&grant, live, at(1001))
    };
    assert_eq!(
        subject.store().rotate_refresh(missing).await.unwrap(),
        Rotation::Refused(RotationRefusal::Unknown)
    );
    let stranger = RefreshRotation {
        client_id: client_id("other"),
        ..use_of(&grant, live, at(1001))
    };
    assert_eq!(
        subject.store().rotate_refresh(stranger).await.unwrap(),
        Rotation::Refused(RotationRefusal::OtherClient)
    );
    let more = RefreshRotation {
        scope: Scope::parse("projects admin"),
        ..use_of(&grant, live, at(1001))
    };
    assert_eq!(
        subject.store().rotate_refresh(more).await.unwrap(),
        Rotation::Refused(RotationRefusal::ScopeExceeded)
    );
}

pub(super) async fn a_repeated_refresh_within_the_grace_gets_the_same_answer(
    subject: &mut impl Subject,
) {
    let grant = grant_of(&*subject.store(), code()).await;
    let first = grant.current.refresh_id;
    let rotation = use_of(&grant, first, at(100));
    let Rotation::Rotated(rotated) = subject.store().rotate_refresh(rotation).await.unwrap() else {
        panic!("the first use rotates");
    };
    for second in [100, 105, 110] {
        subject.restart().await;
        let repeated = use_of(&grant, first, at(second));
        let Rotation::Repeated { step, .. } =
            subject.store().rotate_refresh(repeated).await.unwrap()
        else {
            panic!("second {second} is within the grace");
        };
        assert_eq!(step, rotated.current);
    }
    let late = use_of(&grant, first, at(111));
    assert_eq!(
        subject.store().rotate_refresh(late).await.unwrap(),
        Rotation::Reused(grant.grant_id),
        "the grace counts from the first use"
    );
}

pub(super) async fn a_reused_refresh_token_revokes_its_grant_alone(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    let other_device = grant_of(&*subject.store(), code()).await;
    let stolen = grant.current.refresh_id;
    let rotation = use_of(&grant, stolen, at(100));
    subject.store().rotate_refresh(rotation).await.unwrap();
    subject.restart().await;
    let reuse = use_of(&grant, stolen, at(200));
    assert_eq!(
        subject.store().rotate_refresh(reuse).await.unwrap(),
        Rotation::Reused(grant.grant_id)
    );
    subject.restart().await;
    let store = subject.store();
    assert!(is_revoked(&*store, &grant).await);
    assert!(!is_revoked(&*store, &other_device).await);
    assert_eq!(feed(&*store).await, [Revoked::Grant(grant.grant_id)]);
}

pub(super) async fn refresh_expires_at_the_second(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    subject.restart().await;
    let end = at(0) + WEEK;
    let at_the_end = use_of(&grant, grant.current.refresh_id, end);
    assert_eq!(
        subject.store().rotate_refresh(at_the_end).await.unwrap(),
        Rotation::Refused(RotationRefusal::Expired)
    );
    let before = Timestamp::from_seconds(end.seconds() - 1);
    let before = use_of(&grant, grant.current.refresh_id, before);
    assert!(matches!(
        subject.store().rotate_refresh(before).await.unwrap(),
        Rotation::Rotated(_)
    ));
}

pub(super) async fn parallel_refreshes_have_one_successor(subject: &mut impl Subject) {
    for _ in 0..10 {
        let grant = grant_of(&*subject.store(), code()).await;
        let mut tasks = JoinSet::new();
        for _ in 0..PARALLEL {
            let (store, rotation) = (
                subject.store(),
                use_of(&grant, grant.current.refresh_id, at(5)),
            );
            tasks.spawn(async move { store.rotate_refresh(rotation).await.unwrap() });
        }
        let mut rotated = 0;
        let successors: BTreeSet<String> = tasks
            .join_all()
            .await
            .into_iter()
            .map(|outcome| match outcome {
                Rotation::Rotated(grant) => {
                    rotated += 1;
                    grant.current.refresh_id.to_string()
                }
                Rotation::Repeated { step, .. } => step.refresh_id.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((rotated, successors.len()), (1, 1));
    }
}

pub(super) async fn revoking_a_grant(subject: &mut impl Subject) {
    let grant = grant_of(&*subject.store(), code()).await;
    let id = grant.grant_id;
    assert!(subject.store().revoke_grant(id, at(5)).await.unwrap());
    subject.restart().await;
    let store = subject.store();
    assert!(!store.revoke_grant(id, at(6)).await.unwrap());
    assert_eq!(feed(&*store).await, [Revoked::Grant(id)]);
    let never = GrantId::generate(&OsRandom, at(0)).unwrap();
    assert!(!store.revoke_grant(never, at(6)).await.unwrap());
}

pub(super) async fn grants_are_listed_by_client_and_user_and_paged(subject: &mut impl Subject) {
    let mut ids = Vec::new();
    for number in 0..6_u32 {
        let record = CodeRecord {
            username: username(if number % 2 == 0 { "ada" } else { "grace" }),
            ..code()
        };
        ids.push(grant_of(&*subject.store(), record).await.grant_id);
    }
    ids.sort();
    subject.restart().await;
    let store = subject.store();
    let list = async |client: Option<&str>, user: Option<&str>, after, limit| {
        let filter = GrantFilter {
            client_id: client.map(client_id),
            username: user.map(username),
        };
        let grants = store.grants(filter, after, limit).await.unwrap();
        grants
            .into_iter()
            .map(|grant| (grant.grant_id, grant.username.to_string()))
            .collect::<Vec<_>>()
    };
    let id = |(id, _): &(GrantId, String)| *id;
    let all = list(None, None, None, 100).await;
    assert_eq!(all.iter().map(id).collect::<Vec<_>>(), ids);
    let adas = list(None, Some("ada"), None, 100).await;
    assert_eq!(adas.len(), 3);
    assert!(adas.iter().all(|(_, username)| username == "ada"));
    assert_eq!(list(Some("web"), Some("ada"), None, 100).await, adas);
    assert_eq!(list(Some("other"), Some("ada"), None, 100).await, []);
    assert_eq!(list(Some("web"), None, None, 100).await, all);
    for (client, user, whole) in [
        (None, None, &all),
        (Some("web"), None, &all),
        (None, Some("ada"), &adas),
    ] {
        let mut paged = Vec::new();
        loop {
            let page = list(client, user, paged.last().map(id), 2).await;
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= 2);
            paged.extend(page);
        }
        assert_eq!(&paged, whole);
    }
}

pub(super) fn audit_event(number: u64) -> AuditEvent {
    AuditEvent {
        at: at(number),
        action: AuditAction::SignIn,
        actor: Some("ada".into()),
        client_id: None,
        username: Some("ada".into()),
        grant_id: None,
        detail: Some(number.to_string()),
        address: Some("192.0.2.1".into()),
        request_id: None,
        expires_at: at(number + 100),
    }
}

pub(super) async fn the_audit_log_is_appended_listed_and_swept(subject: &mut impl Subject) {
    let events = |numbers: std::ops::Range<u64>| numbers.map(audit_event).collect::<Vec<_>>();
    subject
        .store()
        .append_audit(events(0..3).into())
        .await
        .unwrap();
    subject.restart().await;
    subject
        .store()
        .append_audit(events(3..5).into())
        .await
        .unwrap();
    let store = subject.store();
    let numbers = async |range, limit| {
        let records = store.audit(range, limit).await.unwrap();
        records
            .into_iter()
            .map(|record| (record.sequence, record.event.at))
            .collect::<Vec<_>>()
    };
    let all = numbers(AuditRange::After(0), 100).await;
    assert_eq!(
        all.iter().map(|(_, at)| *at).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4].map(at)
    );
    assert!(all.is_sorted_by(|one, other| one.0 < other.0));
    let mut newest_first = all.clone();
    newest_first.reverse();
    assert_eq!(numbers(AuditRange::Before(None), 100).await, newest_first);
    assert_eq!(
        numbers(AuditRange::Before(None), 2).await,
        newest_first[..2]
    );
    let second = newest_first[1].0;
    assert_eq!(
        numbers(AuditRange::Before(Some(second)), 2).await,
        newest_first[2..4]
    );
    assert_eq!(numbers(AuditRange::After(all[1].0), 2).await, all[2..4]);
    let forgotten = store.forget_audit(0, 100).await.unwrap();
    assert_eq!(forgotten, Swept::default());
    store.sweep(at(102), 100).await.unwrap();
    assert_eq!(
        numbers(AuditRange::After(0), 100).await,
        all[2..],
        "kept up to its last second"
    );
    let one = Swept {
        removed: 1,
        more: true,
    };
    assert_eq!(store.forget_audit(all[3].0, 1).await.unwrap(), one);
    assert_eq!(numbers(AuditRange::After(0), 100).await, all[3..]);
    store.sweep(at(500), 100).await.unwrap();
    store.append_audit(events(5..6).into()).await.unwrap();
    let rest = numbers(AuditRange::After(0), 100).await;
    assert_eq!(rest.len(), 1);
    assert!(all[4].0 < rest[0].0, "a sequence is never used again");

    // Many at once.
    store.append_audit(events(6..206).into()).await.unwrap();
    let all = numbers(AuditRange::After(0), 1000).await;
    assert_eq!(all.len(), 201);
    assert_eq!(store.counts().await.unwrap().audit_entries, 201);
    for start in [0, 1, 64, 65, 100, 199] {
        let after = AuditRange::After(all[start].0);
        assert_eq!(
            numbers(after, 2).await,
            all[start + 1..(start + 3).min(201)]
        );
        let mut before = all[start.saturating_sub(2)..start].to_vec();
        before.reverse();
        assert_eq!(
            numbers(AuditRange::Before(Some(all[start].0)), 2).await,
            before
        );
    }
    let swept = store.forget_audit(all[99].0, 70).await.unwrap();
    assert_eq!(swept.removed, 70);
    let swept = store.forget_audit(all[99].0, 70).await.unwrap();
    assert_eq!((swept.removed, swept.more), (30, false));
    assert_eq!(numbers(AuditRange::After(0), 1000).await, all[100..]);
    assert_eq!(store.counts().await.unwrap().audit_entries, 101);
}

pub(super) async fn rows_are_counted(subject: &mut impl Subject) {
    assert_eq!(subject.store().counts().await.unwrap(), Counts::default());
    let grant = grant_of(&*subject.store(), code()).await;
    let store = subject.store();
    store.revoke_grant(grant.grant_id, at(1)).await.unwrap();
    store.append_audit([audit_event(0)].into()).await.unwrap();
    drop(store);
    subject.restart().await;
    let expected = Counts {
        grants: 1,
        sessions: 0,
        revocations: 1,
        audit_entries: 1,
    };
    assert_eq!(subject.store().counts().await.unwrap(), expected);
}

pub(super) async fn the_revocation_feed_rises_and_pages(subject: &mut impl Subject) {
    let mut revoked = Vec::new();
    for second in 0..10 {
        let grant = grant_of(&*subject.store(), code()).await;
        subject
            .store()
            .revoke_grant(grant.grant_id, at(second))
            .await
            .unwrap();
        revoked.push(Revoked::Grant(grant.grant_id));
    }
    subject.restart().await;
    let store = subject.store();
    let mut since = 0;
    let mut read = Vec::new();
    loop {
        let page = store.revocations_since(since, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        assert!(page.is_sorted_by(|one, other| one.sequence < other.sequence));
        since = last.sequence;
        read.extend(page.into_iter().map(|entry| entry.revoked));
    }
    assert_eq!(read, revoked);
    // Sequences are not used again after a sweep: a reader behind position 10 must see what follows.
    store.sweep(at(20) + ACCESS, 100).await.unwrap();
    assert_eq!(feed(&*store).await, []);
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let grant = grant_of(&*store, code()).await;
    store.revoke_grant(grant.grant_id, at(30)).await.unwrap();
    let page = store.revocations_since(since, 3).await.unwrap();
    let sequences: Vec<_> = page.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [11]);
}

pub(super) async fn a_token_is_revoked_by_itself_its_grant_its_client_or_its_user(
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
    let expires_at = at(0) + ACCESS;
    store
        .announce(
            Revoked::Token(token.token_id),
            Extent {
                at: at(5),
                expires_at,
            },
        )
        .await
        .unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    assert!(is_revoked(&*store, token.clone()).await);
    assert!(!is_revoked(&*store, another(&token)).await);
    store.revoke_grant(mine.grant_id, at(6)).await.unwrap();
    assert!(is_revoked(&*store, another(&token)).await);

    let theirs = token_of(&theirs, at(7));
    assert!(!is_revoked(&*store, theirs.clone()).await);
    let disabled = User {
        enabled: false,
        ..user("grace")
    };
    store
        .change_registry(put(vec![], vec![disabled]), at(7))
        .await
        .unwrap();
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
    let change = RegistryChange {
        remove_clients: vec![client_id("other")],
        ..RegistryChange::default()
    };
    store.change_registry(change, at(8)).await.unwrap();
    assert!(is_revoked(&*store, later.clone()).await);
    assert_eq!(store.feed_state().await.unwrap().last, 4);

    store
        .sweep(issued_until(at(9)) + ACCESS, 100)
        .await
        .unwrap();
    assert!(!is_revoked(&*store, later).await, "it expired by itself");
    assert_eq!(store.feed_state().await.unwrap().last, 4);
}

fn token(issued_at: Timestamp) -> TokenReference {
    TokenReference {
        issuer: "https://lobby.example".into(),
        token_id: TokenId::generate(&OsRandom).unwrap(),
        grant_id: GrantId::generate(&OsRandom, issued_at).unwrap(),
        client_id: client_id("web"),
        subject: TokenSubject::User {
            username: username("1"),
            account: Some(("1".into(), "https://us1.example.com".into())),
        },
        issued_at,
    }
}

fn legacy_token(issued_at: Timestamp) -> TokenReference {
    TokenReference {
        issuer: "https://us1.legacy.example".into(),
        subject: TokenSubject::Legacy {
            user_id: "1".into(),
        },
        ..token(issued_at)
    }
}

pub(super) async fn an_account_and_an_issuer_end_their_own_tokens_up_to_a_time(
    subject: &mut impl Subject,
) {
    let store = subject.store();
    let announce = async |revoked| {
        let extent = Extent::of(at(5), ACCESS);
        assert!(store.announce(revoked, extent).await.unwrap());
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

pub(super) async fn nothing_is_announced_twice(subject: &mut impl Subject) {
    let grant = Revoked::Grant(GrantId::generate(&OsRandom, at(0)).unwrap());
    let issuer = Revoked::Issuer("https://lobby.example".into());
    let extent = Extent::of(at(5), ACCESS);
    for revoked in [&grant, &issuer] {
        let announced = subject.store().announce(revoked.clone(), extent).await;
        assert_eq!(announced, Ok(true));
    }
    subject.restart().await;
    let store = subject.store();
    for revoked in [&grant, &issuer] {
        assert_eq!(store.announce(revoked.clone(), extent).await, Ok(false));
    }
    let later = Extent {
        at: at(6),
        ..extent
    };
    assert_eq!(store.announce(grant.clone(), later).await, Ok(false));
    assert_eq!(store.announce(issuer.clone(), later).await, Ok(true));
    let longer = Extent::of(at(5), ACCESS * 2);
    assert_eq!(store.announce(grant.clone(), longer).await, Ok(true));
    let entry = |sequence, revoked: &Revoked, at, expires_at| Revocation {
        sequence,
        revoked: revoked.clone(),
        at,
        expires_at,
    };
    assert_eq!(
        store.revocations_since(0, 10).await.unwrap(),
        [
            entry(3, &issuer, at(6), at(5) + ACCESS),
            entry(4, &grant, at(5), at(5) + ACCESS * 2),
        ]
    );
    assert_eq!(store.feed_state().await.unwrap().last, 4);
    assert_eq!(store.counts().await.unwrap().revocations, 2);
    // What took the place of another entry is swept in its own time, and nothing of it is left.
    store.sweep(at(6) + ACCESS, 100).await.unwrap();
    assert_eq!(feed(&*store).await, std::slice::from_ref(&grant));
    store.sweep(at(6) + ACCESS * 2, 100).await.unwrap();
    assert_eq!(feed(&*store).await, []);
    assert_eq!(store.announce(grant, extent).await, Ok(true));

    let racing = Revoked::Token(TokenId::generate(&OsRandom).unwrap());
    let mut racers = JoinSet::new();
    for _ in 0..PARALLEL {
        let (store, racing) = (Arc::clone(&store), racing.clone());
        racers.spawn(async move { store.announce(racing, extent).await.unwrap() });
    }
    let announced = racers.join_all().await;
    assert_eq!(announced.iter().filter(|announced| **announced).count(), 1);
}

pub(super) async fn a_user_that_ends_takes_legacy_grants_along_by_name(subject: &mut impl Subject) {
    let legacy = Client {
        integration: IntegrationType::Legacy {
            secrets: vec![],
            redirect_templates: vec![],
            hostname: None,
        },
        ..client("old")
    };
    let change = put(vec![client("web"), legacy], vec![user("ada")]);
    let store = subject.store();
    store.change_registry(change, at(0)).await.unwrap();
    let current = grant_of(&*store, code()).await;
    let old = CodeRecord {
        client_id: client_id("old"),
        ..code()
    };
    let old = grant_of(&*store, old).await;
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let disabled = User {
        enabled: false,
        ..user("ada")
    };
    let change = put(vec![], vec![disabled]);
    store.change_registry(change, at(5)).await.unwrap();
    assert!(is_revoked(&*store, &current).await && is_revoked(&*store, &old).await);
    assert_eq!(
        feed(&*store).await,
        [Revoked::Grant(old.grant_id), Revoked::User(username("ada")),]
    );
}

pub(super) async fn the_feed_keeps_its_identity_until_it_is_renewed(subject: &mut impl Subject) {
    let before = subject.store().feed_state().await.unwrap();
    assert_eq!(before.last, 0);
    subject.restart().await;
    assert_eq!(subject.store().feed_state().await.unwrap(), before);
    let fresh = FeedId::generate(&OsRandom).unwrap();
    subject.store().renew_feed(fresh).await.unwrap();
    subject.restart().await;
    assert_eq!(subject.store().feed_state().await.unwrap().feed, fresh);
}

async fn claim(store: &dyn Store, client: &str, jti: &str, now: Timestamp) -> Claim {
    store
        .claim_jti(
            client_id(client),
            jti.into(),
            now + Duration::from_secs(60),
            now,
        )
        .await
        .unwrap()
}

pub(super) async fn an_assertion_id_is_claimed_once_per_client(subject: &mut impl Subject) {
    assert_eq!(
        claim(&*subject.store(), "a", "1", at(0)).await,
        Claim::Claimed
    );
    subject.restart().await;
    for (client, jti, now, claimed) in [
        ("a", "1", at(0), true),
        ("a", "1", at(59), true),
        ("a", "1", at(60), false),
        ("a", "2", at(0), false),
        ("b", "1", at(0), false),
    ] {
        let asked = subject
            .store()
            .is_jti_claimed(client_id(client), jti.into(), now)
            .await;
        assert_eq!(asked.unwrap(), claimed, "{client} {jti} {now}");
    }
    let store = subject.store();
    assert_eq!(
        claim(&*store, "a", "1", at(59)).await,
        Claim::AlreadyClaimed
    );
    assert_eq!(claim(&*store, "b", "1", at(59)).await, Claim::Claimed);
    assert_eq!(claim(&*store, "a", "2", at(59)).await, Claim::Claimed);
    store.sweep(at(60), 100).await.unwrap();
    assert_eq!(
        claim(&*store, "a", "1", at(60)).await,
        Claim::Claimed,
        "the assertion that had it has expired"
    );
    store.sweep(at(61), 100).await.unwrap();
    assert_eq!(
        claim(&*store, "a", "1", at(61)).await,
        Claim::AlreadyClaimed
    );
}

pub(super) async fn parallel_claims_have_one_winner(subject: &mut impl Subject) {
    for round in 0..10 {
        let mut tasks = JoinSet::new();
        for _ in 0..PARALLEL {
            let store = subject.store();
            tasks.spawn(async move { claim(&*store, "a", &format!("jti-{round}"), at(0)).await });
        }
        let outcomes = tasks.join_all().await;
        let won = outcomes
            .iter()
            .filter(|outcome| **outcome == Claim::Claimed);
        assert_eq!(won.count(), 1);
    }
}

pub(super) fn second_factor(codes: &[&str]) -> SecondFactor {
    SecondFactor {
        totp_secret_sealed: b"sealed".to_vec(),
        recovery_codes: codes
            .iter()
            .map(|code| Digest::of(code.as_bytes()))
            .collect(),
    }
}

pub(super) async fn a_second_factor_ends_what_was_there_and_goes_with_its_user(
    subject: &mut impl Subject,
) {
    let ada = || username("ada");
    let known = async |store: Arc<dyn Store>| store.second_factor(ada()).await.unwrap();
    let set = async |store: Arc<dyn Store>, second_factor: Option<SecondFactor>| {
        let set = store.set_second_factor(ada(), second_factor, None, at(2));
        assert!(set.await.unwrap().is_some());
    };
    let change = async |store: Arc<dyn Store>, change: RegistryChange| {
        store.change_registry(change, at(0)).await.unwrap();
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
    // A registration that says nothing new about it leaves it.
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

pub(super) async fn a_recovery_code_works_once(subject: &mut impl Subject) {
    let claim = async |store: Arc<dyn Store>, name, code: &str| {
        store
            .claim_recovery_code(username(name), Digest::of(code.as_bytes()))
            .await
            .unwrap()
    };
    assert_eq!(
        claim(subject.store(), "ada", "a").await,
        Claim::AlreadyClaimed
    );
    let codes = Some(second_factor(&["a", "b", "c"]));
    version_of(&*subject.store(), &username("ada")).await;
    let set = async |store: Arc<dyn Store>| {
        let set = store.set_second_factor(username("ada"), codes, None, at(0));
        assert!(set.await.unwrap().is_some());
    };
    set(subject.store()).await;
    for (name, code, expected) in [
        ("ada", "d", Claim::AlreadyClaimed),
        ("grace", "a", Claim::AlreadyClaimed),
        ("ada", "a", Claim::Claimed),
        ("ada", "a", Claim::AlreadyClaimed),
    ] {
        assert_eq!(claim(subject.store(), name, code).await, expected, "{code}");
        subject.restart().await;
    }
    let attempts = (0..16).map(|_| claim(subject.store(), "ada", "b"));
    let claims = futures_util::future::join_all(attempts).await;
    let won = claims.into_iter().filter(|claim| *claim == Claim::Claimed);
    assert_eq!(won.count(), 1);
    let left = subject.store().second_factor(username("ada")).await;
    assert_eq!(left.unwrap(), Some(second_factor(&["c"])));
}

pub(super) async fn a_totp_step_is_claimed_once(subject: &mut impl Subject) {
    let ada = || username("ada");
    let claim =
        async |store: Arc<dyn Store>, name, step| store.claim_totp_step(name, step).await.unwrap();
    assert_eq!(claim(subject.store(), ada(), 10).await, Claim::Claimed);
    subject.restart().await;
    assert_eq!(
        claim(subject.store(), ada(), 10).await,
        Claim::AlreadyClaimed
    );
    assert_eq!(
        claim(subject.store(), ada(), 9).await,
        Claim::AlreadyClaimed
    );
    assert_eq!(
        claim(subject.store(), username("grace"), 10).await,
        Claim::Claimed
    );
    assert_eq!(claim(subject.store(), ada(), 11).await, Claim::Claimed);
}

const PACE: Pace = Pace {
    free: 2,
    longest: Duration::from_secs(60),
    forget_one_after: Duration::from_secs(600),
};

async fn attempt(store: &dyn Store, keys: &[&str], now: Timestamp) -> Admission {
    let keys = keys.iter().map(|key| PacedKey {
        key: Digest::of(key.as_bytes()),
        pace: PACE,
    });
    store.admit_attempt(keys.collect(), now).await.unwrap()
}

pub(super) async fn failures_slow_attempts_down_until_they_are_forgiven_or_forgotten(
    subject: &mut impl Subject,
) {
    let wait = |seconds| Admission::Wait(Duration::from_secs(seconds));
    let both = ["address", "ada"];
    for _ in 0..3 {
        let admitted = attempt(&*subject.store(), &both, at(0)).await;
        assert_eq!(admitted, Admission::Admitted);
    }
    subject.restart().await;
    let store = subject.store();
    assert_eq!(attempt(&*store, &both, at(0)).await, wait(1));
    assert_eq!(
        attempt(&*store, &["address", "grace"], at(0)).await,
        wait(1),
        "of the address"
    );
    for _ in 0..3 {
        let of_grace = attempt(&*store, &["grace"], at(0)).await;
        assert_eq!(
            of_grace,
            Admission::Admitted,
            "what waits at a key counts for no key behind it"
        );
    }
    assert_eq!(attempt(&*store, &both, at(1)).await, Admission::Admitted);
    assert_eq!(attempt(&*store, &both, at(1)).await, wait(2));
    let [address, ada] = both.map(|key| Digest::of(key.as_bytes()));
    let forgiven = store.forgive_attempt(Some(ada), vec![address]);
    forgiven.await.unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    assert_eq!(attempt(&*store, &["ada"], at(1)).await, Admission::Admitted);
    assert_eq!(
        attempt(&*store, &["address"], at(1)).await,
        wait(1),
        "three of four failures are left"
    );
    assert_eq!(store.sweep(at(601), 100).await.unwrap().removed, 0);
    assert_eq!(store.sweep(at(602), 100).await.unwrap().removed, 1);
    store.sweep(at(10_000), 100).await.unwrap();
    for _ in 0..3 {
        let admitted = attempt(&*store, &both, at(10_000)).await;
        assert_eq!(admitted, Admission::Admitted, "all is forgotten");
    }
}

pub(super) async fn attempts_that_wait_count_for_the_keys_before_the_one_that_waits(
    subject: &mut impl Subject,
) {
    let keys = ["address", "account from network", "account"];
    for _ in 0..3 {
        // Not from this address.
        let admitted = attempt(&*subject.store(), &keys[1..], at(0)).await;
        assert_eq!(admitted, Admission::Admitted);
    }
    subject.restart().await;
    let store = subject.store();
    for _ in 0..3 {
        let waits = attempt(&*store, &keys, at(0)).await;
        assert_eq!(waits, Admission::Wait(Duration::from_secs(1)));
    }
    let of = async |key: &str, now| attempt(&*store, &[key], now).await;
    assert_ne!(
        of("address", at(0)).await,
        Admission::Admitted,
        "it counted"
    );
    let account = of("account", at(1)).await;
    assert_eq!(account, Admission::Admitted, "three failures, not six");
    // An attempt that came to nothing is taken back everywhere.
    let take_back = vec![Digest::of(b"account"), Digest::of(b"never seen")];
    store.forgive_attempt(None, take_back).await.unwrap();
    assert_eq!(of("account", at(3)).await, Admission::Admitted);
}

pub(super) async fn parallel_attempts_are_admitted_as_consecutive_ones(subject: &mut impl Subject) {
    let mut attempts = JoinSet::new();
    for _ in 0..PARALLEL {
        let store = subject.store();
        attempts.spawn(async move { attempt(&*store, &["ada", "address"], at(0)).await });
    }
    let admissions = attempts.join_all().await;
    let admitted = admissions
        .iter()
        .filter(|admission| **admission == Admission::Admitted);
    assert_eq!(admitted.count(), 3);
}

pub(super) async fn sessions_start_end_and_expire(subject: &mut impl Subject) {
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

pub(super) async fn a_session_lives_on_while_it_is_used(subject: &mut impl Subject) {
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

pub(super) async fn a_session_replaces_another(subject: &mut impl Subject) {
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

fn numbered(name: &str, number: usize) -> Digest {
    Digest::of(format!("{name} {number}").as_bytes())
}

/// The numbers of the sessions with this name that live.
async fn alive(store: &dyn Store, name: &str, numbers: std::ops::Range<usize>) -> Vec<usize> {
    let mut alive = Vec::new();
    for number in numbers {
        let session = store.session(numbered(name, number), at(1)).await.unwrap();
        alive.extend(session.map(|_| number));
    }
    alive
}

pub(super) async fn a_person_has_so_many_sessions_of_a_stage(subject: &mut impl Subject) {
    const MOST: usize = cap::SESSIONS.most();
    let store = subject.store();
    for number in 0..MOST {
        let expires_at = at(100 + number as u64);
        let signed_in = session("ada", expires_at);
        let owed = Session {
            stage: SessionStage::SecondFactorOwed,
            ..signed_in.clone()
        };
        start(&*store, numbered("signed in", number), signed_in, None).await;
        start(&*store, numbered("owed", number), owed, None).await;
    }
    let graces = Digest::of(b"another person");
    start(&*store, graces, session("grace", at(50)), None).await;
    assert_eq!(alive(&*store, "signed in", 0..MOST).await.len(), MOST);
    // What is in use stays.
    let used = numbered("signed in", 0);
    store.extend_session(used, at(500), at(2)).await.unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let one_more = numbered("signed in", MOST);
    start(&*store, one_more, session("ada", at(600)), None).await;
    let left: Vec<usize> = (0..=MOST).filter(|number| *number != 1).collect();
    assert_eq!(alive(&*store, "signed in", 0..MOST + 1).await, left);
    assert_eq!(alive(&*store, "owed", 0..MOST).await.len(), MOST);
    assert!(store.session(graces, at(1)).await.unwrap().is_some());
    // What a session replaces makes room for it.
    let successor = numbered("signed in", MOST + 1);
    let signed_in = session("ada", at(700));
    start(&*store, successor, signed_in, Some(one_more)).await;
    let left = alive(&*store, "signed in", 0..MOST + 2).await;
    assert_eq!((left.len(), left[1]), (MOST, 2));
}

pub(super) async fn sessions_that_start_in_parallel_are_no_more_than_one_person_has(
    subject: &mut impl Subject,
) {
    const MOST: usize = cap::SESSIONS.most();
    version_of(&*subject.store(), &username("ada")).await;
    let mut tasks = JoinSet::new();
    for number in 0..MOST * 2 {
        let store = subject.store();
        tasks.spawn(async move {
            let id = numbered("session", number);
            start(&*store, id, session("ada", at(100)), None).await;
        });
    }
    tasks.join_all().await;
    subject.restart().await;
    let alive = alive(&*subject.store(), "session", 0..MOST * 2).await;
    assert_eq!(alive.len(), MOST);
}

pub(super) async fn a_person_has_so_many_unused_codes_for_a_client(subject: &mut impl Subject) {
    const MOST: usize = cap::CODES.most();
    let until = |seconds: usize| CodeRecord {
        expires_at: at(seconds as u64),
        ..code()
    };
    let store = subject.store();
    let of_others = [
        CodeRecord {
            client_id: client_id("other"),
            ..until(50)
        },
        CodeRecord {
            username: username("grace"),
            ..until(50)
        },
    ];
    for (name, record) in ["other", "grace's"].into_iter().zip(of_others) {
        issue(&*store, name, record).await;
    }
    // A used one does not count.
    issue(&*store, "used", until(59)).await;
    let used = redeem(&*store, "used", fitting(), at(1)).await;
    assert!(matches!(used, Redemption::Redeemed(_)), "{used:?}");
    for number in 0..MOST {
        issue(&*store, &number.to_string(), until(60 + number)).await;
    }
    drop(store);
    subject.restart().await;
    let store = subject.store();
    issue(&*store, "one more", until(90)).await;
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let first = redeem(&*store, "0", fitting(), at(1)).await;
    assert_eq!(first, Redemption::Unknown);
    for name in ["1", "one more", "grace's", "other"] {
        let presented = PresentedCode {
            client_id: client_id(if name == "other" { "other" } else { "web" }),
            ..fitting()
        };
        let redeemed = redeem(&*store, name, presented, at(1)).await;
        assert!(matches!(redeemed, Redemption::Redeemed(_)), "{redeemed:?}");
    }
    // Two were redeemed, and the sweep forgets all others: there is room.
    store.sweep(at(200), 100).await.unwrap();
    for number in 0..MOST {
        issue(&*store, &format!("late {number}"), until(300 + number)).await;
    }
    let redeemed = redeem(&*store, "late 0", fitting(), at(201)).await;
    assert!(matches!(redeemed, Redemption::Redeemed(_)), "{redeemed:?}");
}

pub(super) async fn codes_issued_in_parallel_are_no_more_than_one_person_has(
    subject: &mut impl Subject,
) {
    const MOST: usize = cap::CODES.most();
    version_of(&*subject.store(), &username("ada")).await;
    let mut tasks = JoinSet::new();
    for number in 0..MOST * 2 {
        let store = subject.store();
        tasks.spawn(async move { issue(&*store, &number.to_string(), code()).await });
    }
    tasks.join_all().await;
    subject.restart().await;
    let store = subject.store();
    let mut redeemed = 0;
    for number in 0..MOST * 2 {
        let outcome = redeem(&*store, &number.to_string(), fitting(), at(1)).await;
        redeemed += usize::from(matches!(outcome, Redemption::Redeemed(_)));
    }
    assert_eq!(redeemed, MOST);
}

/// The grants of ada for the client that are not revoked.
async fn live_grants(store: &dyn Store) -> Vec<GrantId> {
    let filter = GrantFilter {
        client_id: Some(client_id("web")),
        username: Some(username("ada")),
    };
    let grants = store.grants(filter, None, 1000).await.unwrap();
    let live = grants.iter().filter(|grant| grant.revoked_at.is_none());
    live.map(|grant| grant.grant_id).collect()
}

/// A grant of ada for the client, made at `now`.
pub(super) async fn grant_made(store: &dyn Store, now: Timestamp) -> Grant {
    let code_text = domain::random::text::<16>(&OsRandom).unwrap();
    let record = CodeRecord {
        expires_at: now + Duration::from_secs(60),
        ..code()
    };
    issue(store, &code_text, record).await;
    match redeem(store, &code_text, fitting(), now).await {
        Redemption::Redeemed(grant) => *grant,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn a_person_has_so_many_live_grants_for_a_client(subject: &mut impl Subject) {
    const MOST: usize = cap::GRANTS.most();
    let store = subject.store();
    let of_others = [
        CodeRecord {
            client_id: client_id("other"),
            ..code()
        },
        CodeRecord {
            username: username("grace"),
            ..code()
        },
    ];
    let mut untouched = Vec::new();
    for record in of_others {
        untouched.push(grant_of(&*store, record).await);
    }
    let mut made = Vec::new();
    for number in 0..MOST as u64 {
        made.push(grant_made(&*store, at(number)).await);
    }
    // What is in use stays, and what is revoked does not count.
    let used = use_of(&made[0], made[0].current.refresh_id, at(500));
    let rotated = store.rotate_refresh(used).await.unwrap();
    assert!(matches!(rotated, Rotation::Rotated(_)), "{rotated:?}");
    store
        .revoke_grant(made[50].grant_id, at(500))
        .await
        .unwrap();
    drop(store);
    subject.restart().await;
    let store = subject.store();
    grant_made(&*store, at(501)).await;
    assert_eq!(live_grants(&*store).await.len(), MOST);
    let last = grant_made(&*store, at(502)).await;
    let live = live_grants(&*store).await;
    assert_eq!(live.len(), MOST);
    assert!(!live.contains(&made[1].grant_id), "it would expire first");
    for stays in [&made[0], &made[2], &last] {
        assert!(live.contains(&stays.grant_id));
    }
    for grant in &untouched {
        assert!(!is_revoked(&*store, grant).await);
    }
    let ended = [made[50].grant_id, made[1].grant_id].map(Revoked::Grant);
    assert_eq!(feed(&*store).await, ended);
    let entries = store.revocations_since(1, 10).await.unwrap();
    let extent = (entries[0].at, entries[0].expires_at);
    assert_eq!(extent, (at(502), at(502) + ACCESS));
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let late = use_of(&made[1], made[1].current.refresh_id, at(503));
    let refused = store.rotate_refresh(late).await.unwrap();
    assert_eq!(refused, Rotation::Refused(RotationRefusal::Revoked));
    // A refresh token that is used twice ends its grant too, and leaves room.
    let reused = use_of(&made[0], made[0].current.refresh_id, at(600));
    let reused = store.rotate_refresh(reused).await.unwrap();
    assert_eq!(reused, Rotation::Reused(made[0].grant_id));
    grant_made(&*store, at(601)).await;
    assert_eq!(feed(&*store).await.len(), 3);
    // So does one that is over.
    store.sweep(at(0) + WEEK + WEEK, 1000).await.unwrap();
    for number in 0..MOST as u64 {
        grant_made(&*store, at(number) + WEEK + WEEK).await;
    }
    assert_eq!(live_grants(&*store).await.len(), MOST);
}

pub(super) async fn grants_made_in_parallel_are_no_more_than_one_person_has(
    subject: &mut impl Subject,
) {
    const MOST: usize = cap::GRANTS.most();
    const MORE: usize = 12;
    let store = subject.store();
    for _ in 0..MOST - 2 {
        grant_made(&*store, at(1)).await;
    }
    for number in 0..MORE {
        issue(&*store, &number.to_string(), code()).await;
    }
    drop(store);
    subject.restart().await;
    let mut tasks = JoinSet::new();
    for number in 0..MORE {
        let store = subject.store();
        tasks.spawn(async move { redeem(&*store, &number.to_string(), fitting(), at(2)).await });
    }
    for redeemed in tasks.join_all().await {
        assert!(matches!(redeemed, Redemption::Redeemed(_)), "{redeemed:?}");
    }
    subject.restart().await;
    let store = subject.store();
    assert_eq!(live_grants(&*store).await.len(), MOST);
    assert_eq!(feed(&*store).await.len(), MORE - 2);
}

pub(super) async fn the_sweep_removes_what_is_over_and_nothing_else(subject: &mut impl Subject) {
    let store = subject.store();
    let dead = grant_of(&*store, code()).await;
    let revoked = grant_of(&*store, code()).await;
    let alive = grant_of(&*store, code()).await;
    let refreshed = use_of(&alive, alive.current.refresh_id, at(1000));
    store.rotate_refresh(refreshed).await.unwrap();
    store.revoke_grant(revoked.grant_id, at(0)).await.unwrap();
    issue(&*store, "c", code()).await;
    let id = Digest::of(b"session");
    start(&*store, id, session("ada", at(0) + WEEK + WEEK), None).await;
    drop(store);
    subject.restart().await;
    let store = subject.store();
    let remembered = async |grant: &Grant| store.grant(grant.grant_id).await.unwrap().is_some();
    store.sweep(at(0) + ACCESS, 100).await.unwrap();
    assert!(
        remembered(&revoked).await,
        "its access token lives to the end of the hour"
    );
    store.sweep(at(1) + ACCESS, 100).await.unwrap();
    assert!(!remembered(&revoked).await);
    assert!(remembered(&dead).await);
    assert_eq!(
        redeem(&*store, "c", fitting(), at(1)).await,
        Redemption::Unknown,
        "an expired code is forgotten"
    );
    store.sweep(at(0) + WEEK, 100).await.unwrap();
    assert!(remembered(&dead).await);
    store.sweep(at(1) + WEEK, 100).await.unwrap();
    assert!(!remembered(&dead).await);
    assert!(remembered(&alive).await);
    assert!(store.session(id, at(1) + WEEK).await.unwrap().is_some());
}

pub(super) async fn the_sweep_keeps_to_its_limit(subject: &mut impl Subject) {
    let store = subject.store();
    for number in 0..25 {
        claim(&*store, "a", &format!("jti-{number}"), at(0)).await;
    }
    drop(store);
    subject.restart().await;
    let mut swept = Vec::new();
    loop {
        let Swept { removed, more } = subject.store().sweep(at(100), 10).await.unwrap();
        swept.push(removed);
        if !more {
            break;
        }
    }
    assert_eq!(swept, [10, 10, 5]);
}
