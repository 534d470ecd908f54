//! A store with many clients, users and live grants, and the refresh tokens of these grants.

use std::sync::Arc;
use std::time::Duration;

use claims::Confirmation;
use domain::clock::Clock as _;
use domain::digest::Digest;
use domain::random;
use domain::{
    Client, ClientId, CodeRecord, FirstStep, Grant, GrantId, PresentedCode, Redemption,
    RegistryChange, Scope, SelfContainedCode, Session, SessionPlace, SessionStage, TokenId, User,
    Username, testing,
};
use protocol::token::rotation::Policy;
use protocol::token::{KeyRing, Mint};
use secrets::key_file;
use secrets::sealing::EncryptionKey;
use store::postgres::PostgresStore;
use store::redb::RedbStore;
use store::{SessionBegin, Store};
use system::{OsRandom, SystemClock};
use token_service::config::{Config, StoreUrl};
use tokio::task::JoinSet;

use super::scripts::{bound_client, bound_secret};
use super::server::Demo;

/// A redirect URI of the demo's client.
pub(crate) const REDIRECT_URI: &str = "https://app.example.com/callback";
const HOUR: Duration = Duration::from_secs(3600);
/// Registrations per transaction.
const CHUNK: usize = 10_000;
/// Grants that are created concurrently.
const CALLERS: usize = 256;

/// The numbers of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Number of clients, and number of users.
    pub(crate) registered: usize,
    pub(crate) grants: usize,
}

async fn open(config: &Config) -> Arc<dyn Store> {
    match &config.store {
        StoreUrl::Redb(path) => Arc::new(RedbStore::open(path, HOUR).unwrap()),
        StoreUrl::Postgres(settings) => {
            Arc::new(PostgresStore::open(settings, HOUR).await.unwrap())
        }
    }
}

/// Signs in `count` users, and returns their session ids.
pub(crate) async fn signed_in(demo: &Demo, count: usize) -> Vec<String> {
    let store = open(&demo.config()).await;
    let now = SystemClock.now();
    let change = RegistryChange {
        put_users: (0..count).map(user).collect(),
        ..RegistryChange::default()
    };
    store.change_registry(change, now).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..count {
        let id = random::text::<32>(&OsRandom).unwrap();
        let credentials = store.credentials(username(number)).await.unwrap();
        let session = Session {
            username: username(number),
            stage: SessionStage::SignedIn,
            amr: vec!["USERNAME_PASSWORD".into()],
            authenticated_at: now,
            expires_at: now + HOUR * 24,
            ends_at: now + HOUR * 24,
            credentials_version: credentials.unwrap().version,
            origin: None,
            used_at: now,
            place: SessionPlace::default(),
            provider: None,
        };
        let started = store.start_session(Digest::of(id.as_bytes()), session, None);
        assert!(matches!(started.await.unwrap(), SessionBegin::Begun(_)));
        ids.push(id);
    }
    ids
}

/// Registers `count` users, each with a user-bound client.
pub(crate) async fn register(demo: &Demo, count: usize) {
    put(&*open(&demo.config()).await, count, user_bound).await;
}

/// Registers `count` users and `count` clients.
async fn put(store: &dyn Store, count: usize, client: fn(usize) -> Client) {
    for first in (0..count).step_by(CHUNK) {
        let numbers = first..(first + CHUNK).min(count);
        let change = RegistryChange {
            put_clients: numbers.clone().map(client).collect(),
            put_users: numbers.map(user).collect(),
            ..RegistryChange::default()
        };
        let now = SystemClock.now();
        store.change_registry(change, now).await.unwrap();
        if first > 0 && first.is_multiple_of(10 * CHUNK) {
            eprintln!("{first} of {count} clients and users are registered");
        }
    }
}

/// Fills the demo's store, and returns a refresh token of each grant.
pub(crate) async fn seed(demo: &Demo, size: Size) -> Vec<String> {
    let config = demo.config();
    let store = open(&config).await;
    put(&*store, size.registered, client).await;
    let change = RegistryChange {
        put_clients: vec![web_demo()],
        ..RegistryChange::default()
    };
    let now = SystemClock.now();
    store.change_registry(change, now).await.unwrap();
    let user = move |number| user(number % size.registered);
    let grants = grants(&store, &web_demo().client_id, user, size.grants).await;
    let encryption_key = key_file::load_or_create(&config.encryption_key_file, &OsRandom).unwrap();
    let encryption_key = EncryptionKey::new(&encryption_key).unwrap();
    let policy = Policy::of(&config.protocol, &[]);
    let keys = KeyRing::open(&*store, &encryption_key, &policy, SystemClock.now())
        .await
        .unwrap();
    let mint = Mint::new(&config.protocol, &keys);
    let token = |grant: &Grant| mint.refresh_token(grant, &grant.current).unwrap();
    grants.iter().map(token).collect()
}

/// The client of the grants, as the demo registers it.
fn web_demo() -> Client {
    let uris = [REDIRECT_URI, "http://127.0.0.1:8090/callback"];
    let secret = "demo-secret-of-web-demo-not-for-real-use";
    Client {
        name: "Package Builder".to_owned(),
        ..testing::web_server("web-demo", &[secret], &uris).with_scopes("projects documents")
    }
}

fn client(number: usize) -> Client {
    let secret = format!("secret-{number}");
    testing::web_server(&format!("client-{number}"), &[&secret], &[])
        .with_scopes("projects documents")
}

fn user_bound(number: usize) -> Client {
    let (id, secret) = (bound_client(number), bound_secret(number));
    testing::user_bound(&id, &[&secret], username(number).as_str())
        .with_scopes("projects documents")
}

fn user(number: usize) -> User {
    User {
        email: Some(format!("user-{number}@example.com")),
        // As long as a real hash.
        password_hash: Some(format!(
            "$argon2id$v=19$m=19456,t=2,p=1${:022}${:043}",
            number, number
        )),
        organization: Some("majestic".to_owned()),
        ..testing::user(username(number).as_str(), &[&number.to_string()])
    }
}

fn username(number: usize) -> Username {
    testing::username(&format!("user-{number:08}@example.com"))
}

/// Creates `count` live grants of a client, each of the user with its number.
pub(crate) async fn grants(
    store: &Arc<dyn Store>,
    client_id: &ClientId,
    user: impl Fn(usize) -> User + Copy + Send + 'static,
    count: usize,
) -> Vec<Grant> {
    let mut workers = JoinSet::new();
    for worker in 0..CALLERS {
        let (store, client_id) = (Arc::clone(store), client_id.clone());
        workers.spawn(async move {
            let mut grants = Vec::new();
            for number in (worker..count).step_by(CALLERS) {
                grants.push(grant(&*store, client_id.clone(), &user(number)).await);
            }
            grants
        });
    }
    workers.join_all().await.concat()
}

/// Creates a live grant of a user with the usual operations.
async fn grant(store: &dyn Store, client_id: ClientId, user: &User) -> Grant {
    let now = SystemClock.now();
    let client = store.client(client_id).await.unwrap().unwrap();
    let credentials = store.credentials(user.username.clone()).await.unwrap();
    let record = CodeRecord {
        client_id: client.client_id,
        redirect_uri: REDIRECT_URI.into(),
        code_challenge: None,
        username: user.username.clone(),
        account: user.accounts.first().unwrap().clone(),
        scope: Scope::parse("projects").unwrap(),
        amr: vec!["USERNAME_PASSWORD".into()],
        authenticated_at: now,
        issued_at: now,
        expires_at: now + HOUR,
        credentials_version: credentials.unwrap().version,
        client_version: client.version,
        provider: None,
        session: None,
    };
    let first = FirstStep {
        refresh_id: TokenId::generate(&OsRandom).unwrap(),
        access_id: TokenId::generate(&OsRandom).unwrap(),
        scope: None,
        issued_at: now,
        refresh_expires_at: now + HOUR * 24,
        second_factor: Arc::default(),
    };
    let presented = PresentedCode {
        client_id: record.client_id.clone(),
        redirect_uri: record.redirect_uri.clone(),
        verifier_digest: None,
        client_authenticated: true,
        proven: Confirmation::default(),
    };
    let grant_id = GrantId::generate(&OsRandom, now).unwrap();
    let code = SelfContainedCode {
        grant_id,
        record,
        dpop_jkt: None,
    };
    let redeemed = store.redeem_code(code, presented, first, now);
    match redeemed.await.unwrap() {
        Redemption::Redeemed { grant, .. } => *grant,
        other => unreachable!("{other:?}"),
    }
}
