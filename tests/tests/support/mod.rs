//! The pair that the tests use, and functions to send it requests.

mod assertion;
mod authenticator;
mod browser;
mod client;
mod collector;
mod command;
mod feed;
mod html;
mod http;
mod identity_provider;
mod legacy;
mod mail;
pub(crate) mod module;
mod steps;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};

use tempfile::TempDir;
use tests::tls::Identity;
use tests::{Artifacts, Pair, Ports, Setup, response};

pub(crate) use assertion::{Assertion, now};
pub(crate) use authenticator::{code_at, is_accepted, lasting_code, wrong_code};
pub(crate) use browser::{Browser, Form, answer, answered};
pub(crate) use client::{ADA, Client, INSTALLED, NON_INTERACTIVE, Pkce, USER_BOUND, WEB, post};
pub(crate) use collector::{Collector, Span};
pub(crate) use command::{Load, Outcome, install};
pub(crate) use feed::FeedService;
pub(crate) use html::tags;
pub(crate) use http::{PRIVATE_HOSTS, REBOUND_HOSTS, Reply, get, send, stat};
pub(crate) use identity_provider::{Company, Said, ScriptedProvider};
pub(crate) use legacy::{Instance, LEGACY, LEGACY_SECRET, exchange, logon};
pub(crate) use mail::{MailServer, Message};
pub(crate) use steps::{database, file};
pub(crate) use tests::browsing::form_body;
pub(crate) use tests::load::{CREDENTIALS, JWT_BEARER, basic};

/// A pair with its own state.
pub(crate) struct OwnPair {
    pub(crate) pair: Pair,
    state: TempDir,
}

/// Replacements, as a setup has them.
fn owned(changes: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
    changes.iter().map(owned).collect()
}

/// A copy of the demo's configuration with this text behind it.
fn lengthened(setup: &Setup, state: &Path, end: &str) -> PathBuf {
    let text = std::fs::read_to_string(setup.directory.join("demo/config.toml")).unwrap();
    let config = state.join("config.toml");
    std::fs::write(&config, text + end).unwrap();
    config
}

impl OwnPair {
    /// A pair with the demo's configuration and these changes.
    pub(crate) fn start(changes: &[(&str, &str)]) -> Self {
        Self::start_with(changes, false)
    }

    /// A pair with the demo's configuration and this text behind it, and with these replacements in `envoy.yaml`.
    pub(crate) fn with_configuration(end: &str, gateway: &[(&str, &str)]) -> Self {
        Self::start_setup(&[], |setup, state| {
            setup.gateway = owned(gateway);
            setup.config = Some(lengthened(setup, state, end));
        })
    }

    /// A pair with the demo's configuration and the entries of identity providers behind it. `entries` gets {lobby_url}.
    pub(crate) fn with_identity_providers(entries: impl FnOnce(&str) -> String) -> Self {
        Self::start_setup(&[], |setup, state| {
            let lobby = format!("http://127.0.0.1:{}", setup.ports.lobby);
            setup.config = Some(lengthened(setup, state, &entries(&lobby)));
        })
    }

    /// A pair and an early-access token service.
    pub(crate) fn with_early_access() -> Self {
        Self::start_with(&[], true)
    }

    /// A pair with these replacements in `envoy.yaml`.
    pub(crate) fn with_gateway(changes: &[(&str, &str)]) -> Self {
        Self::start_setup(&[], |setup, _| {
            setup.gateway = owned(changes);
        })
    }

    /// A pair that sends its traces to `collector`, with these changes.
    pub(crate) fn with_traces(collector: &Collector, changes: &[(&str, &str)]) -> Self {
        let port = collector.port();
        let endpoint = format!("http://127.0.0.1:{port}");
        let address = "port_value: 4318 } # OTLP_HOST OTLP_PORT";
        let traces = [("TOKEN_SERVICE__OTLP_ENDPOINT", endpoint.as_str())];
        Self::start_setup(&[&traces, changes].concat(), |setup, _| {
            setup.gateway = vec![
                ("#traces ".to_owned(), String::new()),
                (
                    address.to_owned(),
                    address.replace("4318", &port.to_string()),
                ),
            ];
        })
    }

    /// A pair with the listeners for mutual TLS, which have the certificate `server`. `ports`: of the lobby and the API through
    /// Envoy, and of the token service.
    pub(crate) fn with_mutual_tls(
        server: &Identity,
        ports: [u16; 3],
        changes: &[(&str, &str)],
        gateway: &[(&str, &str)],
    ) -> Self {
        let [lobby, api, service] = ports;
        let listen = format!("127.0.0.1:{service}");
        let url = format!("https://localhost:{lobby}");
        let mutual_tls = [
            ("TOKEN_SERVICE__MUTUAL_TLS__LISTEN", listen.as_str()),
            ("TOKEN_SERVICE__MUTUAL_TLS__URL", url.as_str()),
            ("TOKEN_SERVICE__MUTUAL_TLS__GATEWAYS", "127.0.0.1"),
        ];
        Self::start_setup(&[&mutual_tls, changes].concat(), |setup, state| {
            let pem = state.join("server.pem").display().to_string();
            std::fs::write(&pem, &server.pem).unwrap();
            setup.gateway = owned(&[
                ("#mtls ", ""),
                (
                    r#""origins": ["#,
                    &format!(r#""origins": ["https://localhost:{api}", "#),
                ),
                ("filename: server.pem", &format!("filename: {pem}")),
                ("filename: server.key", &format!("filename: {pem}")),
                ("port_value: 8085", &format!("port_value: {lobby}")),
                ("port_value: 8086", &format!("port_value: {api}")),
                ("port_value: 9086", &format!("port_value: {service}")),
            ]);
            setup.gateway.extend(owned(gateway));
        })
    }

    /// Two token services behind one gateway, on the database at `store_url`.
    pub(crate) fn replicated(store_url: &str) -> Self {
        Self::replicated_with(store_url, "")
    }

    /// Likewise, with this text behind the demo's configuration.
    pub(crate) fn replicated_with(store_url: &str, end: &str) -> Self {
        let changes = [
            ("TOKEN_SERVICE__STORE__URL", store_url),
            // A client may repeat a request after a replica has died, at any later time. That must not count as theft.
            ("TOKEN_SERVICE__LIFETIMES__REFRESH_REUSE_GRACE", "5m"),
            ("TOKEN_SERVICE__DPOP__SINGLE_USE", "store"),
            // A code outlasts restarts of both services, on a busy machine too.
            ("TOKEN_SERVICE__LIFETIMES__AUTHORIZATION_CODE", "10m"),
        ];
        Self::start_setup(&changes, |setup, state| {
            setup.replica = true;
            setup.config = Some(lengthened(setup, state, end));
        })
    }

    /// A pair that keeps the sockets of its token service open over restarts.
    pub(crate) fn holding_sockets(changes: &[(&str, &str)]) -> Self {
        Self::start_setup(changes, |setup, _| {
            setup.holds_sockets = true;
            // A restart may take longer, on a busy machine.
            setup.gateway = owned(&[(" timeout: 10s", " timeout: 120s")]);
        })
    }

    /// A pair whose filter crashes on a request with a header of [`module::LARGE`] bytes. `feed` is that of
    /// [`OwnPair::with_feed`].
    pub(crate) fn with_crashing_filter(feed: Option<(&FeedService, u16)>) -> Self {
        Self::start_setup(&[], |setup, state| {
            let filter = state.join("crashing.wasm");
            module::write_with_little_memory(&filter);
            setup.filter = Some(filter);
            let line = "stat_prefix: api\n                #traces";
            let larger = line.replace('\n', "\n                max_request_headers_kb: 8192\n");
            setup.gateway = owned(&[(line, &larger)]);
            if let Some((feed, workers)) = feed {
                setup.feed = Some(feed.port());
                setup.workers = workers;
            }
        })
    }

    /// A gateway with this feed and number of workers.
    pub(crate) fn with_feed(feed: &FeedService, workers: u16) -> Self {
        Self::start_setup(&[], |setup, _| {
            setup.feed = Some(feed.port());
            setup.workers = workers;
        })
    }

    fn start_with(changes: &[(&str, &str)], early_access: bool) -> Self {
        Self::start_setup(changes, |setup, state| {
            let config = setup.directory.join("demo/early-access.toml");
            let mut environment = state_in(&state.join("early-access"));
            environment.push(registrations(state));
            setup.early_access = early_access.then_some((config, environment));
        })
    }

    fn start_setup(changes: &[(&str, &str)], arrange: impl FnOnce(&mut Setup, &Path)) -> Self {
        let state = TempDir::new().unwrap();
        let repository = Artifacts::find().unwrap().repository;
        write_registrations(&repository, state.path());
        let mut environment = state_in(state.path());
        environment.push(registrations(state.path()));
        environment.extend(owned(changes));
        let mut setup = Setup::of_demo(Ports::free().unwrap(), repository, environment);
        arrange(&mut setup, state.path());
        let pair = Pair::start(setup).unwrap();
        Self { pair, state }
    }

    /// Folder of the state.
    pub(crate) fn state(&self) -> &Path {
        self.state.path()
    }

    /// Writes a file in the folder of the state. Returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.state().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Sends a signal to the token service.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pair.token_service_pid().unwrap(), name);
    }

    /// Stops and starts the token service.
    pub(crate) fn restart(&mut self) {
        self.pair.stop_token_service();
        self.pair.start_token_service().unwrap();
    }

    /// Path of the demo's configuration.
    pub(crate) fn config(&self) -> String {
        let repository = &self.pair.artifacts().repository;
        repository.join("demo/config.toml").display().to_string()
    }

    /// Path of the demo's registrations, as the services read them at their start.
    pub(crate) fn registrations(&self) -> String {
        registrations(self.state.path()).1
    }

    /// Lets commands define clients of the registrations file (D-27).
    pub(crate) fn release(&self, clients: &[&Client]) {
        for client in clients {
            self.done(&format!("release client {}", client.id));
        }
    }

    /// Registers a client of this type for `projects`, with these members and a new id.
    pub(crate) fn register(&self, kind: &str, mut members: serde_json::Value) -> Client {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let id = format!("{kind}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        members["client_id"] = id.as_str().into();
        members["type"] = kind.into();
        members["scopes"] = serde_json::json!(["projects"]);
        let made = self.change("POST", "/clients", &members.to_string()).json();
        let text = |value: &serde_json::Value| value.as_str().map(|text| &*text.to_owned().leak());
        Client {
            id: id.leak(),
            secret: text(&made["client_secret"]),
            redirect_uri: text(&members["redirect_uris"][0]).unwrap_or_default(),
        }
    }

    /// {lobby_url}.
    pub(crate) fn lobby(&self) -> String {
        self.pair.lobby_url()
    }

    /// A token of the user-bound client.
    pub(crate) fn token(&self) -> String {
        let reply = USER_BOUND.token(&self.lobby(), &CREDENTIALS);
        reply.text("access_token")
    }

    /// The status of the API for this token.
    pub(crate) fn call(&self, token: &str) -> u16 {
        call(&self.pair.api_url(), token).status
    }

    /// Waits until the gateway refuses this token.
    #[track_caller]
    pub(crate) fn until_refused(&self, token: &str) {
        crate::api::until("the gateway knows", || self.call(token) == 401);
    }

    /// The output of a command that succeeds. `words`: its arguments, separated by spaces.
    #[track_caller]
    pub(crate) fn done(&self, words: &str) -> String {
        self.run(words).done()
    }

    /// The errors of a command that ends with the exit code 1.
    #[track_caller]
    pub(crate) fn failed(&self, words: &str) -> String {
        self.run(words).failed(1)
    }

    /// Runs a command. `words`: its arguments, separated by spaces.
    pub(crate) fn run(&self, words: &str) -> Outcome {
        self.operate(&words.split(' ').collect::<Vec<_>>(), "")
    }

    /// The JSON that a command prints.
    #[track_caller]
    pub(crate) fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.done(&format!("{words} --json"))).unwrap()
    }

    /// A request to the administration that must succeed.
    #[track_caller]
    pub(crate) fn change(&self, method: &str, path: &str, body: &str) -> Reply {
        let reply = self.administrate(method, path, body);
        assert_eq!(reply.status / 100, 2, "{}", reply.body);
        reply
    }

    /// Runs the program with these arguments as an operator of this service, with `input` on standard input.
    pub(crate) fn operate(&self, arguments: &[&str], input: &str) -> Outcome {
        command::run(&self.pair, self.state.path(), arguments, input)
    }

    /// The environment of an operator.
    pub(crate) fn environment(&self) -> [(&'static str, String); 2] {
        command::environment(&self.pair, self.state.path())
    }

    /// The admin token of the token service.
    pub(crate) fn admin_token(&self) -> String {
        admin_token(self.state.path())
    }

    /// A request to the administration of the early-access service, with its admin token.
    pub(crate) fn administrate_early_access(&self, method: &str, path: &str, body: &str) -> Reply {
        let url = format!("http://127.0.0.1:{}", self.pair.ports().internal_ea);
        let state = self.state.path().join("early-access");
        administrate(&state, &url, method, path, body)
    }

    /// A request to the administration, with the admin token.
    pub(crate) fn administrate(&self, method: &str, path: &str, body: &str) -> Reply {
        administrate(
            self.state.path(),
            &self.pair.internal_url(),
            method,
            path,
            body,
        )
    }
}

fn administrate(state: &Path, internal_url: &str, method: &str, path: &str, body: &str) -> Reply {
    let token = admin_token(state);
    let url = format!("{internal_url}/admin{path}");
    let headers = [("authorization", &*format!("Bearer {token}"))];
    send(method, &url, &headers, body)
}

fn admin_token(state: &Path) -> String {
    let text = std::fs::read_to_string(state.join("admin-token")).unwrap();
    text.trim().to_owned()
}

/// Writes the demo's registrations to the folder `state`, with hashes in place of the passwords: hashing them takes 0.3 seconds
/// of processor time at each start.
fn write_registrations(repository: &Path, state: &Path) {
    const HASHES: [(&str, &str); 4] = [
        (
            "ada",
            "ctBR5uQzaXcOkc8y81QYwg$lFJVpA98fHY1RfP8qaHLUSnlLU7lr8hpOYQBlGjCCqc",
        ),
        (
            "grace",
            "VdP2r9IRtfEFShfYiQNG6g$dZIF52JlUAO2xG9CWooDA86j2bsvdS0ZNjkwsSh+2vQ",
        ),
        (
            "joan",
            "CBcbpG4QDeBxnvdgZCrWlw$wCCAM7qknShnF2ByKLL3ZQVqJvmNEl+fW5P2Q8XhPP4",
        ),
        (
            "mary",
            "7U5GdpXMEz2FR+Lq+Tg3cQ$n/+9+j6wgFsplagDpHKbszCRPH7/NCcc37kk1Pkmm50",
        ),
    ];
    let mut text = tests::demo_registrations(repository).unwrap();
    for (name, hash) in HASHES {
        text = text.replace(
            &format!("password = \"demo-password-of-{name}\""),
            &format!("password_hash = \"$argon2id$v=19$m=19456,t=2,p=1${hash}\""),
        );
    }
    assert!(!text.contains("password = "), "a password without its hash");
    std::fs::write(state.join("registrations.toml"), text).unwrap();
}

/// The setting for what [`write_registrations`] has written.
fn registrations(state: &Path) -> (String, String) {
    let file = state.join("registrations.toml");
    tests::setting(("REGISTRATIONS", file.display().to_string()))
}

fn state_in(folder: &Path) -> Vec<(String, String)> {
    let mut environment = tests::state_in(folder);
    // Tests that stop a service wait until it has ended.
    environment.push(tests::setting(("DRAIN_FOR", "0s")));
    environment
}

/// The pair for all tests that neither stop it nor change the demo's clients and users, one for each form of the filter. It ends
/// with the test binary.
pub(crate) fn shared() -> &'static OwnPair {
    static WASM: LazyLock<OwnPair> = LazyLock::new(|| OwnPair::start_with(&[], true));
    static NATIVE: LazyLock<OwnPair> = LazyLock::new(|| OwnPair::start_with(&[], true));
    match tests::Form::chosen().unwrap() {
        tests::Form::Wasm => &WASM,
        tests::Form::Native => &NATIVE,
    }
}

/// The processes of [`shared`].
pub(crate) fn pair() -> &'static Pair {
    &shared().pair
}

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, name: &str) {
    let status = std::process::Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// A server that answers no request until the sender is dropped, and each with `body` from then on. Returns its port.
pub(crate) fn late(body: String) -> (u16, Sender<()>) {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let port = tests::serve("127.0.0.1", 0, move |_| {
        // Nothing is sent. One request waits here, and the others for the lock.
        let _dropped = receiver.lock().unwrap().recv();
        response("200 OK", "", &body)
    });
    (port.unwrap(), sender)
}

/// Calls the projects listing of the API at this URL.
pub(crate) fn call(api: &str, token: &str) -> Reply {
    let authorization = format!("Bearer {token}");
    get(
        &format!("{api}/api/projects"),
        &[("authorization", &authorization)],
    )
}

/// {lobby_url} of the shared pair.
pub(crate) fn lobby() -> String {
    pair().lobby_url()
}

/// {lobby_ea_url} of the shared pair.
pub(crate) fn lobby_ea() -> String {
    pair().lobby_ea_url()
}

/// {api_url} of the shared pair.
pub(crate) fn api() -> String {
    pair().api_url()
}
