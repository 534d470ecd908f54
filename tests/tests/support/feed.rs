//! A revocation feed that tests fill, and that records requests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let service = Self {
            port,
            shared: Arc::clone(&shared),
        };
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(connection.unwrap(), &shared));
            }
        });
        service
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

/// Answers the requests of one connection, one after the other.
fn serve(mut connection: TcpStream, shared: &(Mutex<State>, Condvar)) {
    let reader = BufReader::new(connection.try_clone().unwrap());
    let mut path = None;
    for line in reader.lines() {
        let Ok(line) = line else {
            return;
        };
        if let Some(request) = line.strip_prefix("GET ") {
            path = request.split(' ').next().map(str::to_owned);
        } else if line.is_empty()
            && let Some(path) = path.take()
        {
            let body = answer(&path, shared).to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            if connection
                .write_all(&[head.as_bytes(), body.as_bytes()].concat())
                .is_err()
            {
                return;
            }
        }
    }
}

fn answer(path: &str, (state, changed): &(Mutex<State>, Condvar)) -> Value {
    let parameter = |name: &str| {
        let mut parts = path
            .split(['?', '&'])
            .filter_map(|part| part.split_once('='));
        parts
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.parse::<usize>().unwrap())
    };
    let since = parameter("since").unwrap();
    let mut state = state.lock().unwrap();
    state.requests.push(path.to_owned());
    if let Some(wait) = parameter("wait") {
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
