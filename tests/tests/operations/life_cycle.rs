//! Starting and stopping.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tests::Artifacts;
use tests::visitor::Visitor;

use crate::api::until;
use crate::support::{
    Assertion, CREDENTIALS, Load, NON_INTERACTIVE, OwnPair, Reply, USER_BOUND, get, send,
};

/// Requests straight to the service, without a gateway that would repeat them. The clients check readiness as load
/// balancers do. A client that found the service ready gets a response.
#[test]
fn sigterm_drops_no_request_and_a_second_signal_stops_the_service_at_once() {
    let pair = OwnPair::start(&[("TOKEN_SERVICE__DRAIN_FOR", "10m")]);
    let service = format!("http://127.0.0.1:{}", pair.pair.ports().public);
    let ready = format!("{}/readyz", pair.pair.internal_url());
    let (answered, turned_away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let load = {
        let (answered, turned_away) = (Arc::clone(&answered), Arc::clone(&turned_away));
        let ready = ready.clone();
        Load::start(4, move || {
            if turned_away.load(Ordering::Relaxed) > 0 || get(&ready, &[]).status == 503 {
                turned_away.fetch_add(1, Ordering::Relaxed);
                tests::pace();
                return;
            }
            USER_BOUND.token(&service, &CREDENTIALS).done();
            answered.fetch_add(1, Ordering::Relaxed);
        })
    };
    until("the service is under load", || {
        answered.load(Ordering::Relaxed) > 20
    });
    pair.signal("TERM");
    until("its end is announced", || {
        turned_away.load(Ordering::Relaxed) > 0
    });
    load.stop();
    let reason = get(&ready, &[]).json();
    assert_eq!(reason["reason"], "draining");
    let token = USER_BOUND.token(&pair.pair.lobby_url(), &CREDENTIALS);
    assert_eq!(token.status, 200, "it serves on while it drains");
    pair.signal("TERM");
    pair.pair.log().until_it_says("stopping at once").unwrap();
}

/// Of Linux.
const O_NONBLOCK: i32 = 0o4000;

/// A container has no other process 1, and the kernel drops signals that process 1 does not handle. Both programs wait for their
/// configuration, a named pipe that nobody writes.
#[test]
fn sigterm_ends_a_start_also_of_process_1_of_a_container() {
    let alone = ["--map-root-user", "--pid", "--fork", "--kill-child"];
    let may = Command::new("unshare").args(alone).arg("true").output();
    if !may.unwrap().status.success() {
        eprintln!("NOT CHECKED: SIGTERM to process 1. This container lacks CAP_SYS_ADMIN.");
        return;
    }
    let artifacts = Artifacts::find().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("config");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for (program, arguments) in [
        (artifacts.token_service.clone(), &["serve"][..]),
        (artifacts.token_guard(), &[]),
    ] {
        let mut outer = Command::new("unshare");
        let outer = outer.args(alone).arg(&program).args(arguments);
        let mut outer = outer.arg("--config").arg(&pipe).spawn().unwrap();
        // A pipe opens for writing as soon as the program reads, and the program waits as long as the pipe is open.
        let mut writing = File::options();
        writing.write(true).custom_flags(O_NONBLOCK);
        let writer = OnceCell::new();
        until("the program reads its configuration", || {
            writing
                .open(&pipe)
                .is_ok_and(|open| writer.set(open).is_ok())
        });
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let inner = std::fs::read_to_string(children).unwrap();
        let sent = Command::new("kill").args(["-TERM", inner.trim()]).status();
        assert!(sent.unwrap().success());
        let status = outer.wait().unwrap();
        assert_eq!(status.code(), Some(128 + 15), "{}", program.display());
    }
}

/// Starts a second service with the state of `pair` and the demo's configuration. Returns its exit code and its output.
fn second(pair: &OwnPair, environment: &[(&str, String)]) -> (i32, String) {
    let config = pair.pair.artifacts().repository.join("demo/config.toml");
    second_with(pair, Some(&config), environment)
}

/// Like [`second`], with another configuration file.
fn second_with(
    pair: &OwnPair,
    config: Option<&Path>,
    environment: &[(&str, String)],
) -> (i32, String) {
    let output = Command::new(&pair.pair.artifacts().token_service)
        .arg("serve")
        .args(config.map(|config| format!("--config={}", config.display())))
        .envs(tests::state_in(pair.state()))
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
fn a_store_that_cannot_be_used_is_named_with_the_cause() {
    let pair = OwnPair::start(&[]);
    let text = pair.state().join("text.redb");
    std::fs::write(&text, "this is not a store").unwrap();
    let text_url = format!("redb:{}", text.display());
    for (url, cause) in [
        ("", "is in use by another process"),
        (&text_url, "is damaged or not a store"),
        // Nobody can write there, not even root.
        (
            "redb:/proc/token-service.redb",
            "the store /proc/token-service.redb cannot be opened",
        ),
        (
            "postgres://somebody:hunter2@127.0.0.1:1/tokens",
            "127.0.0.1:1, database tokens",
        ),
        (
            "postgres://somebody:hunter2@127.0.0.1:1/tokens",
            "Connection refused",
        ),
        (
            "postgres://a@192.0.2.1:1/b?sslmode=disable&connect_timeout=1",
            "without TLS to 192.0.2.1:1, database b",
        ),
    ] {
        let variable = [("TOKEN_SERVICE__STORE__URL", url.to_owned())];
        let (code, message) = second(&pair, if url.is_empty() { &[] } else { &variable });
        assert_eq!(code, 1);
        assert!(message.contains(cause), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    assert_eq!(
        std::fs::read_to_string(&text).unwrap(),
        "this is not a store"
    );
}

/// True for a line of the log: in JSON, or with time and level.
fn is_of_log(line: &str, is_json: bool) -> bool {
    if is_json {
        return serde_json::from_str(line).is_ok_and(|line: Value| line["level"].is_string());
    }
    let mut words = line.split_whitespace();
    let (time, level) = (words.next(), words.next());
    time.is_some_and(|time| time.starts_with("20") && time.ends_with('Z'))
        && matches!(level, Some("ERROR" | "WARN" | "INFO"))
}

#[test]
fn the_reason_of_an_end_is_a_line_of_the_log() {
    let pair = OwnPair::start(&[]);
    let used = "is in use by another process";
    let demo = pair.pair.artifacts().repository.join("demo/config.toml");
    for format in ["text", "json"] {
        let malformed = format!("log_format = \"{format}\"\nnonsense = 1\n");
        let malformed = PathBuf::from(pair.write("malformed.toml", malformed));
        let variable = ("TOKEN_SERVICE__LOG_FORMAT", format);
        for (config, environment, code, reason) in [
            (Some(&demo), vec![variable], 1, used),
            (None, vec![variable], 1, used),
            (Some(&malformed), vec![], 64, "nonsense: unknown key"),
            (
                Some(&demo),
                vec![variable, ("TOKEN_SERVICE__DRAIN_FOR", "soon")],
                64,
                "TOKEN_SERVICE__DRAIN_FOR: soon",
            ),
            (
                Some(&demo),
                vec![variable, ("TOKEN_SERVICE_LOG", "off")],
                1,
                used,
            ),
            (
                Some(&demo),
                vec![variable, ("TOKEN_SERVICE_LOG", "a=b=c")],
                1,
                "TOKEN_SERVICE_LOG",
            ),
        ] {
            let environment: Vec<(&str, String)> = environment
                .into_iter()
                .map(|(name, value)| (name, value.to_owned()))
                .collect();
            let config = config.map(std::path::PathBuf::as_path);
            let (found, log) = second_with(&pair, config, &environment);
            assert_eq!(found, code, "{log}");
            for line in log.lines() {
                assert!(is_of_log(line, format == "json"), "{line} in {log}");
            }
            let last = log.lines().last().unwrap();
            assert!(last.contains(reason) && last.contains("ERROR"), "{log}");
            let defaults = log.contains("DEVELOPMENT DEFAULTS");
            assert_eq!(defaults, config.is_none(), "{log}");
        }
    }
}

/// A service on a disk that accepts at most `blocks` blocks of 512 bytes for each file.
struct OnAFullDisk {
    process: std::process::Child,
    public: String,
    internal: String,
}

impl OnAFullDisk {
    fn start(pair: &OwnPair, store: &std::path::Path, blocks: &str) -> Self {
        let ports = tests::Ports::free().unwrap();
        let at = |name: &str| pair.state().join(name).display().to_string();
        let log = std::fs::File::create(pair.state().join("full.log")).unwrap();
        let process = Command::new("sh")
            // With the signal ignored, a write beyond the limit fails as on a full disk.
            .args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"", blocks])
            .arg(&pair.pair.artifacts().token_service)
            .args(["serve", "--config"])
            .arg(pair.pair.artifacts().repository.join("demo/config.toml"))
            .env(
                "TOKEN_SERVICE__STORE__URL",
                format!("redb:{}", store.display()),
            )
            .env(
                "TOKEN_SERVICE__ENCRYPTION_KEY_FILE",
                at("full-encryption-key"),
            )
            .env("TOKEN_SERVICE__ADMIN_TOKEN_FILE", at("full-admin-token"))
            .env("TOKEN_SERVICE__AUDIT__STANDARD_OUTPUT", "false")
            .env(
                "TOKEN_SERVICE__LISTEN",
                format!("127.0.0.1:{}", ports.public),
            )
            .env(
                "TOKEN_SERVICE__INTERNAL_LISTEN",
                format!("127.0.0.1:{}", ports.internal),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let started = Self {
            process,
            public: format!("http://127.0.0.1:{}", ports.public),
            internal: format!("http://127.0.0.1:{}", ports.internal),
        };
        until("it is ready", || started.ready() == Some(200));
        started
    }

    fn ready(&self) -> Option<u16> {
        let answer = Visitor::default().get(&format!("{}/readyz", self.internal), &[]);
        Some(answer.ok()?.status)
    }
}

impl Drop for OnAFullDisk {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The service claims one `jti` after the other, each durably, until the disk is full. Then the client gets an error,
/// `/readyz` is 503, and no acknowledged claim is lost.
#[test]
fn a_full_disk_is_an_error_to_the_client_and_loses_nothing() {
    let pair = OwnPair::start(&[]);
    let store = pair.state().join("full.redb");
    let exchange = |service: &OnAFullDisk, assertion: &str| -> Reply {
        NON_INTERACTIVE.assert(&service.public, assertion, &[])
    };
    drop(OnAFullDisk::start(&pair, &store, "unlimited"));
    let size = std::fs::metadata(&store).unwrap().len();
    // The existing file fills the disk.
    let full = OnAFullDisk::start(&pair, &store, &(size / 512).to_string());
    // Between two claims, a client whose row takes the room of dozens of claims.
    let token = std::fs::read_to_string(pair.state().join("full-admin-token")).unwrap();
    let authorization = format!("Bearer {}", token.trim());
    let fill = |number: usize| {
        let uri = |n: usize| format!("https://app.example.com/{n}{}", "x".repeat(900));
        let client = json!({
            "client_id": format!("large-{number}"), "type": "web_server", "scopes": ["projects"],
            "redirect_uris": (0..8).map(uri).collect::<Vec<_>>(),
        });
        let url = format!("{}/admin/clients", full.internal);
        let headers = [("authorization", &*authorization)];
        let made = send("POST", &url, &headers, client.to_string());
        assert!(matches!(made.status, 201 | 500 | 503), "{}", made.body);
    };
    let mut acknowledged = Vec::new();
    let refused = loop {
        fill(acknowledged.len());
        let assertion = Assertion::of("ada@example.com").sign();
        let reply = exchange(&full, &assertion);
        if reply.status != 200 {
            break reply;
        }
        acknowledged.push(assertion);
        assert!(acknowledged.len() < 2_000, "the disk never fills");
    };
    assert!(matches!(refused.status, 500 | 503), "{}", refused.body);
    assert!(!refused.text("error_description").is_empty());
    for _ in 0..30 {
        exchange(&full, &Assertion::of("ada@example.com").sign());
    }
    // A separate thread writes the lines: one for each cause, and not one for each request.
    let failures = || {
        let log = std::fs::read_to_string(pair.state().join("full.log")).unwrap();
        log.matches("a transaction of the store failed").count()
    };
    until("the log names the failure", || failures() > 0);
    drop(full);
    assert!(failures() < 5, "{}", failures());
    let mended = OnAFullDisk::start(&pair, &store, "unlimited");
    for assertion in &acknowledged {
        exchange(&mended, assertion).assert_error(400, "invalid_grant");
    }
    assert_eq!(
        exchange(&mended, &Assertion::of("ada@example.com").sign()).status,
        200
    );
}

#[test]
fn an_address_that_is_taken_is_named_with_its_key() {
    let pair = OwnPair::start(&[]);
    let ports = pair.pair.ports();
    for (name, key, port) in [
        ("TOKEN_SERVICE__LISTEN", "listen", ports.public),
        (
            "TOKEN_SERVICE__INTERNAL_LISTEN",
            "internal_listen",
            ports.internal,
        ),
    ] {
        let address = format!("127.0.0.1:{port}");
        let own = |file: &str| {
            pair.state()
                .join(format!("{key}-{file}"))
                .display()
                .to_string()
        };
        let (code, message) = second(
            &pair,
            &[
                (
                    "TOKEN_SERVICE__STORE__URL",
                    format!("redb:{}", own("store")),
                ),
                ("TOKEN_SERVICE__ENCRYPTION_KEY_FILE", own("encryption-key")),
                (name, address.clone()),
            ],
        );
        assert_eq!(code, 1, "{message}");
        for part in [
            format!("cannot listen on {address}: Address already in use"),
            format!("as `{key}` ({name})"),
        ] {
            assert!(message.contains(&part), "{part} is not in {message}");
        }
    }
}
