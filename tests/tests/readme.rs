//! The README's tour, word for word: only the addresses are those of this pair.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::support::{api, lobby, lobby_ea, pair};

/// A command block of the tour, and what the README shows of its output.
#[derive(Debug, Default)]
struct Step {
    commands: String,
    shown: String,
}

/// Between the outputs of two steps.
const SEPARATOR: &str = "=== end of a step ===";

fn tour() -> Vec<Step> {
    let path = pair().artifacts().repository.join("README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (_, tour) = readme.split_once("\n## Tour\n").unwrap();
    let (tour, _) = tour.split_once("\n## ").unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let mut fence = None;
    for line in tour.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(kind), None) => {
                if kind == "bash" {
                    steps.push(Step::default());
                }
                fence = Some(kind);
            }
            (Some(_), Some(_)) => fence = None,
            (None, Some(kind)) => {
                let step = steps.last_mut().unwrap();
                let text = if kind == "bash" {
                    &mut step.commands
                } else {
                    &mut step.shown
                };
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    steps
}

/// Asserts that what is shown occurs in order; `...` stands for anything.
fn assert_shows(output: &str, shown: &str) {
    let mut rest = output;
    for piece in shown.lines().flat_map(|line| line.split("...")) {
        let start = rest
            .find(piece)
            .unwrap_or_else(|| panic!("{piece:?} is not in what follows of {output}"));
        rest = &rest[start + piece.len()..];
    }
}

#[test]
fn the_tour_works_as_printed() {
    let folder = tempfile::TempDir::new().unwrap();
    let artifacts = pair().artifacts();
    symlink(
        artifacts.repository.join("demo"),
        folder.path().join("demo"),
    )
    .unwrap();
    std::fs::create_dir_all(folder.path().join("target/release")).unwrap();
    let program = folder.path().join("target/release/token-service");
    symlink(&artifacts.token_service, program).unwrap();

    let steps = tour();
    assert!(steps.len() >= 9, "{} steps", steps.len());
    let ends = format!("\necho; echo '{SEPARATOR}'\n");
    let script: String = steps
        .iter()
        .map(|step| format!("{}{ends}", step.commands))
        .collect();
    // Addresses in queries are encoded by the service.
    let encoded = |url: &str| url.replace(':', "%3A").replace('/', "%2F");
    let here = |text: &str| {
        text.replace("http://127.0.0.1:8081", &lobby())
            .replace("http://127.0.0.1:8082", &lobby_ea())
            .replace("http://127.0.0.1:8083", &pair().legacy_url())
            .replace("http://127.0.0.1:8080", &api())
            .replace(&encoded("http://127.0.0.1:8081"), &encoded(&lobby()))
    };
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &here(&script)])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let outputs: Vec<&str> = text.split(SEPARATOR).collect();
    for (step, output) in steps.iter().zip(outputs) {
        assert_shows(output, &here(&step.shown));
        assert!(
            step.shown.contains("\"error\"") || !output.contains("\"error\""),
            "{}\n{output}",
            step.commands
        );
    }
}
