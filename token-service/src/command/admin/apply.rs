//! `token-service apply`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Map, Value};
use ureq::http::Method;

use super::Connected;
use super::connection::query;
use crate::admin::views::Applied;

/// What `--exit-code` exits with if the registry differed from the file.
const EXIT_DIFFERS: u8 = 2;

pub(super) const EXAMPLES: &str = "Examples:
  token-service apply registrations.toml --dry-run   # what would change
  token-service apply registrations.toml
  token-service apply registrations.toml --prune     # and remove what the file does not list

The service remembers what a file said of each client and user. apply takes over what changed in the file since then.
What a command changed meanwhile stays: --overwrite lets the file count instead.

Lines start with + for what is new, ~ for what changes, - for what goes, ! for what stays although the file says
something else.";

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Arguments {
    /// The registrations file.
    file: PathBuf,
    /// Only print what would change.
    #[arg(long)]
    dry_run: bool,
    /// Remove clients and users that the file does not list, and revoke what was issued to them.
    #[arg(long)]
    prune: bool,
    /// Let the file count where a command changed something after a file was last applied.
    #[arg(long)]
    overwrite: bool,
    /// Exit with 2 if the registry differed from the file: for scripts that look for drift, with --dry-run.
    #[arg(long)]
    exit_code: bool,
}

pub(super) fn run(arguments: &Connected<Arguments>) -> anyhow::Result<ExitCode> {
    let (own, administration) = arguments.open()?;
    let document = read(&own.file)?;
    let flag = |flag: bool| flag.then(|| "true".to_owned());
    let query = query(&[
        ("dry_run", flag(own.dry_run)),
        ("prune", flag(own.prune)),
        ("overwrite", flag(own.overwrite)),
    ]);
    let path = format!("/registrations{query}");
    let answer = administration.send::<Applied>(Method::PUT, &path, &document)?;
    answer.print(|applied| {
        let warnings = applied
            .warnings
            .iter()
            .map(|text| format!("warning: {text}"));
        let mut lines: Vec<String> = warnings.collect();
        lines.extend(applied.differences.iter().cloned());
        lines.extend(applied.kept.iter().cloned());
        if applied.differences.is_empty() && applied.kept.is_empty() {
            lines.push("Nothing differs.".to_owned());
        }
        if !applied.kept.is_empty() {
            lines
                .push("Lines with ! stay as they are; --overwrite lets the file count.".to_owned());
        }
        if !applied.differences.is_empty() && applied.dry_run {
            lines.push("Nothing was changed: --dry-run.".to_owned());
        }
        lines.join("\n")
    })?;
    let differs = !answer.value.differences.is_empty() || !answer.value.kept.is_empty();
    Ok(if own.exit_code && differs {
        ExitCode::from(EXIT_DIFFERS)
    } else {
        ExitCode::SUCCESS
    })
}

/// The file as JSON, with the certificate files that it names inside: the service may run on another machine.
fn read(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| name.to_string())?;
    let mut document: Map<String, Value> =
        toml::from_str(&text).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for client in tables(document.get_mut("clients")) {
        for certificate in tables(client.get_mut("certificates")) {
            let Some(file) = certificate.get("file").and_then(Value::as_str) else {
                continue;
            };
            let file = folder.join(file);
            let pem = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            certificate.remove("file");
            certificate.insert("pem".to_owned(), Value::String(pem));
        }
    }
    Ok(document)
}

fn tables(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}
