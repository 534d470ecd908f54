//! `token-service apply`.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use ureq::http::Method;

use super::Connected;
use super::connection::{Refusal, flag, query};
use crate::command::output;
use crate::http::admin::registrations::{Applied, LINES, Lines};
use crate::telemetry::visible::visible_lines;
use document::{InvalidDocument, Problem, Problems, Table};
use domain::certificate::DER_SEQUENCE;
use domain::clock::Clock as _;
use registry::file::load;
use system::SystemClock;

/// Exit code with `--exit-code` if the registry differed from the file.
const EXIT_DIFFERS: u8 = 2;

pub(super) const EXAMPLES: &str = "Examples:
  token-service apply registrations.toml --dry-run   # what would change
  token-service apply registrations.toml
  token-service apply registrations.toml --prune     # and remove what the file does not list
  token-service apply imported.toml --import --dry-run   # clients and users of another server

The file manages the clients and users that it lists: apply makes them as it says. It changes no state: who is disabled,
rotated client secrets, passwords and second factors. A new secret in the file replaces the live one. The file does not change
a client or user that commands registered, until you run token-service adopt.

With --import, the file manages nothing: it adds clients and users of another server. A client or user that is registered already
stays as it is, with a line; with --overwrite it changes, unless a registrations file lists it. examples/moving-in/registrations.py
makes such a file of a realm of Keycloak or of a table (CSV).

Lines start with + for what is new, ~ for what changes, - for what goes, ! for what stays although the file lists it.";

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Arguments {
    /// The registrations file.
    file: PathBuf,
    /// Print what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Remove clients and users that a file manages and this file does not list, and revoke everything issued to them.
    #[arg(long)]
    prune: bool,
    /// Add the clients and users of another server, which no file manages then.
    #[arg(long, conflicts_with = "prune")]
    import: bool,
    /// Change registered clients and users that no registrations file lists, and print each change.
    #[arg(long, requires = "import")]
    overwrite: bool,
    /// Exit with 2 if the registry differs from the file. Use it with --dry-run to detect drift.
    #[arg(long)]
    exit_code: bool,
}

pub(super) fn run(arguments: &Connected<Arguments>) -> anyhow::Result<ExitCode> {
    let (own, administration) = arguments.open()?;
    let problems = Problems::default();
    let mut file = Table::read(&own.file, &problems);
    inline_files(&own.file, &mut file, &problems);
    let mut file = match problems.none_or(file) {
        Ok(file) => file,
        Err(problems) => return Ok(refused(every_problem(&own.file, problems))),
    };
    add_lines(&mut file)?;
    let path = std::path::absolute(&own.file).unwrap_or_else(|_| own.file.clone());
    let query = query(&[
        ("dry_run", flag(own.dry_run)),
        ("prune", flag(own.prune)),
        ("import", flag(own.import)),
        ("overwrite", flag(own.overwrite)),
        ("file", Some(path.display().to_string())),
    ]);
    let path = format!("/registrations{query}");
    let answer = match administration.send::<Applied>(Method::PUT, &path, file.members()) {
        Ok(answer) => answer,
        Err(error) => return Ok(refused(located(&error.downcast::<Refusal>()?.0, &file))),
    };
    let printed = answer.print(|applied| {
        let warnings = located(&applied.warnings, &file);
        let warnings = warnings.lines().map(|text| format!("warning: {text}"));
        let mut lines: Vec<String> = warnings.collect();
        lines.extend(applied.differences.iter().cloned());
        lines.extend(applied.kept.iter().cloned());
        if applied.differences.is_empty() && applied.kept.is_empty() {
            lines.push("Nothing differs.".to_owned());
        }
        if !applied.differences.is_empty() && applied.dry_run {
            lines.push("Nothing was changed: --dry-run.".to_owned());
        }
        lines.join("\n")
    });
    output::unless_gone(printed)?;
    let differs = !answer.value.differences.is_empty() || !answer.value.kept.is_empty();
    Ok(if own.exit_code && differs {
        ExitCode::from(EXIT_DIFFERS)
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints problems with their place first, as compilers do.
fn refused(problems: impl Display) -> ExitCode {
    eprintln!("{}", visible_lines(&problems.to_string()));
    ExitCode::FAILURE
}

/// Every problem that this command can find without the service. `problems` are the problems of files that cannot be
/// sent.
fn every_problem(path: &Path, problems: InvalidDocument) -> InvalidDocument {
    let every = load(path, SystemClock.now()).into_problems();
    if every.problems.is_empty() {
        problems
    } else {
        every
    }
}

/// Problems that the service found, sorted by their place in the file, with line numbers instead of paths. Problems
/// without a place in the file come last.
fn located(lines: &[String], file: &Table) -> String {
    let mut problems: Vec<Problem> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    for line in lines {
        match file.located(line) {
            Some(problem) => problems.push(problem),
            None => others.push(line),
        }
    }
    problems.sort();
    let problems = problems.iter().map(ToString::to_string);
    let lines: Vec<String> = problems
        .chain(others.into_iter().map(str::to_owned))
        .collect();
    lines.join("\n")
}

/// Lists of a client whose entries may name a file, with the key of its content.
const FILES: [(&str, &str); 2] = [("certificates", "pem"), ("keys", "public_key")];

/// Replaces the names of files with their content, because the service may run on another machine. Reports unreadable files
/// as problems.
fn inline_files(path: &Path, file: &mut Table, problems: &Problems) {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut read = Vec::new();
    for (client_index, client) in tables(file.members_mut().get_mut("clients")) {
        for (list, key) in FILES {
            for (index, entry) in tables(client.get_mut(list)) {
                let Some(name) = entry.get("file").and_then(Value::as_str) else {
                    continue;
                };
                let place = format!("clients[{client_index}].{list}[{index}]");
                let text = match std::fs::read(folder.join(name)) {
                    _ if entry.contains_key(key) => {
                        Err((key, "file is there too; keep one of the two".to_owned()))
                    }
                    Ok(bytes) => Ok(pem(bytes)),
                    Err(error) => Err(("file", format!("{name} cannot be read: {error}"))),
                };
                let text = text.map(|text| {
                    entry.remove("file");
                    entry.insert(key.to_owned(), Value::String(text));
                    key
                });
                read.push((place, text));
            }
        }
    }
    for (entry, read) in read {
        match read {
            Ok(key) => file.moved(&format!("{entry}.file"), &format!("{entry}.{key}")),
            Err((key, problem)) => {
                let place = file.place_of(&format!("{entry}.{key}"));
                problems.report(&place, format!("{key}: {problem}"));
            }
        }
    }
}

/// Adds the lines of the entries, which the service names where a command would change what the file defines.
fn add_lines(file: &mut Table) -> anyhow::Result<()> {
    let lines = |list: &str| {
        let entries = file.members().get(list).and_then(Value::as_array);
        let numbers = 0..entries.map_or(0, Vec::len);
        let places = numbers.map(|number| file.place_of(&format!("{list}[{number}]")));
        let lines = places.map(|place| place.line().unwrap_or_default());
        lines.collect::<Vec<usize>>()
    };
    let (clients, users) = (lines("clients"), lines("users"));
    let lines = serde_json::to_value(Lines { clients, users })?;
    file.members_mut().insert(LINES.to_owned(), lines);
    Ok(())
}

/// The content of a certificate file as text: DER becomes PEM (RFC 7468 §5).
fn pem(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|bytes| match bytes.as_bytes() {
        der @ [DER_SEQUENCE, ..] => {
            let text = STANDARD.encode(der);
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        }
        // Text around the PEM in another encoding.
        pem => String::from_utf8_lossy(pem).into_owned(),
    })
}

/// The tables of `list`, each with its index in the list.
fn tables(list: Option<&mut Value>) -> impl Iterator<Item = (usize, &mut Map<String, Value>)> {
    let values = list.and_then(Value::as_array_mut).into_iter().flatten();
    let tables = values.map(Value::as_object_mut).enumerate();
    tables.filter_map(|(index, table)| Some((index, table?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.toml");
        let client = |id: &str, file: &str| {
            format!(
                "[[clients]]\nclient_id = \"{id}\"\ntype = \"non_interactive\"\n\
                 client_secret = \"a secret of the client, long enough\"\nscopes = [\"projects\"]\n\
                 certificates = [{{ alias = \"a\", file = \"{file}\" }}]\n"
            )
        };
        let text =
            client("a", "absent.pem") + &client("b", "broken.pem") + &client("c", "none.pem");
        let text = text
            + "[[clients]]\nclient_id = \"d\"\ntype = \"user_bound\"\nbound_user = \"x\"\n\
               keys = [{ kid = \"k\", file = \"absent.jwk\" }]\n";
        std::fs::write(&path, text).unwrap();
        std::fs::write(folder.path().join("broken.pem"), "no certificate").unwrap();
        let problems = Problems::default();
        let mut file = Table::read(&path, &problems);
        inline_files(&path, &mut file, &problems);
        let problems = problems.none_or(()).unwrap_err();
        assert_eq!(problems.problems.len(), 3);
        let every = every_problem(&path, problems).problems;
        let lines: Vec<Option<usize>> = every.iter().map(|one| one.place.line()).collect();
        let expected = [6, 12, 18, 23].map(Some);
        assert_eq!(lines, expected, "{every:?}");
    }
}
