//! Standard output and standard error of the token service, with a reader that stalls.

use std::cell::RefCell;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tests::{Artifacts, Ports};

use crate::api::until;
use crate::support::{Load, USER_BOUND, get};

/// A token service whose output is not read.
struct Unread {
    service: Child,
    ports: Ports,
    _state: TempDir,
}

impl Unread {
    fn start() -> Self {
        let (artifacts, ports) = (Artifacts::find().unwrap(), Ports::free().unwrap());
        let state = TempDir::new().unwrap();
        let listen = |port: u16| format!("127.0.0.1:{port}");
        let service = Command::new(&artifacts.token_service)
            .current_dir(&artifacts.repository)
            .args(["serve", "--config", "demo/config.toml"])
            .envs(tests::state_in(state.path()))
            .env("TOKEN_SERVICE__LISTEN", listen(ports.public))
            .env("TOKEN_SERVICE__INTERNAL_LISTEN", listen(ports.internal))
            .env("TOKEN_SERVICE__DRAIN_FOR", "0s")
            .env("TOKEN_SERVICE_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            service,
            ports,
            _state: state,
        }
    }

    fn internal(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports.internal)
    }

    /// The value of a counter.
    fn counted(&self, name: &str) -> u64 {
        let metrics = get(&self.internal("/metrics"), &[]).body;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // The service may have ended.
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

/// Requests after which lines must have been dropped: each writes a line to each queue, and a queue holds some 8,000.
const MOST: u32 = 20_000;

#[test]
fn readers_that_stall_stop_neither_the_service_nor_its_end() {
    let mut unread = Unread::start();
    let ready = unread.internal("/readyz");
    until("the service is ready", || {
        tests::listens(unread.ports.internal) && get(&ready, &[]).status == 200
    });
    let service = format!("http://127.0.0.1:{}", unread.ports.public);
    let count = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&count);
    let load = Load::start(4, move || {
        let form = [("grant_type", "client_credentials")];
        let reply = USER_BOUND.token(&service, &form);
        assert!(matches!(reply.status, 200 | 400), "{}", reply.body);
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let answers = || count.load(Ordering::Relaxed);
    for stream in ["log", "audit"] {
        let name = format!("token_service_{stream}_lines_dropped_total");
        while unread.counted(&name) == 0 {
            let before = answers();
            assert!(before < MOST, "{name} is 0 after {before} requests");
            until("the service answers", || answers() > before);
        }
    }
    load.stop();
    assert_eq!(get(&ready, &[]).status, 200);
    let mut stop = Command::new("kill");
    stop.arg(unread.service.id().to_string());
    assert!(stop.status().unwrap().success());
    let service = RefCell::new(&mut unread.service);
    let ended = || service.borrow_mut().try_wait().unwrap();
    until("the service ends", || ended().is_some());
    assert!(ended().unwrap().success());
}
