//! Starting and stopping.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::api::until;
use crate::support::{Load, OwnPair, USER_BOUND, get};

const FORM: [(&str, &str); 3] = [
    ("grant_type", "client_credentials"),
    ("user_id", "1879048402"),
    ("user_site", "https://us1.example.com"),
];

/// Requests straight to the service, so that nobody repeats them, by clients that look at its readiness as load
/// balancers do: whoever found it ready gets an answer.
#[test]
fn sigterm_drops_no_request() {
    let mut pair = OwnPair::start(&[("TOKEN_SERVICE__DRAIN_FOR", "3s")]);
    let service = format!("http://127.0.0.1:{}", pair.pair.ports().public);
    let ready = format!("{}/readyz", pair.pair.internal_url());
    let (answered, turned_away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let load = {
        let (answered, turned_away) = (Arc::clone(&answered), Arc::clone(&turned_away));
        Load::start(4, move || {
            if turned_away.load(Ordering::Relaxed) > 0 || get(&ready, &[]).status == 503 {
                turned_away.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
                return;
            }
            let token = USER_BOUND.token(&service, &FORM);
            assert_eq!(token.status, 200, "{}", token.body);
            answered.fetch_add(1, Ordering::Relaxed);
        })
    };
    until("the service is under load", || {
        answered.load(Ordering::Relaxed) > 20
    });
    pair.pair.stop_token_service();
    load.stop();
    assert!(
        turned_away.load(Ordering::Relaxed) > 0,
        "its end was announced"
    );
    let log = pair.pair.logs();
    assert!(
        log.contains("token_service::command::serve: stopped"),
        "{log}"
    );
}

#[test]
fn a_draining_service_is_not_ready_and_a_second_signal_stops_it_at_once() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__DRAIN_FOR", "10m")]);
    let ready = format!("{}/readyz", pair.pair.internal_url());
    assert_eq!(get(&ready, &[]).status, 200);
    pair.signal("TERM");
    until("it is not ready", || get(&ready, &[]).status == 503);
    let token = USER_BOUND.token(&pair.pair.lobby_url(), &FORM);
    assert_eq!(token.status, 200, "it serves on while it drains");
    pair.signal("TERM");
    until("it has stopped", || {
        pair.pair.logs().contains("stopping at once")
    });
}

/// Starts a second service with the state of `pair`; its exit code and what it says.
fn second(pair: &OwnPair, environment: &[(&str, String)]) -> (i32, String) {
    let repository = &pair.pair.artifacts().repository;
    let at = |name: &str| pair.state().join(name).display().to_string();
    let output = Command::new(&pair.pair.artifacts().token_service)
        .args(["serve", "--config"])
        .arg(repository.join("demo/config.toml"))
        .env(
            "TOKEN_SERVICE__STORE__URL",
            format!("redb:{}", at("store.redb")),
        )
        .env("TOKEN_SERVICE__ENCRYPTION_KEY_FILE", at("encryption-key"))
        .env("TOKEN_SERVICE__ADMIN_TOKEN_FILE", at("admin-token"))
        .env("TOKEN_SERVICE__LISTEN", "127.0.0.1:0")
        .env("TOKEN_SERVICE__INTERNAL_LISTEN", "127.0.0.1:0")
        .envs(environment.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), text)
}

#[test]
fn a_store_that_cannot_be_used_has_one_clear_message() {
    let pair = OwnPair::start(&[]);
    let (code, message) = second(&pair, &[]);
    assert_eq!(code, 1);
    assert!(
        message.contains("is in use by another process"),
        "{message}"
    );
    let text = pair.state().join("text.redb");
    std::fs::write(&text, "this is not a store").unwrap();
    let url = format!("redb:{}", text.display());
    let (code, message) = second(&pair, &[("TOKEN_SERVICE__STORE__URL", url)]);
    assert_eq!(code, 1);
    assert!(message.contains("is damaged or not a store"), "{message}");
    assert_eq!(
        std::fs::read_to_string(&text).unwrap(),
        "this is not a store"
    );
}
