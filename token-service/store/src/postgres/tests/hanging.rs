//! Servers that accept connections and do not answer: connections hang instead of breaking.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Instant;

use tokio_postgres::error::SqlState;

use super::server::Proxy;
use super::*;
use crate::conformance::audit_event;
use crate::postgres::limits::HEAD_START;
use domain::{AuditEvent, AuditRange};

/// A server that accepts connections (the kernel does) and never answers.
fn silent() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().unwrap().port()
}

/// Number of connections since the last look.
fn connections(listener: &TcpListener) -> usize {
    let accepted = std::iter::from_fn(|| match listener.accept() {
        Ok(connection) => Some(connection),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    });
    accepted.count()
}

/// The outcome of `connect` when it has taken less than [`HEAD_START`] in all, after `starts` head starts of silent
/// servers. On a busy machine, a server may take longer, and the service then tries the next one too.
async fn connected<T>(starts: u32, connect: impl AsyncFn() -> T) -> T {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(120) {
        let start = Instant::now();
        let outcome = connect().await;
        if start.elapsed() < HEAD_START * (starts + 1) {
            return outcome;
        }
    }
    panic!("the server that works is slower than a head start each time");
}

#[tokio::test]
async fn a_silent_server_keeps_the_service_from_no_other_one() {
    let server = fresh_database().await;
    let (name, folder) = server.split_once("?host=").unwrap();
    let listeners = [silent(), silent()];
    let [first, last] = listeners.each_ref().map(port);
    let (user, name) = name.rsplit_once('/').unwrap();
    let folder = folder.replace('/', "%2F");
    let url = format!("{user}127.0.0.1:{first},{folder}:5432,127.0.0.1:{last}/{name}");
    let tried = connected(1, async || {
        let store = open(&url).await;
        let at_first = listeners.each_ref().map(connections);
        // The next connections begin with the server that works.
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(store.pool.get().await.unwrap());
        }
        [at_first, listeners.each_ref().map(connections)]
    });
    assert_eq!(tried.await, [[1, 0], [0, 0]]);
}

#[tokio::test]
async fn random_load_balancing_begins_with_each_server_in_turn() {
    let server = fresh_database().await;
    let (name, folder) = server.split_once("?host=").unwrap();
    let (user, name) = name.rsplit_once('/').unwrap();
    let listener = silent();
    let (folder, port) = (folder.replace('/', "%2F"), port(&listener));
    let servers = format!("{user}127.0.0.1:{port},{folder}:5432");
    let silent_ones = connected(3, async || {
        let store = open(&format!("{servers}/{name}?load_balance_hosts=random")).await;
        let mut silent_ones = vec![connections(&listener)];
        let mut held = vec![store.pool.get().await.unwrap()];
        for _ in 0..3 {
            held.push(store.pool.get().await.unwrap());
            silent_ones.push(connections(&listener));
        }
        silent_ones
    });
    // The start has opened two connections, and kept one.
    assert_eq!(silent_ones.await, [1, 1, 0, 1]);
}

#[tokio::test]
async fn silent_servers_are_named_in_the_error() {
    let listeners = [silent(), silent()];
    let [one, two] = listeners.each_ref().map(port);
    let url = format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{two}/postgres");
    let error = PostgresStore::open(&settings(&url), ACCESS).await;
    let expected = format!(
        "cannot be opened: no connection to the database: 127.0.0.1:{one}: no answer within 3 s; 127.0.0.1:{two}: no \
         answer within 3 s"
    );
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with(&expected), "{error}");
}

/// What hangs fails after a time limit, occupies no connection, and is not repeated: the server may have done it.
#[tokio::test]
async fn an_operation_without_an_answer_fails_and_is_not_repeated() {
    let server = fresh_database().await;
    let proxy = Proxy::start(&server).await;
    let store = open(&proxy.url(&server)).await;
    // One statement, which writes.
    let append = |number| store.append_audit(Arc::from([audit_event(number)]));
    // The statement is prepared.
    assert_eq!(append(1).await, Ok(()));
    let idle = store.pool.get().await.unwrap();
    assert_eq!(append(2).await, Ok(()));
    drop(idle);
    assert_eq!(store.pool.status().size, 2);
    proxy.hold(true);
    let cause = "the database did not answer within 12 s";
    let failed = Err(StoreError::Failed(cause.to_owned()));
    assert_eq!(append(3).await, failed);
    assert_eq!(
        store.pool.status().size,
        0,
        "the idle connection is closed too"
    );
    assert_eq!(store.pool.manager().outage.cause().as_deref(), Some(cause));
    let unready = store.ready().await.unwrap_err().to_string();
    assert!(unready.ends_with("no answer within 3 s"), "{unready}");
    proxy.hold(false);
    eventually(&store).await;
    let found = store.audit(AuditRange::After(0), 10).await.unwrap();
    let found: Vec<AuditEvent> = found.into_iter().map(|record| record.event).collect();
    assert_eq!(found, [1, 2, 3].map(audit_event));
}

/// A replica that hangs holds its rows for only some seconds.
#[tokio::test]
async fn the_server_ends_what_a_service_does_not_end() {
    let store = open(&fresh_database().await).await;
    let [hanging, waiting, slow] = [
        store.pool.get().await.unwrap(),
        store.pool.get().await.unwrap(),
        store.pool.get().await.unwrap(),
    ];
    let lock = "BEGIN; LOCK TABLE counters IN EXCLUSIVE MODE";
    hanging.batch_execute(lock).await.unwrap();
    let (locked, slept) = tokio::join!(
        waiting.batch_execute(lock),
        slow.batch_execute("SELECT pg_sleep(60)"),
    );
    locked.unwrap();
    let code = slept.unwrap_err().code().cloned();
    assert_eq!(code, Some(SqlState::QUERY_CANCELED));
    assert!(hanging.batch_execute("COMMIT").await.is_err());
}
