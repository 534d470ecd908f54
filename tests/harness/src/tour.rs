//! Runs the tour of `README.md` and `docs/tour.md` word for word, with the addresses of a pair.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::artifacts::Artifacts;

/// Addresses of the pair that the tour uses. Sections without an address are left out.
#[derive(Debug, Clone)]
pub struct Tour {
    /// {api_url}.
    pub api: String,
    /// {lobby_url}.
    pub lobby: String,
    /// {lobby_ea_url}.
    pub lobby_ea: Option<String>,
    /// The address of the hosts of the legacy flow.
    pub legacy: Option<String>,
    /// The address of the demo clients' redirect URI.
    pub callback: String,
    /// True if the pair runs in the containers of `docker-compose.yml`. A block marked `sh` then replaces the block
    /// before it.
    pub in_containers: bool,
    /// A folder that comes first in `PATH`.
    pub programs: Option<PathBuf>,
    /// The certificate of the CA that curl trusts; `None` for the CAs of the system.
    pub ca: Option<PathBuf>,
}

/// A command block of the tour, and the output that the page shows.
#[derive(Debug, Default)]
struct Step {
    /// Page and line of the block.
    place: String,
    section: String,
    commands: String,
    in_containers: String,
    shown: String,
}

/// Separates the outputs of two steps.
const SEPARATOR: &str = "=== end of a step ===";

impl Tour {
    /// Runs all steps in one shell. Returns the number of steps.
    ///
    /// # Errors
    /// When a command fails, or does not print what the page shows.
    pub fn go(&self, artifacts: &Artifacts) -> Result<usize> {
        let mut steps = Vec::new();
        for page in ["README.md", "docs/tour.md"] {
            let text = fs::read_to_string(artifacts.repository.join(page))?;
            steps.extend(self::steps(page, &text));
        }
        steps.retain(|step| match step.section.as_str() {
            "The legacy flow" => self.legacy.is_some(),
            "Early access" => self.lobby_ea.is_some(),
            _ => true,
        });
        let folder = tempfile::TempDir::new()?;
        symlink(
            artifacts.repository.join("demo"),
            folder.path().join("demo"),
        )?;
        fs::create_dir_all(folder.path().join("target/debug"))?;
        let program = folder.path().join("target/debug/token-service");
        symlink(&artifacts.token_service, program)?;

        // The pages show answers of HTTP/1.1. With TLS, curl would choose HTTP/2.
        fs::write(folder.path().join(".curlrc"), "http1.1\n")?;

        for step in &mut steps {
            if self.in_containers && !step.in_containers.is_empty() {
                step.commands = std::mem::take(&mut step.in_containers);
            }
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let programs = self.programs.iter().cloned().chain(env::split_paths(&path));
        // Some steps wait for a change.
        let mut shell = Command::new("timeout");
        shell
            .args(["600", "bash"])
            .env("PATH", env::join_paths(programs)?)
            .env("CURL_HOME", folder.path())
            .envs(self.ca.iter().map(|ca| ("CURL_CA_BUNDLE", ca)))
            .env(
                "COMPOSE_FILE",
                artifacts.repository.join("docker-compose.yml"),
            )
            .current_dir(folder.path());
        run(&steps, shell, |text| self.here(text))?;
        Ok(steps.len())
    }

    /// The text with the addresses of this pair.
    fn here(&self, text: &str) -> String {
        // The service percent-encodes addresses in queries.
        let encoded = |url: &str| url.replace(':', "%3A").replace('/', "%2F");
        let lobby = "http://127.0.0.1:8081";
        let or_nowhere = |url: &Option<String>| url.clone().unwrap_or_default();
        // All replacements run in one pass, because an address of this pair may be the printed address of another
        // service.
        let places = [
            ("http://127.0.0.1:8080", self.api.clone()),
            (lobby, self.lobby.clone()),
            ("http://127.0.0.1:8082", or_nowhere(&self.lobby_ea)),
            ("http://127.0.0.1:8083", or_nowhere(&self.legacy)),
            ("http://127.0.0.1:8090", self.callback.clone()),
            (&encoded(lobby), encoded(&self.lobby)),
        ];
        let mut here = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let place = places.iter().find(|(printed, _)| rest.starts_with(printed));
            match place {
                Some((printed, address)) => {
                    here.push_str(address);
                    rest = &rest[printed.len()..];
                }
                None => {
                    here.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        here
    }
}

/// Runs the `bash` blocks of a page in one shell, which `bash` starts. `here` returns a text with the addresses of this place.
///
/// # Errors
/// When a command fails, or does not print what the page shows.
pub fn follow(name: &str, page: &str, bash: Command, here: impl Fn(&str) -> String) -> Result<()> {
    run(&steps(name, page), bash, here)
}

fn run(steps: &[Step], mut shell: Command, here: impl Fn(&str) -> String) -> Result<()> {
    let ends = format!("\necho; echo '{SEPARATOR}'\n");
    let script: String = steps
        .iter()
        .map(|step| format!("{}{ends}", step.commands))
        .collect();
    let shell = shell
        .args(["-euo", "pipefail", "-c", &here(&script)])
        .output()?;
    let text = String::from_utf8(shell.stdout)?.replace('\r', "");
    let errors = String::from_utf8_lossy(&shell.stderr);
    let outputs: Vec<&str> = text.split(SEPARATOR).collect();
    // The shell stops at the first command that fails.
    let finished = outputs.len() - 1;
    for (number, (step, output)) in steps.iter().zip(outputs).enumerate() {
        let check = || {
            ensure!(number < finished, "{}", shell.status);
            check_shown(output, &here(&step.shown))?;
            let is_refused = output.contains("\"error\"") && !step.shown.contains("\"error\"");
            ensure!(!is_refused, "an error that the page does not show");
            Ok(())
        };
        check().with_context(|| {
            let (place, commands) = (&step.place, &step.commands);
            format!("the block at {place} does not work:\n{commands}\n{output}\n{errors}")
        })?;
    }
    Ok(())
}

/// The steps of a page, each with its section (`## ...`). Other code blocks than `bash` belong to the step before them.
fn steps(name: &str, page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut section = "";
    let mut fence = None;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), fence) {
            (Some(kind), None) => {
                if kind == "bash" {
                    steps.push(Step {
                        place: format!("{name}:{}", number + 1),
                        section: section.to_owned(),
                        ..Step::default()
                    });
                }
                fence = Some(kind);
            }
            (Some(_), Some(_)) => fence = None,
            (None, Some(kind)) => {
                if let Some(step) = steps.last_mut() {
                    let text = match kind {
                        "bash" => &mut step.commands,
                        "sh" => &mut step.in_containers,
                        _ => &mut step.shown,
                    };
                    text.push_str(line);
                    text.push('\n');
                }
            }
            (None, None) => section = line.strip_prefix("## ").unwrap_or(section),
        }
    }
    steps
}

/// Checks that the shown lines occur in the output, in order; `...` stands for any text.
fn check_shown(output: &str, shown: &str) -> Result<()> {
    let mut rest = output;
    for piece in shown.lines().flat_map(|line| line.split("...")) {
        let Some(start) = rest.find(piece) else {
            bail!("{piece:?} is not in what follows of {output}");
        };
        rest = &rest[start + piece.len()..];
    }
    Ok(())
}
