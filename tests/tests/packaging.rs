//! The systemd units for machines without containers, and the rules for the kernel.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tests::Artifacts;

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
        let repository = Artifacts::find().unwrap().repository;
        let folder = repository.join("packaging/systemd");
        fs::read_to_string(folder.join(format!("{}.service", self.name))).unwrap()
    }
}

#[test]
fn systemd_takes_the_units_and_finds_little_exposed() {
    for packaged in Packaged::all() {
        let folder = tempfile::TempDir::new().unwrap();
        let installed = folder.path().join(format!("{}.service", packaged.name));
        // systemd checks that the program exists.
        let place = format!("/usr/bin/{}", packaged.name);
        let program = packaged.program.display().to_string();
        fs::write(&installed, packaged.unit().replace(&place, &program)).unwrap();
        passes(
            Command::new("systemd-analyze")
                .args(["verify", "--man=no"])
                .arg(&installed),
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

    let credentials = repository.join("gateways").display().to_string();
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

/// Real rules in a kernel, and real connections, in a network of their own.
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

/// docs/facts.md: images of the Dockerfile, and advisories that deny.toml lets pass, each with a statement for tools.
#[test]
fn the_facts_are_those_of_the_files() {
    let repository = Artifacts::find().unwrap().repository;
    let read = |path: &str| fs::read_to_string(repository.join(path)).unwrap();
    let (facts, dockerfile) = (read("docs/facts.md"), read("Dockerfile"));
    let stages = dockerfile.split("\nFROM ").skip(1);
    let mut delivered = 0;
    for stage in stages.filter(|stage| !stage.contains("cargo")) {
        let (base, rest) = stage.split_once(" AS ").unwrap();
        let name = rest.lines().next().unwrap();
        let user = rest.lines().find_map(|line| line.strip_prefix("USER "));
        let user = user.map_or("none: ".to_owned(), |user| format!("`{user}` |"));
        let row = format!("| `{name}` | `{base}` | {user}");
        assert!(facts.contains(&row), "{row}");
        delivered += 1;
    }
    assert_eq!(delivered, 5);
    let deny = read("deny.toml");
    let ignored = deny.split("{ id = \"").skip(1);
    let ignored: Vec<&str> = ignored
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let statements: serde_json::Value = read("packaging/gatepass.openvex.json").parse().unwrap();
    for statement in statements["statements"].as_array().unwrap() {
        let name = statement["vulnerability"]["name"].as_str().unwrap();
        assert!(ignored.contains(&name), "{name}");
    }
    for advisory in ignored {
        assert!(facts.contains(&format!("| {advisory} |")), "{advisory}");
        assert!(statements.to_string().contains(advisory), "{advisory}");
    }
}
