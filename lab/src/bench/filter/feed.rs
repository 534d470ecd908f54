//! A revocation feed with any number of entries. None concerns a token of the benchmark.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tests::{Arrived, response};

/// Entries of a page: as many as the token service sends.
const PAGE: usize = 5000;

/// When the entries expire: in the year 2100.
const EXPIRY: u64 = 4_102_444_800;

/// Starts a feed with this number of entries, which ends with the process. Returns its port.
pub(crate) fn start(entries: usize) -> Result<u16> {
    tests::serve("127.0.0.1", 0, move |request| {
        response("200 OK", "", &page(request, entries))
    })
}

fn page(request: &Arrived, entries: usize) -> String {
    let parameter = |name| request.parameter(name).unwrap_or_default();
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
