//! Connections that clients reset while the service handles their requests. What took effect has its entry in the audit
//! log.

use std::collections::BTreeSet;
use std::net::TcpStream;

use serde_json::{Value, json};
use tests::browsing::FORM;
use tests::wire;

use crate::api::until;
use crate::support::{OwnPair, USER_BOUND, database, form_body};
use crate::token::claims;

/// Number of requests whose connections are reset together.
const REQUESTS: usize = 32;

const ROUNDS: usize = 8;

/// The values of `field` in entries with this action.
fn audited(pair: &OwnPair, action: &str, field: &str) -> BTreeSet<String> {
    let listed = pair.json(&format!("audit --limit 500 --action {action}"));
    let entries = listed["items"].as_array().unwrap().iter();
    entries.map(|entry| text(&entry[field])).collect()
}

/// The same, of the entries on standard output.
fn printed(log: &str, action: &str, field: &str) -> BTreeSet<String> {
    let entries = log.lines().filter(|line| line.starts_with("{\"audit\""));
    entries
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["audit"].take())
        .filter(|entry| entry["action"] == action)
        .map(|entry| text(&entry[field]))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Sends a request, and waits for no response.
fn begin(port: u16, head: &str, credentials: &str, body: &str) -> TcpStream {
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: {credentials}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    wire::begin(port, &request).unwrap()
}

fn changes_leave_their_entries(store: &[(&str, &str)]) {
    let pair = OwnPair::start(store);
    let client = |number| {
        json!({"client_id": format!("reset-{number}"), "name": "before", "type": "installed",
            "redirect_uris": ["com.example.app:/callback"]})
    };
    let clients: Vec<Value> = (0..ROUNDS * REQUESTS).map(client).collect();
    let document = json!({"clients": clients, "users": []}).to_string();
    pair.administrate("PUT", "/registrations?import=true", &document)
        .done();
    let bearer = format!("Bearer {}", pair.admin_token());
    let changed = || -> BTreeSet<String> {
        let listed = pair.administrate("GET", "/clients?limit=500", "").json();
        let clients = listed["items"].as_array().unwrap().iter();
        let is_changed =
            |client: &&Value| ["after", "last"].contains(&client["name"].as_str().unwrap());
        let changed = clients.filter(is_changed);
        changed.map(|client| text(&client["client_id"])).collect()
    };
    let port = pair.pair.ports().internal;
    for round in 0..ROUNDS {
        let requests = round * REQUESTS..(round + 1) * REQUESTS;
        let request = |number: usize| {
            let head = format!("PATCH /admin/clients/reset-{number}");
            begin(port, &head, &bearer, "{\"name\": \"after\"}")
        };
        let before = changed().len();
        let connections = requests.map(request).collect();
        until("a change takes effect", || changed().len() > before);
        // The service makes one change after the other, so it is making another change now.
        wire::reset(connections).unwrap();
    }
    // This change is the last.
    pair.administrate("PATCH", "/clients/reset-0", "{\"name\": \"last\"}")
        .done();
    until("every change has its entry", || {
        changed() == audited(&pair, "client_updated", "client_id")
    });
    let changed = changed();
    let log = pair.pair.end();
    assert_eq!(printed(&log, "client_updated", "client_id"), changed);
}

#[test]
fn changes_leave_their_entries_on_redb() {
    changes_leave_their_entries(&[]);
}

#[test]
fn changes_leave_their_entries_on_postgresql() {
    let database = database();
    changes_leave_their_entries(&[("TOKEN_SERVICE__STORE__URL", database.url())]);
}

#[test]
fn revocations_by_clients_leave_their_entries() {
    let pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let issue = |_| pair.token();
    let tokens: Vec<String> = (0..REQUESTS).map(issue).collect();
    let credentials = format!("{}\r\ncontent-type: {FORM}", USER_BOUND.basic());
    let port = pair.pair.ports().public;
    for token in &tokens {
        let body = form_body(&[("token", token)]);
        let connection = begin(port, "POST /auth/revoke", &credentials, &body);
        wire::reset(vec![connection]).unwrap();
    }
    let revoked = || -> BTreeSet<String> {
        let is_revoked = |token: &&String| {
            let reply = USER_BOUND.post(&lobby, "/auth/introspect", &[("token", token)]);
            reply.json()["active"] == false
        };
        let revoked = tokens.iter().filter(is_revoked);
        revoked
            .map(|token| text(&claims(token)["grant_id"]))
            .collect()
    };
    USER_BOUND
        .post(&lobby, "/auth/revoke", &[("token", &tokens[0])])
        .done();
    until("every revocation has its entry", || {
        revoked() == audited(&pair, "token_revoked", "grant_id")
    });
    let revoked = revoked();
    let log = pair.pair.end();
    assert_eq!(printed(&log, "token_revoked", "grant_id"), revoked);
}
