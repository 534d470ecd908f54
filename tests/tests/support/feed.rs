//! A revocation feed that tests fill, and that records requests.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Arrived, response};

use super::now;

/// The feed, version 2, on a free port.
pub(crate) struct FeedService {
    port: u16,
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    entries: Vec<Value>,
    /// Number of held requests.
    held: usize,
    most_held: usize,
    /// Paths of all requests.
    requests: Vec<String>,
}

impl FeedService {
    /// Starts the feed. It ends with the process.
    pub(crate) fn start() -> Self {
        let shared = Arc::<(Mutex<State>, Condvar)>::default();
        let own = Arc::clone(&shared);
        let port = tests::serve("127.0.0.1", 0, move |request| {
            response("200 OK", "", &answer(request, &own).to_string())
        });
        Self {
            port: port.unwrap(),
            shared,
        }
    }

    /// Port of the feed.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Revokes the token with this `jti`.
    pub(crate) fn revoke(&self, jti: &str) {
        let (state, changed) = &*self.shared;
        let entry = json!({"kind": "token", "id": jti, "at": now(), "exp": now() + 3600});
        state.lock().unwrap().entries.push(entry);
        changed.notify_all();
    }

    /// Number of held requests: now, and the maximum so far.
    pub(crate) fn held(&self) -> (usize, usize) {
        let state = self.shared.0.lock().unwrap();
        (state.held, state.most_held)
    }

    /// Paths of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.0.lock().unwrap().requests.clone()
    }
}

fn answer(request: &Arrived, (state, changed): &(Mutex<State>, Condvar)) -> Value {
    let since = request.parameter("since").unwrap();
    let mut state = state.lock().unwrap();
    state.requests.push(request.target.clone());
    if let Some(wait) = request.parameter("wait") {
        state.held += 1;
        state.most_held = state.most_held.max(state.held);
        let wait = Duration::from_secs(wait.try_into().unwrap());
        (state, _) = changed
            .wait_timeout_while(state, wait, |state| state.entries.len() <= since)
            .unwrap();
        state.held -= 1;
    }
    json!({
        "feed": "A", "since": since, "position": state.entries.len(), "more": false, "holds": true,
        "revocations": state.entries[since..],
    })
}
