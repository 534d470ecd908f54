//! The systemd units for machines without containers, and the rules for the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tests::{Artifacts, Process, free_port, listens, status_of};

use crate::support::file;

/// Highest exposure that `systemd-analyze security` may report, in tenths of its scale from 0 to 10. The rest is the
/// network.
const EXPOSURE: &str = "12";

#[track_caller]
fn passes(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// A program with a unit.
struct Packaged {
    name: &'static str,
    program: PathBuf,
}

impl Packaged {
    fn all() -> [Self; 2] {
        let artifacts = Artifacts::find().unwrap();
        let guard = artifacts.token_guard();
        [
            ("token-service", artifacts.token_service),
            ("token-guard", guard),
        ]
        .map(|(name, program)| Self { name, program })
    }

    fn unit(&self) -> String {
        self.read("service")
    }

    /// The unit of this kind.
    fn read(&self, kind: &str) -> String {
        file(&format!("packaging/systemd/{}.{kind}", self.name))
    }
}

#[test]
fn systemd_takes_the_units_and_finds_little_exposed() {
    for packaged in Packaged::all() {
        let folder = TempDir::new().unwrap();
        let installed = folder.path().join(format!("{}.service", packaged.name));
        // systemd checks that the program exists.
        let place = format!("/usr/bin/{}", packaged.name);
        let program = packaged.program.display().to_string();
        fs::write(&installed, packaged.unit().replace(&place, &program)).unwrap();
        let socket = folder.path().join(format!("{}.socket", packaged.name));
        fs::write(&socket, packaged.read("socket")).unwrap();
        passes(
            Command::new("systemd-analyze")
                .args(["verify", "--man=no"])
                .args([&installed, &socket]),
        );
        let mut security = Command::new("systemd-analyze");
        security.args(["security", "--offline=true", "--no-pager"]);
        passes(
            security
                .arg(format!("--threshold={EXPOSURE}"))
                .arg(&installed),
        );
    }
}

/// systemd gives up a service that fails five times in ten seconds, such as one whose disk is full, and its sockets with it.
#[test]
fn the_units_are_started_again_for_ever() {
    for packaged in Packaged::all() {
        let unit = packaged.unit();
        let (of_unit, of_service) = unit.split_once("\n[Service]\n").unwrap();
        assert!(of_unit.contains("\nStartLimitIntervalSec=0"), "{unit}");
        assert!(of_service.contains("\nRestart=on-failure\n"), "{unit}");
    }
}

/// Both units have the same restrictions, because neither program needs what the other must not do.
#[test]
fn the_units_confine_alike() {
    let [service, guard] = Packaged::all().map(|packaged| {
        let unit = packaged.unit();
        let (_, confinement) = unit.split_once("# No privileges").unwrap();
        let lines = confinement.lines().filter(|line| !line.starts_with('#'));
        lines.collect::<Vec<_>>().join("\n")
    });
    assert_eq!(service, guard);
}

/// With the variables that the units set, the programs read their configuration.
#[test]
fn the_units_set_variables_that_the_programs_know() {
    let repository = Artifacts::find().unwrap().repository;
    let [service, guard] = Packaged::all();
    let mut check = Command::new(&service.program);
    let config = repository.join("demo/config.toml");
    let unit = service.unit();
    let set = variables(&unit);
    assert_eq!(set.len(), 3);
    passes(check.envs(set).args(["check", "--config"]).arg(config));

    let credentials = repository
        .join("examples/token-guard")
        .display()
        .to_string();
    let unit = guard.unit().replace("%d", &credentials);
    let example = unit
        .lines()
        .filter_map(|line| line.strip_prefix("#   Environment="));
    let examples = example.map(|set| set.split_once('=').unwrap());
    let set: Vec<(&str, &str)> = variables(&unit)
        .into_iter()
        .chain(examples.filter(|(name, _)| *name != "TOKEN_GUARD_CA_FILE"))
        .collect();
    assert_eq!(set.len(), 5);
    passes(Command::new(&guard.program).envs(set).arg("--check"));
}

/// The variables that a unit sets.
fn variables(unit: &str) -> Vec<(&str, &str)> {
    let lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix("Environment="));
    lines.map(|set| set.split_once('=').unwrap()).collect()
}

/// A program that systemd's own tool starts with the sockets of two addresses, at the first connection. `arguments` come after
/// the program.
fn activated(log: &Path, ports: [u16; 2], program: &Path, arguments: &[&str]) -> Process {
    let mut command = Command::new("systemd-socket-activate");
    for port in ports {
        command.arg(format!("--listen=127.0.0.1:{port}"));
    }
    command.arg(program).args(arguments);
    Process::start("systemd-socket-activate", &command, log).unwrap()
}

/// Each packaged program, with the arguments to serve on two ports from an empty folder.
fn served(folder: &Path, [public, internal]: [u16; 2]) -> [(PathBuf, Vec<String>); 2] {
    let repository = Artifacts::find().unwrap().repository;
    let [service, guard] = Packaged::all();
    let config = folder.join("config.toml");
    let text = format!("listen = '127.0.0.1:{public}'\ninternal_listen = '127.0.0.1:{internal}'\n");
    fs::write(&config, text).unwrap();
    let guard_config = repository.join("examples/token-guard/token-guard.json");
    [
        (
            service.program,
            vec!["serve".to_owned(), format!("--config={}", config.display())],
        ),
        (
            guard.program,
            vec![
                format!("--config={}", guard_config.display()),
                format!("--listen=127.0.0.1:{public}"),
                format!("--internal-listen=127.0.0.1:{internal}"),
                "--cluster=token-service=http://127.0.0.1:9".to_owned(),
                "--cluster=token-service-internal=http://127.0.0.1:9".to_owned(),
            ],
        ),
    ]
}

/// `sd_listen_fds(3)`, with the sockets of systemd itself.
#[test]
fn the_programs_take_the_sockets_that_systemd_passes() {
    let folder = TempDir::new().unwrap();
    let ports = [free_port().unwrap(), free_port().unwrap()];
    for (program, arguments) in served(folder.path(), ports) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let log = folder.path().join("log");
        let mut running = activated(&log, ports, &program, &arguments);
        let healthz = format!("http://127.0.0.1:{}/healthz", ports[1]);
        let is_up = || status_of(&healthz).is_some();
        running.until("listening", is_up).unwrap();
        assert!(running.end().unwrap().contains("Parent"));
    }
}

/// A connection to a socket that no listener takes would wait forever.
#[test]
fn sockets_of_other_addresses_than_the_configuration_end_the_start() {
    let folder = TempDir::new().unwrap();
    let [public, internal, other] = [(); 3].map(|()| free_port().unwrap());
    for (program, arguments) in served(folder.path(), [public, internal]) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let log = folder.path().join("log");
        let mut running = activated(&log, [public, other], &program, &arguments);
        let is_ready = || {
            // The first connection starts the program.
            let _ = listens(public);
            false
        };
        let said = running.until("ready", is_ready).unwrap_err().to_string();
        for text in [
            "the passed sockets (LISTEN_FDS)",
            &format!("127.0.0.1:{other}"),
            &format!("listen=127.0.0.1:{internal}"),
        ] {
            assert!(said.contains(text), "{said}");
        }
    }
}

/// The socket units have the addresses that the programs listen at by default.
#[test]
fn the_socket_units_have_the_default_addresses() {
    let pages = ["docs/configuration.md", "docs/gateways.md"];
    let keys = [
        ["`listen`", "`internal_listen`"],
        ["`--listen`", "`--internal-listen`"],
    ];
    for ((packaged, page), keys) in Packaged::all().iter().zip(pages).zip(keys) {
        let (unit, page) = (packaged.read("socket"), file(page));
        let addresses = unit
            .lines()
            .filter_map(|line| line.strip_prefix("ListenStream="));
        let documented = keys.map(|key| {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| {key} |")));
            row.unwrap().split('`').nth(3).unwrap()
        });
        assert!(addresses.eq(documented), "{unit}");
    }
}

/// Real rules in a kernel, and real connections, in their own network.
#[test]
fn the_kernel_counts_the_connections_of_an_address() {
    let alone = ["--map-root-user", "--net"];
    let may = Command::new("unshare").args(alone).arg("true").output();
    if !may.unwrap().status.success() {
        eprintln!("NOT CHECKED: gatepass.nft. This container lacks CAP_SYS_ADMIN.");
        return;
    }
    let repository = Artifacts::find().unwrap().repository;
    passes(
        Command::new("unshare")
            .args(alone)
            .arg("python3")
            .arg(repository.join("tests/tools/nftables.py"))
            .arg(repository.join(".cache/nft"))
            .arg(repository.join("packaging/nftables/gatepass.nft")),
    );
}

/// docs/decide.md: images of the Dockerfile, and advisories that deny.toml lets pass, each with a statement for tools.
#[test]
fn the_facts_are_those_of_the_files() {
    let (facts, dockerfile) = (file("docs/decide.md"), file("Dockerfile"));
    let stages = dockerfile.split("\nFROM ").skip(1);
    let mut delivered = 0;
    for stage in stages.filter(|stage| !stage.contains("RUN ")) {
        let (base, rest) = stage.split_once(" AS ").unwrap();
        let name = rest.lines().next().unwrap();
        let user = rest.lines().find_map(|line| line.strip_prefix("USER "));
        let user = user.map_or("none: ".to_owned(), |user| format!("`{user}` |"));
        let row = format!("| `{name}` | `{base}` | {user}");
        assert!(facts.contains(&row), "{row}");
        delivered += 1;
    }
    assert_eq!(delivered, 6);
    let deny = file("deny.toml");
    let ignored = deny.split("{ id = \"").skip(1);
    let ignored: Vec<&str> = ignored
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let statements: serde_json::Value = file("packaging/gatepass.openvex.json").parse().unwrap();
    for statement in statements["statements"].as_array().unwrap() {
        let name = statement["vulnerability"]["name"].as_str().unwrap();
        assert!(ignored.contains(&name), "{name}");
    }
    for advisory in ignored {
        assert!(facts.contains(&format!("| {advisory} |")), "{advisory}");
        assert!(statements.to_string().contains(advisory), "{advisory}");
    }
}
