//! `token-service apply`.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Map, Value};
use ureq::http::Method;

use super::Connected;
use super::connection::{Refused, query};
use crate::admin::views::Applied;
use crate::visible::visible_lines;
use document::{BODY, Problems, Table};

/// What `--exit-code` exits with if the registry differed from the file.
const EXIT_DIFFERS: u8 = 2;

pub(super) const EXAMPLES: &str = "Examples:
  token-service apply registrations.toml --dry-run   # what would change
  token-service apply registrations.toml
  token-service apply registrations.toml --prune     # and remove what the file does not list

The service remembers what a file said of each client and user. apply takes over what changed in the file since then.
Changes that commands made meanwhile stay, unless you add --overwrite.

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
    let problems = Problems::default();
    let text =
        std::fs::read_to_string(&own.file).with_context(|| own.file.display().to_string())?;
    let table = Table::parse(&own.file, &text, &problems);
    let document = read(&own.file, &text, &table, &problems);
    let document = match problems.none_or(document) {
        Ok(document) => document,
        Err(problems) => return Ok(refused(problems)),
    };
    let flag = |flag: bool| flag.then(|| "true".to_owned());
    let query = query(&[
        ("dry_run", flag(own.dry_run)),
        ("prune", flag(own.prune)),
        ("overwrite", flag(own.overwrite)),
    ]);
    let path = format!("/registrations{query}");
    let answer = match administration.send::<Applied>(Method::PUT, &path, &document) {
        Ok(answer) => answer,
        Err(error) => {
            let lines = error.downcast::<Refused>()?.0.into_iter();
            let lines: Vec<String> = lines.map(|line| located(&line, &table)).collect();
            return Ok(refused(lines.join("\n")));
        }
    };
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
            lines.push("Lines with ! are not applied; --overwrite applies them.".to_owned());
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

/// Prints problems as compilers do: their place first.
fn refused(problems: impl Display) -> ExitCode {
    eprintln!("{}", visible_lines(&problems.to_string()));
    ExitCode::FAILURE
}

/// A problem that the service found, with the file and line in place of the path within the body.
fn located(line: &str, table: &Table) -> String {
    match line.split_once(": ") {
        Some((path, message))
            if path == BODY || path.starts_with("clients") || path.starts_with("users") =>
        {
            format!("{}: {message}", table.place_of(path))
        }
        _ => line.to_owned(),
    }
}

/// The file as JSON, with the certificate files that it names inside: the service may run on another machine. A file that
/// cannot be read is a problem.
fn read(path: &Path, text: &str, table: &Table, problems: &Problems) -> Map<String, Value> {
    let mut document: Map<String, Value> = match toml::from_str(text) {
        Ok(document) => document,
        Err(_) if !problems.is_empty() => return Map::new(),
        Err(error) => {
            problems.report(table.place_of(""), error.message());
            return Map::new();
        }
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    for (client_index, client) in tables(document.get_mut("clients")).enumerate() {
        for (index, certificate) in tables(client.get_mut("certificates")).enumerate() {
            let Some(file) = certificate.get("file").and_then(Value::as_str) else {
                continue;
            };
            match std::fs::read_to_string(folder.join(file)) {
                Ok(pem) => {
                    certificate.remove("file");
                    certificate.insert("pem".to_owned(), Value::String(pem));
                }
                Err(error) => {
                    let place = format!("clients.{client_index}.certificates.{index}.file");
                    let message = format!("file: {file} cannot be read: {error}");
                    problems.report(table.place_of(&place), message);
                }
            }
        }
    }
    document
}

fn tables(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}
