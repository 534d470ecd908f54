//! A revocation feed with any number of entries, none of which concerns a token of the benchmark.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

/// Entries of a page: as many as the token service sends.
const PAGE: usize = 5000;

/// When the entries expire: in the year 2100.
const EXPIRY: u64 = 4_102_444_800;

/// Starts a feed with this number of entries, which ends with the process. Returns its port.
pub(crate) fn start(entries: usize) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // A connection that breaks is the gateway's to open again.
            std::thread::spawn(move || serve(connection, entries).ok());
        }
    });
    Ok(port)
}

/// Answers the requests of one connection, one after the other.
fn serve(mut connection: TcpStream, entries: usize) -> Result<()> {
    let mut path = String::new();
    for line in BufReader::new(connection.try_clone()?).lines() {
        let line = line?;
        if let Some(request) = line.strip_prefix("GET ") {
            path = request.to_owned();
        } else if line.is_empty() {
            let body = page(&path, entries);
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            connection.write_all(&[head, body].concat().into_bytes())?;
        }
    }
    Ok(())
}

fn page(path: &str, entries: usize) -> String {
    let parameter = |name: &str| {
        let mut parts = path.split(['?', '&', ' ']);
        let value = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let since = parameter("since").min(entries);
    let end = entries.min(since + PAGE);
    if since == entries {
        // Nothing is ever revoked later.
        let (mutex, never) = (Mutex::new(()), Condvar::new());
        if let Ok(guard) = mutex.lock() {
            let wait = Duration::from_secs(parameter("wait") as u64);
            drop(never.wait_timeout_while(guard, wait, |()| true));
        }
    }
    let revocations: Vec<_> = (since..end)
        .map(|number| {
            let id = format!("revoked-token-{number:08}");
            json!({"kind": "token", "id": id, "at": 0, "exp": EXPIRY})
        })
        .collect();
    json!({
        "feed": "bench", "since": since, "position": end, "more": end < entries, "holds": true,
        "revocations": revocations,
    })
    .to_string()
}
