//! The requirements on every store, as plain functions over the trait. The tests of each store run all of them twice:
//! on a store that stays open, and on a store that is closed and reopened between the steps.

mod attempts;
mod audit;
mod caps;
mod client_secrets;
mod codes;
mod copying;
mod credentials;
mod grants;
mod legacy_codes;
mod names;
mod notices;
mod once;
mod provider_sign_ins;
mod refresh_tokens;
mod registry;
mod registry_index;
mod revocations;
mod sealed;
mod second_factors;
mod sessions;
mod signing_keys;
mod upkeep;
pub(crate) mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use claims::Algorithm;
use tokio::task::JoinSet;

use super::*;
use claims::{Confirmation, Thumbprint};
use domain::authorization_code::USED_CODE_RETENTION;
use domain::cap;
use domain::client::ClientSecret;
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::object::ObjectKind;
use domain::registry_change::CHANGES_KEPT;
use domain::testing::{installed, legacy, user_bound, web_server};
use domain::{
    Admission, AuditAction, AuditEvent, AuditKind, AuditRange, Client, ClientId, ClientVersion,
    CodeMismatch, CodeRecord, Counted, CredentialsVersion, EndedSignIns, EndingSessions, Extent,
    FeedId, FileChange, FirstStep, Grant, GrantFilter, GrantId, IntegrationType, LegacyInstance,
    LinkedIdentity, ObjectName, Owner, Pace, PacedKey, PresentedCode, ProviderSignIn,
    ProviderSignOut, Redemption, RefreshRotation, RefreshStep, RegistryChange, RegistryChanges,
    RegistryOutcome, Revocation, Revoked, Rotation, RotationRefusal, Scope, SealedSigningKey,
    SealedValue, SecondFactor, SecondFactorRules, SecretTimes, SecretUse, SelfContainedCode,
    Session, SessionPlace, SessionStage, TokenId, TokenReference, TokenSubject, UnfinishedSignIns,
    User, Username,
};
use system::OsRandom;

pub(crate) use self::attempts::*;
pub(crate) use self::audit::*;
pub(crate) use self::caps::*;
pub(crate) use self::client_secrets::*;
pub(crate) use self::codes::*;
pub(crate) use self::copying::*;
pub(crate) use self::credentials::*;
pub(crate) use self::grants::*;
pub(crate) use self::legacy_codes::*;
pub(crate) use self::names::*;
pub(crate) use self::notices::*;
pub(crate) use self::once::*;
pub(crate) use self::provider_sign_ins::*;
pub(crate) use self::refresh_tokens::*;
pub(crate) use self::registry::*;
pub(crate) use self::registry_index::*;
pub(crate) use self::revocations::*;
pub(crate) use self::sealed::*;
pub(crate) use self::second_factors::*;
pub(crate) use self::sessions::*;
pub(crate) use self::signing_keys::*;
pub(crate) use self::upkeep::*;

/// Lifetime of access tokens in these tests.
pub(crate) const ACCESS: Duration = Duration::from_secs(3600);

pub(crate) const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

pub(crate) const GRACE: Duration = Duration::from_secs(10);

pub(crate) const PARALLEL: usize = 100;

pub(crate) trait Subject: Send {
    /// Whether the revocation feed keeps its identity at a restart.
    const KEEPS_FEED: bool = true;

    fn store(&self) -> Arc<dyn Store>;
    /// Closes and reopens the store, in the run that tests durability.
    fn restart(&mut self) -> impl Future<Output = ()>;

    /// The store after a restart.
    async fn restarted(&mut self) -> Arc<dyn Store> {
        self.restart().await;
        self.store()
    }

    /// As [`Self::restarted`], for a caller with a handle, which would keep the store open.
    async fn again(&mut self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        self.restarted().await
    }
}

/// Defines one test per requirement for a store.
macro_rules! conformance {
    ($subject:expr) => {
        $crate::conformance::conformance!($subject;
            registry_changes_as_a_whole,
            disabling_a_legacy_instance_ends_its_tokens,
            registrations_are_found_one_by_one_and_in_pages,
            a_plan_is_overtaken_by_what_it_rests_on_alone,
            a_value_that_others_may_not_have_goes_to_one,
            a_change_that_rests_on_former_credentials_is_overtaken,
            changes_of_the_registry_are_told_by_their_objects,
            the_applied_file_is_remembered,
            many_registrations_are_read_whole,
            look_ups_agree_with_all_registrations,
            an_excerpt_has_what_was_asked_for,
            a_user_is_found_in_any_case,
            removing_a_client_ends_its_grants,
            disabling_a_client_ends_its_grants,
            a_change_of_a_client_can_end_its_grants,
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
            a_second_use_revokes_until_the_code_is_forgotten,
            a_mismatch_leaves_the_code_to_its_client,
            a_code_ends_with_its_user_and_its_account,
            a_code_ends_with_its_client_and_its_redirect_uri,
            a_code_ends_with_its_session,
            a_code_needs_the_second_factor_that_is_required,
            a_code_waits_until_its_tokens_are_not_revoked_already,
            a_code_waits_for_its_own_account_alone,
            redemptions_leave_nothing_of_a_client_that_is_disabled_in_parallel,
            parallel_redemptions_have_one_winner,
            a_legacy_code_is_redeemed_once,
            a_used_legacy_code_is_remembered_and_then_forgotten,
            refresh_rotates,
            a_refresh_needs_the_second_factor_that_is_required,
            a_repeated_refresh_within_the_grace_gets_the_same_answer,
            a_reused_refresh_token_revokes_its_grant_alone,
            a_refresh_leaves_the_scopes_that_the_client_lost,
            a_bound_refresh_token_needs_its_key_or_certificate,
            a_refresh_does_not_bind_and_reuse_ends_the_grant,
            a_bound_code_needs_its_key,
            a_key_ends_with_all_that_is_bound_to_it,
            parallel_refreshes_have_one_successor,
            revoking_a_grant,
            grants_are_listed_by_client_and_user_and_paged,
            a_change_of_the_registry_has_its_entries,
            changes_outside_the_registry_have_their_entries,
            the_audit_log_is_appended_listed_and_swept,
            each_kind_of_audit_entry_has_a_bound_of_its_own,
            rows_are_counted,
            the_revocation_feed_rises_and_pages,
            a_token_is_revoked_by_itself_its_grant_its_client_or_its_user,
            an_account_and_an_issuer_end_their_own_tokens_up_to_a_time,
            nothing_is_announced_twice,
            a_user_that_ends_takes_legacy_grants_along_by_name,
            an_owner_ends_with_all_grants_and_tokens,
            the_feed_keeps_its_identity_until_it_is_renewed,
            an_assertion_id_works_once_per_client,
            of_parallel_uses_one_is_the_first,
            a_totp_step_works_once,
            a_second_factor_ends_what_was_there_and_goes_with_its_user,
            a_change_owes_a_notice_until_it_is_sent,
            of_parallel_claims_one_has_the_notice,
            no_notice_is_lost_while_others_are_sent,
            the_present_address_does_not_wait_for_an_earlier_one,
            sign_ins_are_known_until_the_user_is_removed,
            a_recovery_code_works_once,
            new_recovery_codes_end_the_earlier_ones,
            failures_slow_attempts_down_until_they_are_forgiven_or_forgotten,
            right_attempts_move_no_clock,
            attempts_that_wait_count_for_the_keys_before_the_one_that_waits,
            parallel_attempts_are_admitted_as_consecutive_ones,
            sessions_start_end_and_expire,
            a_session_lives_on_while_it_is_used,
            a_session_replaces_another,
            a_person_ends_own_sessions_alone,
            a_provider_ends_its_sign_ins_alone,
            unlinking_an_identity_ends_its_sign_ins_alone,
            a_sign_out_ends_the_sign_ins_that_are_under_way,
            what_ends_sessions_asks_for_newer_sign_ins_at_a_provider,
            redemptions_leave_nothing_of_a_sign_in_that_its_provider_ends_in_parallel,
            live_grants_are_sorted_by_client_and_paged,
            a_code_ends_with_the_access_of_its_client,
            redemptions_leave_nothing_of_an_access_that_is_ended_in_parallel,
            a_complete_sign_in_tells_of_unfinished_ones,
            a_person_has_so_many_sessions_of_a_stage,
            sessions_that_owe_the_second_factor_end_first_where_they_came_from,
            sessions_that_start_in_parallel_are_no_more_than_one_person_has,
            a_person_has_so_many_unused_legacy_codes_for_a_client,
            legacy_codes_issued_in_parallel_are_no_more_than_one_person_has,
            a_person_has_so_many_live_grants_for_a_client,
            grants_made_in_parallel_are_no_more_than_one_person_has,
            the_sweep_removes_what_is_over_and_nothing_else,
            the_sweep_keeps_to_its_limit,
            a_sweep_notes_its_time,
            the_sweep_finds_expired_assertion_ids_among_live_ones,
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

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_seconds(1_800_000_000 + seconds)
}

pub(crate) use domain::testing::{account, client_id, username};

/// A redirect URI of [`client`].
pub(crate) const REDIRECT_URI: &str = "https://app.example.com/callback";

pub(crate) fn client(id: &str) -> Client {
    installed(id, &[REDIRECT_URI]).with_scopes("projects")
}

/// The client as it was registered: without what only the store sets.
pub(crate) fn as_registered(client: &Client) -> Client {
    Client {
        version: ClientVersion::default(),
        tokens_from: Timestamp::default(),
        ..client.clone()
    }
}

pub(crate) fn legacy_instance(hostname: &str) -> LegacyInstance {
    LegacyInstance {
        hostname: hostname.into(),
        auth_server_hostname: format!("sso-{hostname}"),
        enabled: true,
        managed: None,
    }
}

pub(crate) fn user(name: &str) -> User {
    User {
        password_hash: Some("hash".into()),
        ..domain::testing::user(name, &["1", "2"])
    }
}

/// A code of client `web`, user `ada` and account 1, issued at 0.
pub(crate) fn code() -> CodeRecord {
    CodeRecord {
        client_id: client_id("web"),
        redirect_uri: REDIRECT_URI.into(),
        code_challenge: Some(Digest::of(b"verifier")),
        username: username("ada"),
        account: account("1"),
        scope: Scope::parse("projects").unwrap(),
        amr: vec!["USERNAME_PASSWORD".into()],
        authenticated_at: at(0),
        issued_at: at(0),
        expires_at: at(60),
        credentials_version: CredentialsVersion::default(),
        client_version: ClientVersion::default(),
        provider: None,
        session: None,
    }
}

/// A code like [`code`], of another client or user.
pub(crate) fn code_of(client: &str, user: &str) -> CodeRecord {
    CodeRecord {
        client_id: client_id(client),
        username: username(user),
        ..code()
    }
}

/// The outcome of an operation, which is started again as long as the store is overloaded, as a client repeats its request after
/// status 503. On a slow machine, parallel callers wait longer for a connection to PostgreSQL than the service lets them.
pub(crate) async fn patiently<T, F>(mut start: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match start().await {
            Err(StoreError::Overloaded) => tokio::task::yield_now().await,
            outcome => return outcome,
        }
    }
}

/// Makes a change of the registry at this second.
pub(crate) async fn apply(store: &dyn Store, change: RegistryChange, seconds: u64) {
    let outcome = patiently(|| store.change_registry(change.clone(), at(seconds))).await;
    assert_eq!(outcome, Ok(RegistryOutcome::Changed));
}

/// The version of a user's credentials. Registers the user if necessary.
pub(crate) async fn version_of(store: &dyn Store, username: &Username) -> CredentialsVersion {
    let known = || patiently(|| store.credentials(username.clone()));
    if let Some(known) = known().await.unwrap() {
        return known.version;
    }
    apply(store, put(vec![], vec![user(username.as_str())]), 0).await;
    known().await.unwrap().unwrap().version
}

/// The version of a client. Registers the client if necessary.
async fn version_of_client(store: &dyn Store, id: &ClientId) -> ClientVersion {
    let known = || patiently(|| store.client(id.clone()));
    if let Some(known) = known().await.unwrap() {
        return known.version;
    }
    apply(store, put(vec![client(id.as_str())], vec![]), 0).await;
    known().await.unwrap().unwrap().version
}

/// A code of the current flows for `record`, with the user's current credentials and the client's current version.
pub(crate) async fn self_contained(store: &dyn Store, record: CodeRecord) -> SelfContainedCode {
    SelfContainedCode {
        grant_id: GrantId::generate(&OsRandom, at(0)).unwrap(),
        record: with_current_credentials(store, record).await,
        dpop_jkt: None,
    }
}

/// Issues a legacy code with the user's current credentials and the client's current version.
pub(crate) async fn issue_legacy(store: &dyn Store, code: &str, record: CodeRecord) {
    let record = with_current_credentials(store, record).await;
    let code = Digest::of(code.as_bytes());
    let issued = patiently(|| store.issue_legacy_code(code, record.clone())).await;
    assert_eq!(issued.unwrap(), Begin::Begun);
}

pub(crate) async fn with_current_credentials(store: &dyn Store, record: CodeRecord) -> CodeRecord {
    CodeRecord {
        credentials_version: version_of(store, &record.username).await,
        client_version: version_of_client(store, &record.client_id).await,
        ..record
    }
}

/// Starts a session with the user's current credentials, and returns the session.
pub(crate) async fn start(
    store: &dyn Store,
    id: Digest,
    session: Session,
    replaces: Option<Digest>,
) -> Session {
    let session = Session {
        credentials_version: version_of(store, &session.username).await,
        ..session
    };
    let started = patiently(|| store.start_session(id, session.clone(), replaces)).await;
    assert!(matches!(started.unwrap(), SessionBegin::Begun(_)));
    session
}

/// What a client proves with a proof of this key.
pub(crate) fn of_key(key: Option<Thumbprint>) -> Confirmation {
    Confirmation {
        jkt: key,
        certificate: None,
    }
}

/// What a client proves with a connection with this certificate.
pub(crate) fn of_certificate(certificate: Option<Thumbprint>) -> Confirmation {
    Confirmation {
        jkt: None,
        certificate,
    }
}

/// Registers the public client of [`code`], with tokens that are bound to certificates.
pub(crate) async fn bind_to_certificates(store: &dyn Store) {
    let bound = Client {
        tls_client_certificate_bound_access_tokens: true,
        ..client("web")
    };
    apply(store, put(vec![bound], vec![]), 0).await;
}

pub(crate) fn fitting() -> PresentedCode {
    PresentedCode {
        client_id: client_id("web"),
        redirect_uri: REDIRECT_URI.into(),
        verifier_digest: Some(Digest::of(b"verifier")),
        client_authenticated: false,
        proven: Confirmation::default(),
    }
}

pub(crate) fn first_step(now: Timestamp) -> FirstStep {
    FirstStep {
        refresh_id: TokenId::generate(&OsRandom).unwrap(),
        access_id: TokenId::generate(&OsRandom).unwrap(),
        scope: None,
        issued_at: now,
        refresh_expires_at: now + WEEK,
        second_factor: Arc::default(),
    }
}

pub(crate) async fn redeem(
    store: &dyn Store,
    code: &SelfContainedCode,
    presented: PresentedCode,
    now: Timestamp,
) -> Redemption {
    let redeemed =
        patiently(|| store.redeem_code(code.clone(), presented.clone(), first_step(now), now));
    redeemed.await.unwrap()
}

pub(crate) async fn redeem_legacy(
    store: &dyn Store,
    code: &str,
    presented: PresentedCode,
    now: Timestamp,
) -> Redemption {
    let redeemed = patiently(|| {
        store.redeem_legacy_code(
            Digest::of(code.as_bytes()),
            presented.clone(),
            GrantId::generate(&OsRandom, now).unwrap(),
            first_step(now),
            now,
        )
    });
    redeemed.await.unwrap()
}

/// The grant from redeeming `record` at 0.
pub(crate) async fn grant_of(store: &dyn Store, record: CodeRecord) -> Grant {
    grant_with(store, record, Confirmation::default()).await
}

/// The grant from redeeming `record` at 0 with `proven`.
pub(crate) async fn grant_with(
    store: &dyn Store,
    record: CodeRecord,
    proven: Confirmation,
) -> Grant {
    let presented = PresentedCode {
        client_id: record.client_id.clone(),
        proven,
        ..fitting()
    };
    let code = self_contained(store, record).await;
    *redeemed_of(redeem(store, &code, presented, at(0)).await).0
}

/// What a redemption must have returned.
pub(crate) fn redeemed_of(outcome: Redemption) -> (Box<Grant>, RefreshStep) {
    match outcome {
        Redemption::Redeemed { grant, step } => (grant, step),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn refresh(store: &dyn Store, rotation: RefreshRotation) -> Rotation {
    let rotated = patiently(|| store.rotate_refresh(rotation.clone()));
    rotated.await.unwrap()
}

/// What a rotation must have returned: grant, step, and the scopes asked for.
pub(crate) fn rotated_of(outcome: Rotation) -> (Box<Grant>, RefreshStep, Scope) {
    match outcome {
        Rotation::Rotated { grant, step, asked } => (grant, step, asked),
        other => panic!("{other:?}"),
    }
}

/// Sweeps more than any test has.
pub(crate) async fn sweep(store: &dyn Store, now: Timestamp) -> Swept {
    store.sweep(now, now, 1000).await.unwrap()
}

/// Runs `number` operations at the same time, each in its own task.
pub(crate) async fn in_parallel<F>(
    subject: &impl Subject,
    number: usize,
    act: impl Fn(Arc<dyn Store>, usize) -> F,
) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for number in 0..number {
        tasks.spawn(act(subject.store(), number));
    }
    tasks.join_all().await
}

pub(crate) fn use_of(grant: &Grant, refresh_id: TokenId, now: Timestamp) -> RefreshRotation {
    RefreshRotation {
        grant_id: grant.grant_id,
        refresh_id,
        client_id: grant.client_id.clone(),
        username: Some(grant.username.clone()),
        proven: Confirmation::default(),
        scope: None,
        second_factor: Arc::default(),
        next_refresh_id: TokenId::generate(&OsRandom).unwrap(),
        next_access_id: TokenId::generate(&OsRandom).unwrap(),
        now,
        lifetime: WEEK,
        grace: GRACE,
    }
}

pub(crate) fn session(name: &str, expires_at: Timestamp) -> Session {
    Session {
        username: username(name),
        stage: SessionStage::SignedIn,
        amr: vec!["USERNAME_PASSWORD".into()],
        authenticated_at: at(0),
        expires_at,
        ends_at: expires_at,
        credentials_version: CredentialsVersion::default(),
        origin: None,
        used_at: at(0),
        place: SessionPlace::default(),
        provider: None,
    }
}

/// A session of ada that owes the second factor to a password from `network`.
pub(crate) fn owed(network: &str, given_at: Timestamp) -> Session {
    Session {
        stage: SessionStage::SecondFactorOwed,
        authenticated_at: given_at,
        origin: Some(Digest::of(network.as_bytes())),
        place: SessionPlace {
            network: network.to_owned(),
            ..SessionPlace::default()
        },
        ..session("ada", given_at + Duration::from_secs(600))
    }
}

/// Revokes a grant, without an entry of the audit log.
pub(crate) async fn revoke(store: &dyn Store, grant: &Grant, now: Timestamp) {
    let revoked = store.revoke_grant(grant.grant_id, Arc::default(), now);
    assert_eq!(revoked.await, Ok(true));
}

/// Announces a revocation, without an entry of the audit log. Returns true if the feed has a new entry.
pub(crate) async fn announce(store: &dyn Store, revoked: &Revoked, extent: Extent) -> bool {
    let announced = patiently(|| store.announce(revoked.clone(), extent, Arc::default()));
    announced.await.unwrap()
}

pub(crate) async fn is_revoked(store: &dyn Store, grant: &Grant) -> bool {
    let stored = store.grant(grant.grant_id).await.unwrap().unwrap();
    stored.revoked_at.is_some()
}

pub(crate) async fn feed(store: &dyn Store) -> Vec<Revoked> {
    let entries = entries_since(store, 0, 100).await.into_iter();
    entries.map(|entry| entry.revoked).collect()
}

/// Reads entries as a reader of the feed does: first the state, then the entries.
pub(crate) async fn entries_since(store: &dyn Store, since: u64, limit: usize) -> Vec<Revocation> {
    store.feed_state().await.unwrap();
    store.revocations_since(since, limit).await.unwrap()
}
