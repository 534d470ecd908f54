//! `token-service apply`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value};
use ureq::http::Method;

use super::Connected;
use super::connection::query;
use crate::admin::views::Applied;

pub(super) const EXAMPLES: &str = "Examples:
  token-service apply registrations.toml --dry-run   # what would change
  token-service apply registrations.toml
  token-service apply registrations.toml --prune     # and remove what the file does not list

Lines start with + for what is new, ~ for what changes, - for what goes.";

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
}

pub(super) fn run(arguments: &Connected<Arguments>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let document = read(&own.file)?;
    let flag = |flag: bool| flag.then(|| "true".to_owned());
    let query = query(&[("dry_run", flag(own.dry_run)), ("prune", flag(own.prune))]);
    let path = format!("/registrations{query}");
    administration
        .send::<Applied>(Method::PUT, &path, &document)?
        .print(|applied| {
            let warnings = applied
                .warnings
                .iter()
                .map(|text| format!("warning: {text}"));
            let mut lines: Vec<String> = warnings.collect();
            lines.extend(applied.differences.iter().cloned());
            if applied.differences.is_empty() {
                lines.push("Nothing differs.".to_owned());
            } else if applied.dry_run {
                lines.push("Nothing was changed: --dry-run.".to_owned());
            }
            lines.join("\n")
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
