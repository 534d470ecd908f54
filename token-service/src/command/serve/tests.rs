use std::ffi::OsString;
use std::path::Path;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use super::*;
use crate::command::assertion::tests::of_the_demo;
use crate::config::{Mail, MailTls};
use crate::http::admin::Administration;
use crate::http::admin::grants::OwnerQuery;
use crate::http::admin::keys::RotationRequest;
use crate::http::admin::revocations::CutOffRequest;
use crate::http::health;
use crate::service::notices;
use crate::service::upkeep::sweep;
use crate::telemetry::audit_log::Origin;
use domain::clock::{ManualClock, Timestamp};
use domain::notice::GIVE_UP_AFTER;
use domain::testing::{user, username};
use domain::{
    AuditAction, AuditRange, ClaimedNotice, Extent, Notice, RegistryChange, Revoked, SecondFactor,
    TokenId, User, Username,
};
use protocol::flow::{BeginError, Current, Flow as _};
use protocol::oauth::assertion::AssertionError;
use protocol::oauth::connection::Connection;
use protocol::oauth::endpoint_request::EndpointRequest;
use protocol::oauth::error::TokenError;
use protocol::oauth::grants::GrantType;
use protocol::oauth::pushed;
use protocol::oauth::token_endpoint::{self, Trace};
use registry::change::Registry as _;
use secrets::encryption_key::EncryptionKeyError;
use secrets::key_file;
use secrets::key_file::KeyFileError;
use store::RevocationStore as _;
use store::testing::Watched;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/config.toml");

/// The demo with its state in `folder`.
pub(super) fn demo(folder: &TempDir) -> Config {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let environment = [
        ("STORE__URL", format!("redb:{}", path("store.redb"))),
        ("ENCRYPTION_KEY_FILE", path("encryption-key")),
        ("ADMIN_TOKEN_FILE", path("admin-token")),
    ];
    let environment = environment.map(|(name, value)| {
        let name = format!("TOKEN_SERVICE__{name}");
        (OsString::from(name), OsString::from(value))
    });
    Config::load(Some(Path::new(DEMO)), environment).unwrap()
}

async fn users(service: &Service) -> Vec<User> {
    service.store.users(String::new(), 100).await.unwrap()
}

/// A second start keeps passwords, TOTP secrets and keys, so all sessions stay valid.
#[tokio::test]
async fn a_second_start_finds_everything_as_it_was() {
    let folder = TempDir::new().unwrap();
    let first = prepare(demo(&folder)).await.unwrap();
    let (users_before, keys_before) = (users(&first).await, first.keys().published().to_owned());
    assert_eq!(users_before.len(), 4);
    let web = first.directory().client("web-demo").await.unwrap();
    assert!(web.is_some());
    drop(first);
    let second = prepare(demo(&folder)).await.unwrap();
    assert_eq!(users(&second).await, users_before);
    assert_eq!(second.keys().published(), keys_before);
}

/// Runs the service, which `break_it` breaks while it serves. Returns why the service ended.
fn ended(
    folder: &TempDir,
    clock: Arc<dyn Clock>,
    break_it: impl AsyncFnOnce(&RedbStore),
) -> String {
    let mut config = demo(folder);
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.internal_listen = config.listen;
    let outcome = actix_web::rt::System::new().block_on(async {
        let path = folder.path().join("store.redb");
        let store =
            Arc::new(RedbStore::open(&path, config.protocol.lifetimes.access_token).unwrap());
        let service = prepare_on(config, Arc::clone(&store) as _, clock).await;
        let application =
            Application::bind(Arc::new(service.unwrap()), PassedSockets::default()).unwrap();
        tokio::join!(application.run(), break_it(&store)).0
    });
    outcome.unwrap_err().to_string()
}

/// Otherwise the service would answer `/healthz` with 200 for ever and everything else with errors.
#[test]
fn a_panic_of_the_writer_ends_the_service() {
    let folder = TempDir::new().unwrap();
    let reason = ended(&folder, Arc::new(SystemClock), async |store| {
        store.panic_in_writer().await;
    });
    assert_eq!(reason, "the store's writer has stopped after a panic");
}

#[test]
fn a_panic_of_upkeep_ends_the_service() {
    /// A clock that breaks once.
    #[derive(Debug, Default)]
    struct Broken(std::sync::atomic::AtomicBool);

    impl Clock for Broken {
        fn now(&self) -> domain::clock::Timestamp {
            let broken = self.0.swap(false, std::sync::atomic::Ordering::SeqCst);
            assert!(!broken, "on purpose");
            SystemClock.now()
        }
    }

    let folder = TempDir::new().unwrap();
    let clock = Arc::new(Broken::default());
    let reason = ended(&folder, Arc::clone(&clock) as _, async |_| {
        clock.0.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(reason.starts_with("upkeep has stopped"), "{reason}");
}

/// Each replica sweeps and accepts by its own clock, and the clocks differ.
#[tokio::test]
async fn rfc7523_s3_an_assertion_is_accepted_once_by_clocks_that_differ() {
    let lifetime = Duration::from_secs(300);
    let folder = TempDir::new().unwrap();
    let config = demo(&folder);
    let skew = config.protocol.lifetimes.clock_skew;
    let store = RedbStore::open(&folder.path().join("store.redb"), lifetime).unwrap();
    let issued_at = SystemClock.now();
    let clock = Arc::new(ManualClock::new(issued_at));
    let service = prepare_on(config, Arc::new(store), Arc::clone(&clock) as _).await;
    let service = service.unwrap();
    let assertion = of_the_demo(issued_at, lifetime);
    let exchange = async || {
        let moment = service.issuing_moment(service.clock.now()).unwrap();
        let secret = "demo-secret-of-non-interactive-demo-not-for-real-use";
        let authorization = basic("non-interactive-demo", secret);
        let grant_type = GrantType::JwtBearer.name();
        let body = format!("grant_type={grant_type}&assertion={assertion}");
        let request = form(&authorization, &body);
        let context = service.context(&moment);
        let mut trace = Trace::default();
        let answer = token_endpoint::answer(&context, &request, &mut trace).await;
        answer.map(drop)
    };
    let last_second = Timestamp::from_seconds((issued_at + lifetime).seconds() - 1);
    clock.set(last_second);
    assert!(exchange().await.is_ok());
    let ahead = last_second + skew;
    while service.store.sweep(ahead, ahead, 100).await.unwrap().more {}
    let replayed = exchange().await.unwrap_err();
    let expected = TokenError::Assertion(AssertionError::Replayed);
    assert_eq!(replayed.to_string(), expected.to_string());
    clock.set(ahead + Duration::from_secs(2));
    while service
        .store
        .sweep(clock.now(), clock.now(), 100)
        .await
        .unwrap()
        .removed
        > 0
    {}
    clock.set(last_second);
    assert!(exchange().await.is_ok(), "it is not remembered for ever");
}

/// A machine whose clock is ahead until it has synchronized, and a gateway that starts afterwards.
#[tokio::test]
async fn a_clock_that_is_ahead_for_a_moment_removes_no_revocation() {
    let folder = TempDir::new().unwrap();
    let lifetime = Duration::from_secs(3600);
    let store = RedbStore::open(&folder.path().join("store.redb"), lifetime).unwrap();
    let now = SystemClock.now();
    let revoked = Revoked::Token(TokenId::from_bytes([1; 16]));
    let announced = store.announce(revoked, Extent::of(now, lifetime), Arc::default());
    assert_eq!(announced.await, Ok(true));
    let week = Duration::from_secs(7 * 86_400);
    let clock = Arc::new(ManualClock::new(now + week));
    let service = prepare_on(demo(&folder), Arc::new(store), Arc::clone(&clock) as _).await;
    let service = service.unwrap();
    let mut time = None;
    // At a start, and while the service runs.
    for clock_says in [now + week, now, now + week] {
        clock.set(clock_says);
        sweep(&service, &mut time).await.unwrap();
        let kept = service.store.revocations_since(0, 10).await.unwrap();
        assert_eq!(kept.len(), 1);
    }
    let swept_at = service.store.swept_at().await.unwrap();
    assert!(swept_at < now + lifetime);
}

pub(super) fn basic(client_id: &str, secret: &str) -> String {
    let credentials = STANDARD.encode(format!("{client_id}:{secret}"));
    format!("Basic {credentials}")
}

/// A request with a form, without a proof.
pub(super) fn form<'a>(authorization: &'a str, body: &'a str) -> EndpointRequest<'a> {
    EndpointRequest {
        authorization: vec![authorization.as_bytes()],
        dpop: Vec::new(),
        connection: Connection::Public,
        content_type: Some(b"application/x-www-form-urlencoded"),
        query: "",
        body: body.as_bytes(),
    }
}

/// 60 seconds for the browser to come; an hour for the person who came in time.
#[tokio::test]
async fn rfc9126_s2_2_a_pushed_request_that_nobody_visits_expires() {
    let folder = TempDir::new().unwrap();
    let config = demo(&folder);
    let store = RedbStore::open(&folder.path().join("store.redb"), Duration::from_secs(300));
    let pushed_at = SystemClock.now();
    let clock = Arc::new(ManualClock::new(pushed_at));
    let store = Arc::new(store.unwrap());
    let service = prepare_on(config, store, Arc::clone(&clock) as _).await;
    let service = service.unwrap();
    let secret = "demo-secret-of-web-demo-not-for-real-use";
    let authorization = basic("web-demo", secret);
    let body = "response_type=code&client_id=web-demo&redirect_uri=https%3A%2F%2Fapp.example.com%2Fcallback";
    let request = form(&authorization, body);
    let moment = service.moment();
    let pushed = pushed::push(&service.context(&moment), &request)
        .await
        .unwrap();
    let first = format!("client_id=web-demo&request_uri={}", pushed.request_uri);
    let visit = async |query: &str, after: u64| {
        clock.set(pushed_at + Duration::from_secs(after));
        let moment = service.moment();
        let context = service.context(&moment);
        let begun = Current.begin(&context, query.as_bytes(), "").await;
        begun.map(|request| request.continuation().to_owned())
    };
    let next = visit(&first, 59).await.unwrap();
    assert_ne!(next, first);
    let again = visit(&next, 60).await.unwrap();
    assert!(visit(&again, 3599).await.is_ok());
    for (query, after) in [(&first, 60), (&next, 3600), (&again, 3600)] {
        let refused = visit(query, after).await.unwrap_err();
        let BeginError::Redirect(location) = refused else {
            panic!("{refused:?}");
        };
        assert!(location.contains("error=invalid_request_uri"), "{location}");
    }
}

/// The root is random, so tags reveal nothing about the encryption key.
#[tokio::test]
async fn two_stores_with_one_encryption_key_have_other_tags() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let [first, second] = folders.each_ref().map(demo);
    let parts: &[&[u8]] = &[b"recovery code", b"joan"];
    let service = prepare(first.clone()).await.unwrap();
    let tag = service.encryption_key.tag(parts);
    std::fs::create_dir_all(second.encryption_key_file.parent().unwrap()).unwrap();
    std::fs::copy(&first.encryption_key_file, &second.encryption_key_file).unwrap();
    let other = prepare(second).await.unwrap();
    assert_ne!(other.encryption_key.tag(parts), tag);
}

#[tokio::test]
async fn a_lost_encryption_key_is_not_replaced() {
    let folder = TempDir::new().unwrap();
    let config = demo(&folder);
    let key_file = config.encryption_key_file.clone();
    drop(prepare(config.clone()).await.unwrap());
    std::fs::remove_file(&key_file).unwrap();
    let error = prepare(config).await.err().unwrap();
    assert!(
        matches!(
            error.downcast_ref(),
            Some(EncryptionKeyError::File(KeyFileError::Missing { .. }))
        ),
        "{error}"
    );
    assert!(!key_file.exists());
}

/// The operations of the store that an operator's command writes with.
const WRITES: [&str; 9] = [
    "change_registry",
    "set_second_factor",
    "revoke_grant",
    "revoke_all",
    "announce",
    "renew_feed",
    "add_signing_key",
    "forget_signing_key",
    "append_audit",
];

#[tokio::test]
async fn a_command_and_its_audit_entry_are_one_write() {
    let folder = TempDir::new().unwrap();
    let config = demo(&folder);
    let store = Arc::new(Watched::new(open_store(&config).await.unwrap()));
    let service = prepare_on(config, Arc::clone(&store) as _, Arc::new(SystemClock)).await;
    let service = Arc::new(service.unwrap());
    let admin = Administration::new(Arc::clone(&service), Origin::default(), None);
    let writes = || -> Vec<String> {
        let calls = store.calls().into_iter();
        let names = calls.filter_map(|call| Some(call.split_once('(')?.0.to_owned()));
        let writes = names.filter(|name| WRITES.contains(&name.as_str()));
        writes.collect()
    };
    writes();
    // Joan's second factor is registered, then she sets up another, and then there is none.
    let joan = Username::parse("joan@example.com").unwrap();
    for expected in [&["change_registry"][..], &["set_second_factor"], &[]] {
        admin.remove_second_factor(joan.as_str()).await.unwrap();
        assert_eq!(writes(), expected);
        if expected == ["change_registry"] {
            let own = Some(SecondFactor {
                totp_secret_sealed: vec![1],
                recovery_codes: Vec::new(),
            });
            let now = SystemClock.now();
            let set =
                service
                    .store
                    .set_second_factor(joan.clone(), own, None, None, Arc::default(), now);
            assert!(set.await.unwrap().is_some());
            writes();
        }
    }
    let owner = OwnerQuery {
        client_id: Some("web-demo".to_owned()),
        username: None,
        jkt: None,
    };
    let revoked = admin.revoke_grants(&owner).await.unwrap();
    assert_eq!(writes(), ["revoke_all"]);
    // The next token has a later `iat` than those that are revoked.
    assert!(SystemClock.now().rfc3339() > revoked.issued_up_to);
    admin.rotate_keys(RotationRequest::default()).await.unwrap();
    assert_eq!(writes(), ["add_signing_key"]);
    admin.renew_feed().await.unwrap();
    assert_eq!(writes(), ["renew_feed"]);
    admin.cut_off(&CutOffRequest::default()).await.unwrap();
    assert_eq!(writes(), ["announce"]);
    let entries = service
        .store
        .audit(AuditRange::After(0), 100)
        .await
        .unwrap();
    let by_operator = entries
        .into_iter()
        .filter(|record| record.event.actor.as_deref() == Some("administrator"));
    let actions: Vec<AuditAction> = by_operator.map(|record| record.event.action).collect();
    let expected = [
        AuditAction::UserUpdated,
        AuditAction::SecondFactorRemoved,
        AuditAction::SecondFactorRemoved,
        AuditAction::GrantRevoked,
        AuditAction::KeysRotated,
        AuditAction::RevocationFeedRenewed,
        AuditAction::TokensCutOff,
    ];
    assert_eq!(actions, expected);
}

/// The file of the other replica has a newer encryption key, which this replica lacks.
#[tokio::test]
async fn a_replica_that_cannot_open_the_signing_key_is_not_ready() {
    let folder = TempDir::new().unwrap();
    let config = demo(&folder);
    let store = open_store(&config).await.unwrap();
    let start = async |config| {
        let service = prepare_on(config, Arc::clone(&store), Arc::new(SystemClock)).await;
        Arc::new(service.unwrap())
    };
    let replica = start(config.clone()).await;
    let two_keys = folder.path().join("two-keys");
    key_file::load_or_create(&two_keys, &OsRandom).unwrap();
    let [newer, older] =
        [&two_keys, &config.encryption_key_file].map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(&two_keys, newer + &older).unwrap();
    let other = start(Config {
        encryption_key_file: two_keys,
        ..config
    })
    .await;
    let readiness = async |service: &Arc<Service>| {
        let application = actix_web::App::new()
            .app_data(actix_web::web::Data::from(Arc::clone(service)))
            .configure(health::routes);
        let application = actix_web::test::init_service(application).await;
        let request = actix_web::test::TestRequest::get().uri("/readyz");
        let response = actix_web::test::call_service(&application, request.to_request()).await;
        let status = response.status().as_u16();
        (status, actix_web::test::read_body(response).await)
    };
    let admin = Administration::new(Arc::clone(&other), Origin::default(), None);
    // The key does not sign yet.
    admin.rotate_keys(RotationRequest::default()).await.unwrap();
    assert!(replica.maintain_keys().await.is_err());
    assert_eq!(readiness(&replica).await.0, 200);
    let immediate = RotationRequest {
        immediate: true,
        cut_off: false,
    };
    admin.rotate_keys(immediate).await.unwrap();
    assert!(replica.maintain_keys().await.is_err());
    let (status, body) = readiness(&replica).await;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &body["reason"]), (503, &"signing_key".into()));
    let kid = other.keys().signing().kid().to_owned();
    assert!(
        body["description"].as_str().unwrap().contains(&kid),
        "{body}"
    );
    assert_eq!(readiness(&other).await.0, 200);
    // Without its key, the earlier one signs again.
    for key in other.keys().sealed() {
        if replica
            .keys()
            .sealed()
            .iter()
            .all(|known| known.kid != key.kid)
        {
            let forgotten = store.forget_signing_key(key.kid.clone(), Arc::default());
            forgotten.await.unwrap();
        }
    }
    replica.maintain_keys().await.unwrap();
    assert_eq!(readiness(&replica).await.0, 200);
}

#[tokio::test]
async fn a_store_of_an_unreleased_version_is_refused_with_its_reason() {
    let folder = TempDir::new().unwrap();
    let config = demo(&folder);
    let path = folder.path().join("store.redb");
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let mut meta = transaction.open_table(meta).unwrap();
    meta.insert("layout", 1).unwrap();
    drop(meta);
    transaction.commit().unwrap();
    drop(database);
    let error = prepare(config).await.err().unwrap();
    assert_eq!(exit_code(&error), ExitCode::FAILURE);
    let expected = format!(
        "an unreleased version before 0.3.0 wrote the store {}, and no other version reads it: ",
        path.display()
    );
    assert!(error.to_string().starts_with(&expected), "{error:#}");
}

/// The mail server is away: a notice stays owed, and the audit log names each person who cannot be told.
#[tokio::test]
async fn a_notice_that_nobody_takes_is_owed_and_then_given_up() {
    let folder = TempDir::new().unwrap();
    let mut config = demo(&folder);
    config.registrations = None;
    config.mail = Some(Mail {
        host: "localhost".to_owned(),
        port: 1,
        tls: MailTls::None,
        ca_file: None,
        login: None,
        sender: "g@example.com".parse().unwrap(),
        link_lifetime: Duration::from_hours(1),
        timeout: Duration::from_secs(30),
    });
    let service = Arc::new(prepare(config).await.unwrap());
    let now = service.clock.now();
    let notice = |name, age: Duration| Notice {
        username: username(name),
        email: "ada@example.com".to_owned(),
        subject: "Your password was changed".to_owned(),
        text: String::new(),
        at: Timestamp::from_seconds(now.seconds() - age.as_secs()),
    };
    let change = RegistryChange {
        put_users: vec![
            user("ada", &[]),
            User {
                email: Some("grace@example.com".to_owned()),
                totp_secret_sealed: Some(vec![1]),
                ..user("grace", &[])
            },
        ],
        notices: vec![
            notice("ada", Duration::ZERO),
            notice("grace", GIVE_UP_AFTER),
        ],
        ..RegistryChange::default()
    };
    service.make(change).await.unwrap();
    let claimed = notices::claim(&service, 4).await.unwrap();
    assert_eq!(claimed.len(), 2);
    assert_eq!(notices::claim(&service, 4).await, Ok(Vec::new()));
    for one in claimed {
        notices::send(&service, one).await;
    }
    let counts = service.store.counts().await.unwrap();
    assert_eq!((counts.owed_notices, counts.owed_since), (1, Some(now)));
    let newest = service.store.audit(AuditRange::Before(None), 1);
    let [entry] = &newest.await.unwrap()[..] else {
        panic!("no entry");
    };
    assert_eq!(entry.event.action, AuditAction::NoticeGivenUp);
    assert_eq!(entry.event.username.as_deref(), Some("grace"));
    let detail = "\"Your password was changed\", after 1 attempts";
    assert_eq!(entry.event.detail.as_deref(), Some(detail));
    // Somebody may have talked the operator into it.
    let admin = Administration::new(Arc::clone(&service), Origin::default(), None);
    admin.remove_second_factor("grace").await.unwrap();
    let claimed = notices::claim(&service, 4).await.unwrap();
    let [claimed] = &claimed[..] else {
        panic!("{claimed:?}");
    };
    let ClaimedNotice { notice, .. } = claimed;
    assert_eq!(notice.email, "grace@example.com");
    let removed = "Gatepass: your second factor was removed / Gatepass: zweiter Faktor entfernt";
    assert_eq!(notice.subject, removed);
    assert!(
        notice.text.contains("\n--\n\nGuten Tag,\n"),
        "{}",
        notice.text
    );
}
