//! The conformance suite on a real server, and tests of server failures.

mod audit;
mod copy;
mod engine;
mod feed;
mod hanging;
mod pooler;
mod refreshes;
pub(super) mod round_trips;
mod server;
mod upgrade;

use std::sync::Arc;

use self::server::{Server, fresh_database, settings};
use super::*;
use crate::conformance::walk::{Walk, steps};
use crate::conformance::{
    ACCESS, Subject, WEAK, apply, as_registered, assert_a_longer_lifetime_holds,
    assert_unreadable_rows_stop_no_change, at, bound, code, conformance, grant_of, present_secrets,
    put, register_at_random, register_weak, rehash, replacements_and_removals, use_of, user,
};
use crate::memory::MemoryStore;
use crate::operations::*;
use crate::{OnceId, Use};
use domain::{Extent, Revoked, Rotation, TokenId};

struct Database {
    url: String,
    store: Arc<PostgresStore>,
    restarts: bool,
}

async fn open(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(&settings(url), ACCESS).await.unwrap())
}

impl Database {
    async fn new(restarts: bool) -> Self {
        let url = fresh_database().await;
        let store = open(&url).await;
        Self {
            url,
            store,
            restarts,
        }
    }
}

impl Subject for Database {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    /// Opens another store on the same database, like a gateway with several replicas.
    async fn restart(&mut self) {
        if self.restarts {
            self.store = open(&self.url).await;
        }
    }
}

mod one_replica {
    use super::*;
    conformance!(Database::new(false).await);
}

mod another_replica_at_every_step {
    use super::*;
    conformance!(Database::new(true).await);
}

/// 300 steps take 3 seconds.
#[tokio::test]
async fn random_operations_do_the_same_as_in_memory() {
    let memory = MemoryStore::new(ACCESS, at(0));
    let url = fresh_database().await;
    let database = PostgresStore::open(&settings(&url), ACCESS).await.unwrap();
    let mut walk = Walk::new(9, vec![Box::new(memory), Box::new(database)]);
    walk.go(steps(300)).await;
}

/// Retries, because an operation at the moment of the crash may fail, but later operations must succeed.
async fn eventually(store: &PostgresStore) {
    while store.ready().await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_is_an_error_and_then_goes_on() {
    let mut server = Server::start(&[]);
    let store = open(&server.url("postgres")).await;
    let grant = grant_of(&*store, code()).await;
    let rotation = use_of(&grant, grant.current.refresh_id, at(5));
    server.command("crash");
    let error = store.rotate_refresh(rotation.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Failed(_)), "{error}");
    assert!(store.ready().await.is_err());
    server.command("start");
    eventually(&store).await;
    let outcome = store.rotate_refresh(rotation).await.unwrap();
    assert!(matches!(outcome, Rotation::Rotated { .. }), "{outcome:?}");
}

#[tokio::test]
async fn without_a_free_connection_callers_are_told_to_come_back() {
    let database = Database::new(false).await;
    let mut held = Vec::new();
    for _ in 0..database.store.pool.status().max_size {
        held.push(database.store.pool.get().await.unwrap());
    }
    let limit = Duration::from_secs(60);
    let outcome = tokio::time::timeout(limit, database.store.feed_state()).await;
    assert_eq!(outcome, Ok(Err(StoreError::Overloaded)));
    held.clear();
    assert_eq!(database.store.feed_state().await.unwrap().last, 0);
}

#[tokio::test]
async fn tables_of_another_version_are_refused_and_kept() {
    let database = Database::new(false).await;
    let refused = async || {
        let refused = PostgresStore::open(&settings(&database.url), ACCESS).await;
        refused.unwrap_err().to_string()
    };
    set_layout(&database.store, Layout::LATER).await;
    let error = refused().await;
    assert!(
        error.ends_with(&format!("cannot be opened: {UNKNOWN}")),
        "{error}"
    );
    set_layout(&database.store, Layout::NEWEST).await;
    assert_eq!(open(&database.url).await.layout(), Layout::NEWEST);
    let client = database.store.pool.get().await.unwrap();
    let expected = "cannot be opened: an unreleased version before 0.3.0 made the tables, and no other version \
        reads them: use an empty database";
    for earlier in [
        "INSERT INTO counters (name, value) VALUES ('registry_position', 0)",
        "UPDATE counters SET name = 'schema_version', value = 18 WHERE name = 'layout'",
    ] {
        client.execute(earlier, &[]).await.unwrap();
        let error = refused().await;
        assert!(error.ends_with(expected), "{error}");
    }
}

/// How a layout of a later version is refused.
const UNKNOWN: &str = "layout 2 is in use, and this version knows 1 at most: run the version that finished the \
    upgrade, or a later one; a step back needs the backup from before";

async fn set_layout(store: &PostgresStore, layout: Layout) {
    let client = store.pool.get().await.unwrap();
    let sql = "UPDATE counters SET value = $1 WHERE name = 'layout'";
    let number = i64::from(layout.number());
    client.execute(sql, &[&number]).await.unwrap();
}

/// An example: each start makes the additions that are missing, and the start of the version before, in between, leaves
/// those that this version does not know.
#[tokio::test]
async fn additions_are_made_once() {
    let database = Database::new(false).await;
    let mut client = database.store.pool.get().await.unwrap();
    let none = "UPDATE counters SET value = 0 WHERE name = 'additions'";
    client.execute(none, &[]).await.unwrap();
    let all = [
        "CREATE TABLE steps (step BIGINT); INSERT INTO steps VALUES (1)",
        "INSERT INTO steps VALUES (2)",
        "INSERT INTO steps VALUES (3)",
    ];
    for (most, expected) in [(2, (2, 2)), (3, (3, 3)), (2, (3, 3)), (3, (3, 3))] {
        let opened = schema::open_with(&mut client, None, &all[..most]).await;
        assert_eq!(opened.unwrap(), Layout::NEWEST);
        let sql =
            "SELECT value, (SELECT count(*) FROM steps) FROM counters WHERE name = 'additions'";
        let row = client.query_one(sql, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_make_the_tables_once() {
    let url = fresh_database().await;
    let mut replicas = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let url = url.clone();
        replicas.spawn(async move { open(&url).await });
    }
    for store in replicas.join_all().await {
        assert_eq!(store.feed_state().await.unwrap().last, 0);
    }
}

/// The server's certificate must be signed by the configured CA and contain the host name.
#[tokio::test]
async fn the_connection_is_encrypted_and_the_server_verified() {
    let folder = tempfile::TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let certificate = |name: &str, host: &str| {
        let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
        std::fs::write(at(name), made.cert.pem()).unwrap();
        made.signing_key.serialize_pem()
    };
    certificate("other.pem", "127.0.0.1");
    std::fs::write(at("key.pem"), certificate("server.pem", "127.0.0.1")).unwrap();
    // Not one of the ports from which a connection of another test may start before the server listens.
    let first = 15_000 + u16::try_from(std::process::id() % 5000).unwrap();
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (first..20_000).find(is_free).unwrap();
    let text = |name: &str| at(name).display().to_string();
    let _server = Server::start(&[&port.to_string(), &text("server.pem"), &text("key.pem")]);
    let open = async |host: &str, ca_file: Option<&str>| {
        let url = format!("postgres://postgres@{host}:{port}/postgres?sslmode=verify-full");
        let settings = PostgresSettings {
            url: PostgresUrl::parse(&url).unwrap(),
            ca_file: ca_file.map(at),
        };
        PostgresStore::open(&settings, ACCESS).await
    };
    let marked = format!(
        "\u{feff}{}",
        std::fs::read_to_string(at("server.pem")).unwrap()
    );
    std::fs::write(at("marked.pem"), marked).unwrap();
    let store = open("127.0.0.1", Some("marked.pem")).await.unwrap();
    let client = store.pool.get().await.unwrap();
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let encrypted: bool = client.query_one(sql, &[]).await.unwrap().get(0);
    assert!(encrypted);
    for (host, ca_file) in [
        ("127.0.0.1", Some("other.pem")),
        ("127.0.0.1", None),
        ("localhost", Some("server.pem")),
        ("127.0.0.1", Some("key.pem")),
    ] {
        let refused = open(host, ca_file).await;
        assert!(refused.is_err(), "{host} {ca_file:?}");
    }
}

/// All rows, with bytes in hexadecimal digits.
async fn dump(store: &PostgresStore) -> String {
    let client = store.pool.get().await.unwrap();
    let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
    let mut dump = String::new();
    for table in client.query(sql, &[]).await.unwrap() {
        let table: String = table.get(0);
        // Searches for bytes and text: rows print their bytes in hexadecimal.
        for row in client
            .query(&format!("SELECT t::TEXT FROM {table} AS t"), &[])
            .await
            .unwrap()
        {
            dump.push_str(row.get(0));
        }
    }
    dump
}

fn hex(text: &str) -> String {
    data_encoding::HEXLOWER.encode(text.as_bytes())
}

/// The database contains only digests of the secrets of clients.
#[tokio::test]
async fn no_table_holds_what_a_client_presents() {
    let database = Database::new(false).await;
    let store = &database.store;
    let secrets = present_secrets(&**store).await;
    let dump = dump(store).await;
    assert!(
        dump.contains(&hex("app.example.com")),
        "the record itself is there"
    );
    for secret in secrets {
        assert!(
            !dump.contains(secret) && !dump.contains(&hex(secret)),
            "{secret}"
        );
    }
}

#[tokio::test]
async fn a_shorter_lifetime_brings_no_revoked_token_back() {
    let url = fresh_database().await;
    let longer = PostgresStore::open(&settings(&url), ACCESS * 2).await;
    drop(longer.unwrap());
    assert_a_longer_lifetime_holds(&*open(&url).await).await;
}

#[tokio::test]
async fn an_unreadable_registration_is_replaced_and_removed() {
    let database = Database::new(false).await;
    register_at_random(&*database.store, 20).await;
    for (name, change) in replacements_and_removals() {
        let client = database.store.pool.get().await.unwrap();
        for table in ["clients", "users"] {
            let garbage = format!(r"INSERT INTO {table} VALUES ('{name}', '\xff')");
            client.batch_execute(&garbage).await.unwrap();
        }
        drop(client);
        assert_unreadable_rows_stop_no_change(&*database.store, name, change).await;
    }
}

/// The index keeps the bound user of the unreadable row.
#[tokio::test]
async fn a_replaced_unreadable_client_is_found_with_its_own_bound_user() {
    let database = Database::new(false).await;
    let store = &*database.store;
    let all = ["ada", "grace", "joan"];
    apply(
        store,
        put(vec![bound("web", "grace")], all.map(user).to_vec()),
        0,
    )
    .await;
    for name in ["ada", "joan"] {
        let client = store.pool.get().await.unwrap();
        let garbage = r"UPDATE clients SET v = '\xff'";
        client.batch_execute(garbage).await.unwrap();
        drop(client);
        apply(store, put(vec![bound("web", name)], vec![]), 0).await;
        let found = store.client_with_bound_user(code().client_id).await;
        let (client, user) = found.unwrap().unwrap();
        assert_eq!(as_registered(&client), bound("web", name));
        assert_eq!(user.unwrap().username.as_str(), name);
    }
}

/// A confirmed commit survives a crash of the server (a code is not redeemed twice, a revocation holds), whatever the
/// settings of the database or the role are.
#[tokio::test]
async fn an_answered_commit_is_on_disk_whatever_the_database_says() {
    for (default, expected) in [("off", "on"), ("remote_apply", "remote_apply")] {
        let url = fresh_database().await;
        let database = url.split(['/', '?']).nth(3).unwrap();
        let store = open(&url).await;
        let client = store.pool.get().await.unwrap();
        let set = format!("ALTER DATABASE {database} SET synchronous_commit = {default}");
        client.batch_execute(&set).await.unwrap();
        drop(client);
        let store = open(&url).await;
        let client = store.pool.get().await.unwrap();
        let row = client.query_one("SHOW synchronous_commit", &[]).await;
        assert_eq!(row.unwrap().get::<_, &str>(0), expected);
    }
}

/// PostgreSQL compiles statements with a high estimated cost to machine code, which takes half a second for each call.
#[tokio::test]
async fn no_statement_is_compiled_to_machine_code() {
    let store = Database::new(false).await.store;
    let client = store.pool.get().await.unwrap();
    let without_index = "CREATE TABLE costly (number BIGINT)";
    client.batch_execute(without_index).await.unwrap();
    let sql = "EXPLAIN ANALYZE SELECT sum(number) FROM costly";
    let plan = client.query(sql, &[]).await.unwrap();
    let lines: Vec<&str> = plan.iter().map(|line| line.get(0)).collect();
    assert!(lines[0].contains("cost=10000000"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("JIT")), "{lines:?}");
}

#[tokio::test]
async fn a_database_that_is_missing_is_named_with_its_server() {
    let server = PostgresUrl::parse(&fresh_database().await).unwrap();
    let folder = server.place();
    let folder = folder.split(' ').next().unwrap();
    let missing = settings(&format!("postgres://postgres@/nodb?host={folder}"));
    let refused = PostgresStore::open(&missing, ACCESS).await;
    let expected = format!(
        "the PostgreSQL store at {folder} (port 5432), database nodb cannot be opened: no connection to the database: \
         database \"nodb\" does not exist (3D000)"
    );
    assert_eq!(refused.unwrap_err().to_string(), expected);
}

/// A stolen backup contains only the strongest hash of a password.
#[tokio::test]
async fn no_row_keeps_a_hash_that_became_stronger() {
    let store = Database::new(false).await.store;
    register_weak(&*store).await;
    assert!(dump(&store).await.contains(&hex(WEAK)));
    rehash(&*store).await;
    assert!(!dump(&store).await.contains(&hex(WEAK)));
}

/// A frozen replica of the previous version may still run when the upgrade is finished, but must stop writing.
#[tokio::test]
async fn a_replica_that_does_not_know_the_layout_in_use_writes_nothing_more() {
    let database = Database::new(false).await;
    let store = &database.store;
    store.ready().await.unwrap();
    set_layout(store, Layout::LATER).await;
    let error = store.ready().await.unwrap_err().to_string();
    assert_eq!(error, format!("the store failed: {UNKNOWN}"));
    let use_id = || {
        store.use_once(
            OnceId::of_user_assertion(&code().client_id, "jti"),
            at(60),
            at(0),
        )
    };
    assert!(use_id().await.is_err());
    let client = Revoked::Client(code().client_id);
    let announced = store.announce(client, Extent::of(at(0), ACCESS), Arc::default());
    assert!(announced.await.is_err());
    assert!(store.sweep(at(0), at(0), 10).await.is_err());
    set_layout(store, Layout::NEWEST).await;
    store.ready().await.unwrap();
    assert_eq!(use_id().await, Ok(Use::First), "nothing was written before");
}
