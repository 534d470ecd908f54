//! What is installed on machines without containers.

use std::fs;
use std::process::Command;

use tests::Artifacts;

const UNIT: &str = "packaging/systemd/token-service.service";

/// The most that `systemd-analyze security` may find exposed, in tenths of its scale from 0 to 10. What is left is the
/// network.
const EXPOSURE: &str = "12";

#[track_caller]
fn passes(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn systemd_takes_the_unit_and_finds_little_exposed() {
    let artifacts = Artifacts::find().unwrap();
    let unit = fs::read_to_string(artifacts.repository.join(UNIT)).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let installed = folder.path().join("token-service.service");
    // systemd looks whether the program is there.
    let program = artifacts.token_service.display().to_string();
    fs::write(&installed, unit.replace("/usr/bin/token-service", &program)).unwrap();
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

/// With the variables that the unit sets, the program reads its configuration.
#[test]
fn the_unit_sets_variables_that_the_token_service_knows() {
    let artifacts = Artifacts::find().unwrap();
    let unit = fs::read_to_string(artifacts.repository.join(UNIT)).unwrap();
    let variables = unit
        .lines()
        .filter_map(|line| line.strip_prefix("Environment="));
    let variables: Vec<(&str, &str)> = variables.map(|set| set.split_once('=').unwrap()).collect();
    assert_eq!(variables.len(), 3);
    let config = artifacts.repository.join("demo/config.toml");
    let mut check = Command::new(&artifacts.token_service);
    passes(
        check
            .envs(variables)
            .args(["check", "--config"])
            .arg(config),
    );
}
