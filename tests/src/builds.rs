//! Checks that CI runs what the project names: each selection of packages, features and target that a command of cargo in the
//! Makefile, the Dockerfile, a workflow, a script or a page builds, and each target of the Makefile.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::documents::{ROOT, documents};

/// What CI builds, and the command of CI that builds it.
const BUILDS: [(&str, &str); 16] = [
    (
        "build --profile demo --no-default-features --package token-service --package gatepass-tests",
        "first-run.sh",
    ),
    (
        "build --profile demo --package gatepass-filter --target wasm32-wasip1",
        "first-run.sh",
    ),
    ("build --workspace", "make test"),
    ("build-filter", "make test"),
    (
        "clippy --package gatepass-filter --target wasm32-wasip1",
        "make test",
    ),
    ("clippy --workspace --all-targets", "make test"),
    ("test --workspace", "make test"),
    ("bench $(RELEASED)", "make smoke"),
    ("build --profile $(MEASURED) $(RELEASED)", "make smoke"),
    ("build --profile $(OPTIMIZED) $(NATIVE)", "make smoke"),
    ("fuzz list", "make smoke"),
    ("fuzz run", "make smoke"),
    ("install --debug cargo-fuzz", "make smoke"),
    ("install --debug cargo-deny", "make audit"),
    (
        "build --package token-service --package token-guard",
        "make test-compose",
    ),
    (
        "build --profile native --package gatepass-filter-native",
        "make test-compose",
    ),
];

/// Commands that CI does not run.
const NOT_BUILT: [(&str, &str); 2] = [
    ("install cargo-cyclonedx", "runs at a release"),
    (
        "build --profile demo --package gatepass-filter-native",
        "the containers build the module, with other optimizations",
    ),
];

/// Targets that CI does not run.
const NOT_RUN: [(&str, &str); 8] = [
    ("help", "prints the targets"),
    ("fmt", "`lint` checks the format"),
    ("build-native", "the containers build the module"),
    ("check", "a part of `lint` and `test`"),
    ("test-repeat", "a part of `test`, ten times"),
    ("faults", "`test` kills the token service less often"),
    ("restarts", "`test` restarts the token service less often"),
    (
        "time-first-minute",
        "CI runs first-run.sh in its own fresh clone",
    ),
];

fn read(file: impl AsRef<Path>) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

/// The commands of cargo in a text, without what selects tests and programs of the same build.
fn commands(text: &str) -> BTreeSet<String> {
    const BUILDING: [&str; 8] = [
        "build",
        "build-filter",
        "run",
        "test",
        "bench",
        "clippy",
        "fuzz",
        "install",
    ];
    let text = text.replace("\\\n", " ").replace("\n//!", " ");
    let after = text.split("cargo ").skip(1);
    let commands = after.filter_map(|rest| {
        let ends = ["\n", "`", ";", "|", ");", "&&", " -- ", " \"$", "."];
        let end = ends.iter().filter_map(|end| rest.find(end)).min();
        let mut words = rest[..end.unwrap_or(rest.len())].split_whitespace();
        let command = words.next().filter(|word| BUILDING.contains(word))?;
        let mut kept = vec![command];
        while let Some(word) = words.next() {
            match word {
                "--locked" | "--quiet" | "--release" | "--lib" | "--bins" => {}
                "--bin" | "--bench" | "--test" => _ = words.next(),
                // The same code is compiled, but for the demo, which leaves features out.
                "--profile" if command == "bench" => _ = words.next(),
                "--sanitizer" | "--version" | "--root" => break,
                word => kept.push(word),
            }
        }
        // In prose, cargo's commands stand alone.
        (kept.len() > 1 || command == "build-filter").then(|| kept.join(" "))
    });
    commands.collect()
}

#[test]
fn ci_builds_what_any_command_builds() {
    let mut named: BTreeSet<String> = [".ci/run", ".github/workflows/ci.yml", "Dockerfile"]
        .into_iter()
        .chain([
            ".github/workflows/release.yml",
            ".github/workflows/soak.yml",
        ])
        .flat_map(|file| commands(&read(file)))
        .collect();
    let texts = documents()
        .into_iter()
        .filter(|document| !document.path.ends_with(file!()));
    named.extend(texts.flat_map(|document| commands(&document.text)));
    let alias = read(".cargo/config.toml");
    assert!(alias.contains(r#"["build", "--package=gatepass-filter", "--target=wasm32-wasip1""#));
    let known = BUILDS.iter().chain(&NOT_BUILT).map(|(build, _)| *build);
    let known: BTreeSet<String> = known.map(str::to_owned).collect();
    assert_eq!(named, known);
    let ci = read(".ci/run");
    for (build, step) in BUILDS {
        assert!(ci.contains(step), "{build}: .ci/run does not run {step}");
    }
}

#[test]
fn ci_runs_each_target_of_the_makefile() {
    let makefile = read("Makefile");
    // Each target with the words of its prerequisites and of the `make` that it runs.
    let mut targets: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in makefile.lines() {
        if let Some((name, rest)) = line.split_once(": ")
            && name
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '-')
        {
            let prerequisites = rest.split("##").next().unwrap_or_default();
            targets.push((name, prerequisites.split_whitespace().collect()));
        } else if line.starts_with("\t$(MAKE) ")
            && let Some((_, words)) = targets.last_mut()
        {
            words.extend(line.split_whitespace());
        }
    }
    let names: BTreeSet<&str> = targets.iter().map(|(name, _)| *name).collect();
    assert!(names.len() > 20, "{names:?}");
    let ci = read(".ci/run") + &read("tests/tools/first-run.sh");
    let commands = ci.lines().filter_map(|line| line.split_once("make "));
    let mut run: BTreeSet<&str> = commands
        .flat_map(|(_, words)| words.split_whitespace())
        .collect();
    loop {
        let reached = targets.iter().filter(|(name, _)| run.contains(name));
        let reached: BTreeSet<&str> = reached.flat_map(|(_, words)| words.clone()).collect();
        if reached.is_subset(&run) {
            break;
        }
        run.extend(reached);
    }
    let not_run: BTreeSet<&str> = names.difference(&run).copied().collect();
    assert_eq!(not_run, NOT_RUN.map(|(name, _)| name).into());
}

#[test]
fn ci_builds_each_stage_of_the_dockerfile() {
    let dockerfile = read("Dockerfile");
    let named = dockerfile.lines().filter(|line| line.starts_with("FROM "));
    let stages: BTreeSet<&str> = named
        .filter_map(|line| line.rsplit(" AS ").next())
        .collect();
    // Other stages start from these.
    let inner = BTreeSet::from(["dependencies", "build", "build-native"]);
    let files = read("docker-compose.yml") + &read("tests/stages.yml");
    let targets = files
        .lines()
        .filter_map(|line| line.trim().strip_prefix("target: "));
    let targets: BTreeSet<&str> = targets.collect();
    assert_eq!(stages, targets.union(&inner).copied().collect());
}
