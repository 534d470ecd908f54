//! Copies between files and databases.

use std::collections::BTreeMap;

use tempfile::TempDir;

use super::*;
use crate::conformance::fill;
use crate::records::{LAST_AUDIT, LAST_REVOCATION, copied};
use crate::redb::RedbStore;
use crate::tx::tables::{Kind, Name};
use crate::{Copied, CopyError, Dump, Place, copy};

/// Where the store is at the moment.
enum Here {
    File(std::path::PathBuf),
    Database(Box<PostgresSettings>),
}

impl Here {
    fn place(&self) -> Place<'_> {
        match self {
            Self::File(path) => Place::Redb(path),
            Self::Database(settings) => Place::Postgres(settings),
        }
    }

    async fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::File(path) => Arc::new(RedbStore::open(path, ACCESS).unwrap()),
            Self::Database(settings) => {
                Arc::new(PostgresStore::open(settings, ACCESS).await.unwrap())
            }
        }
    }

    async fn copied_to(&self, other: &Self) -> Vec<Copied> {
        let copied = copy(self.place(), other.place(), |_, _, _| {});
        copied.await.unwrap()
    }
}

async fn database() -> Here {
    Here::Database(Box::new(settings(&fresh_database().await)))
}

struct Moving {
    folder: TempDir,
    moves: usize,
    here: Here,
    store: Option<Arc<dyn Store>>,
}

impl Moving {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let here = Here::File(folder.path().join("0.redb"));
        let store = Some(here.open().await);
        Self {
            folder,
            moves: 0,
            here,
            store,
        }
    }
}

impl Subject for Moving {
    const KEEPS_FEED: bool = false;

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    /// Goes on with a copy.
    async fn restart(&mut self) {
        self.store.take().unwrap().close().await;
        self.moves += 1;
        let there = match self.moves % 2 {
            0 => Here::File(self.folder.path().join(format!("{}.redb", self.moves))),
            _ => database().await,
        };
        self.here.copied_to(&there).await;
        self.store = Some(there.open().await);
        self.here = there;
    }
}

mod another_store_at_every_step {
    use super::*;
    conformance!(Moving::new().await);
}

/// The position in the feed is not in a row of a database, and each store has its own numbers.
#[tokio::test]
async fn a_dump_of_a_database_is_that_of_a_file() {
    let folder = TempDir::new().unwrap();
    let (file, database) = (
        Here::File(folder.path().join("store.redb")),
        database().await,
    );
    let empty = Dump::open(database.place(), "users", None)
        .await
        .err()
        .unwrap();
    assert!(empty.to_string().ends_with(" is empty"), "{empty}");
    let store = file.open().await;
    fill(&*store, 5).await;
    store.close().await;
    drop(store);
    file.copied_to(&database).await;
    // A service that runs keeps nobody from reading.
    let store = database.open().await;
    Dump::check(database.place()).await;
    let in_both = Name::ALL.iter().filter(|table| table.kind() != Kind::Log);
    for table in in_both.filter(|table| !matches!(table, Name::revoked | Name::meta)) {
        let in_file = Dump::all(file.place(), *table, None).await;
        assert_eq!(Dump::all(database.place(), *table, None).await, in_file);
    }
    drop(store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_there_and_back_stays_the_same() {
    for seed in 0..3 {
        let folder = TempDir::new().unwrap();
        let file = |name: &str| Here::File(folder.path().join(name));
        let places = [
            file("first"),
            database().await,
            database().await,
            file("second"),
            file("third"),
        ];
        let store = places[0].open().await;
        fill(&*store, seed).await;
        let mut feeds = vec![store.feed_state().await.unwrap()];
        store.close().await;
        drop(store);
        let mut all = Vec::new();
        for (from, to) in places.iter().zip(&places[1..]) {
            all.push(from.copied_to(to).await);
            let copy = to.open().await;
            let state = copy.feed_state().await.unwrap();
            assert_eq!(state.last, feeds[0].last);
            assert!(feeds.iter().all(|feed| feed.feed != state.feed));
            feeds.push(state);
            copy.close().await;
        }
        for table in &all[0] {
            assert!(table.rows > 0, "{}", table.table);
        }
        for copied in &all[1..] {
            assert_eq!(*copied, all[0], "{seed}");
        }
    }
}

async fn refused(from: &Here, to: &Here) -> String {
    let refused = copy(from.place(), to.place(), |_, _, _| {}).await;
    refused.unwrap_err().to_string()
}

#[tokio::test]
async fn stores_in_use_and_targets_with_rows_are_refused() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| Here::File(folder.path().join(name));
    let (one, other, used) = (file("one"), file("other"), database().await);
    let store = one.open().await;
    fill(&*store, 9).await;
    let error = refused(&one, &other).await;
    assert!(error.contains("in use by another process"), "{error}");
    let Here::File(backup) = file("backup") else {
        unreachable!()
    };
    store.backup(&backup).await.unwrap();
    let backup = Here::File(backup);
    backup.copied_to(&other).await;
    let error = refused(&backup, &other).await;
    assert!(error.contains("exists already"), "{error}");

    backup.copied_to(&used).await;
    let error = refused(&backup, &used).await;
    assert!(error.contains("its table clients is not empty"), "{error}");
    let error = refused(&used, &used).await;
    assert!(error.contains("it is the source of a copy"), "{error}");
    let replica = used.open().await;
    replica.ready().await.unwrap();
    let error = refused(&used, &database().await).await;
    assert!(
        error.contains("token services use it (1 connections)"),
        "{error}"
    );
    drop(replica);

    let empty = database().await;
    let error = refused(&empty, &file("another")).await;
    assert!(error.contains("\"counters\" does not exist"), "{error}");
    assert!(!folder.path().join("another").exists());
}

/// A service that stops writes until its last connection has ended.
#[tokio::test]
async fn what_a_service_writes_while_it_stops_is_copied() {
    let folder = TempDir::new().unwrap();
    let to = Here::File(folder.path().join("copy"));
    let url = fresh_database().await;
    let from = Here::Database(Box::new(settings(&url)));
    let stopping = open(&url).await;
    let stops = async move {
        let client = stopping.pool.get().await.unwrap();
        let sql = "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE application_name = $1 AND mode = 'RowShareLock'";
        while client
            .query(sql, &[&records::READS])
            .await
            .unwrap()
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
        drop(client);
        let grant = grant_of(&*stopping, code()).await;
        stopping.close().await;
        grant
    };
    let (_, grant) = tokio::join!(from.copied_to(&to), stops);
    let copied = to.open().await.grant(grant.grant_id).await;
    assert_eq!(copied, Ok(Some(grant)));
}

#[tokio::test]
async fn a_copy_that_differs_is_not_kept() {
    let folder = TempDir::new().unwrap();
    let from = Here::File(folder.path().join("from"));
    let store = from.open().await;
    fill(&*store, 1).await;
    store.close().await;
    drop(store);
    let to = database().await;
    let Here::Database(there) = &to else {
        unreachable!()
    };
    drop(to.open().await);
    let server = there.url.servers().remove(0);
    let connected = server.config.connect(tokio_postgres::NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    let sql = "CREATE FUNCTION lose() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER lost BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION lose()";
    client.batch_execute(sql).await.unwrap();
    let outcome = copy(from.place(), to.place(), |_, _, _| {}).await;
    match outcome.unwrap_err() {
        CopyError::Differs { expected, found } => {
            assert_eq!((expected.table, found.table), ("sessions", "sessions"));
            assert_eq!((expected.rows > 0, found.rows), (true, 0));
        }
        other => panic!("{other}"),
    }
    let rows = client.query("SELECT 1 FROM users", &[]).await.unwrap();
    assert!(rows.is_empty());
}

/// A new table, column or counter is copied, or named here with the reason.
#[tokio::test]
async fn nothing_is_forgotten() {
    let database = Database::new(false).await;
    let client = database.store.pool.get().await.unwrap();
    let sql = "SELECT table_name::TEXT, string_agg(column_name, ' ' ORDER BY ordinal_position)
        FROM information_schema.columns WHERE table_schema = current_schema() GROUP BY 1";
    let rows = client.query(sql, &[]).await.unwrap();
    let mut found: BTreeMap<String, String> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for table in copied() {
        let columns = match table {
            // An entry waits for its position only until a copy begins.
            Name::revoked => "k v sequence waits_since",
            Name::audit_log => "sequence kind number expires_at body",
            _ => "k v",
        };
        assert_eq!(
            found.remove(table.text()).as_deref(),
            Some(columns),
            "{table:?}"
        );
    }
    // A copy has another feed and other replicas, and entries wait only until a copy begins.
    let own = ["audit_waiting", "counters", "feed", "replicas"];
    assert!(found.keys().eq(own), "{found:?}");
    let counters = client
        .query("SELECT name FROM counters ORDER BY name", &[])
        .await
        .unwrap();
    let counters: Vec<&str> = counters.iter().map(|row| row.get(0)).collect();
    // The layout in use stays with its store.
    assert_eq!(counters, [LAST_AUDIT, LAST_REVOCATION, "layout"]);
}
