//! `token-service import`: clients and users of another server. They go to the running service as `apply` sends a file, in
//! parts, so that memory is bounded.

mod keycloak;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::hash::BuildHasher as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use serde::Serialize;
use serde_json::{Map, Value, json};
use ureq::http::Method;

use super::Connected;
use super::connection::{Administration, Refusal, flag, query};
use crate::http::admin::registrations::Applied;
use crate::telemetry::visible::bounded;
use domain::Username;

/// Number of objects that the service plans and stores in one transaction.
const PART: usize = 5000;

/// The last problem of a refusal that has no room for all; the next refusal has the others.
const ARE_MORE: &str = "problems; there are more";

/// Without these keys, an object is not what it was.
const NEEDED: [&str; 7] = [
    "username",
    "client_id",
    "type",
    "client_secret",
    "redirect_uris",
    "enabled",
    "totp_secret",
];

pub(super) const EXAMPLES: &str = "Examples:
  token-service import keycloak realm.json --dry-run   # preview, with everything that cannot be imported
  token-service import keycloak realm.json 2> report.txt
  token-service import csv users.csv

Standard error has a line for everything that is not imported, with the reason. A client or user that is registered already
stays as it is, with a line. With --overwrite it changes, unless a registrations file lists it; a line says each field.
The exit code is 3 if a line names a client or user of which something is not imported.";

const INVITE: &str = "user invite NAME prints a link with which the person sets a password";

/// Number of names in the last line of the output.
const NAMED: usize = 20;

/// Exit code if something of a client or user that the report names is not imported.
const EXIT_LEFT_OUT: u8 = 3;

#[derive(Debug, Subcommand)]
pub(in crate::command) enum Command {
    /// Import clients and users of a realm that Keycloak exported: kc.sh export --realm NAME --file realm.json
    Keycloak(Connected<KeycloakArguments>),
    /// Import users from a table with the columns username, email, organization, enabled, password_hash, password,
    /// totp_secret, account_user_id, account_username, account_site. Only username is required.
    Csv(Connected<Arguments>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Arguments {
    /// The file.
    file: PathBuf,
    /// Print what would be imported, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Change registered clients and users that no registrations file lists, and print each change.
    #[arg(long)]
    overwrite: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct KeycloakArguments {
    #[command(flatten)]
    file: Arguments,
    /// Link each user to an account of this site. Its User ID is the user's id in Keycloak: the `sub` of earlier tokens.
    #[arg(long, value_name = "URL")]
    site: Option<String>,
    /// Link users to their identities at this identity provider: its alias in Keycloak, and its issuer. Only right if the provider
    /// gives this service the same sub as it gave Keycloak; may be repeated.
    #[arg(long = "identity-provider", value_name = "ALIAS=ISSUER", value_parser = issuer)]
    issuers: Vec<(String, String)>,
}

fn issuer(text: &str) -> Result<(String, String), &'static str> {
    let (alias, issuer) = text.split_once('=').ok_or("expected ALIAS=ISSUER")?;
    Ok((alias.to_owned(), issuer.to_owned()))
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Keycloak(arguments) => {
            let (own, administration) = arguments.open()?;
            let report = Report::default();
            let mut import = Import::new(&own.file, &administration, &report);
            let given = keycloak::Given {
                site: own.site.as_deref(),
                issuers: &own.issuers,
            };
            keycloak::read(&own.file.file, given, &mut import)?;
            import.finish()
        }
        Command::Csv(arguments) => {
            let (own, administration) = arguments.open()?;
            let report = Report::default();
            let mut import = Import::new(own, &administration, &report);
            table::read(&own.file, &mut import)?;
            import.finish()
        }
    }
}

/// Standard error. Names in its lines may have any length and contain line ends.
#[derive(Default)]
struct Report {
    /// Whether a line named an object of which something is not imported.
    left_out: Cell<bool>,
    /// The people who can no longer sign in.
    locked_out: RefCell<Vec<String>>,
}

impl Report {
    fn note(&self, line: impl Display) {
        eprintln!("{}", bounded(&line.to_string()));
    }

    /// `why`: what the file has in place of a password.
    fn locked_out(&self, username: &str, why: impl Display) {
        self.left_out(format_args!(
            "user {username} cannot sign in: {why}{INVITE}"
        ));
        self.locked_out.borrow_mut().push(username.to_owned());
    }

    fn left_out(&self, line: impl Display) {
        self.left_out.set(true);
        self.note(line);
    }
}

/// What happened to the objects of a list.
#[derive(Default, Serialize)]
struct Counts {
    read: u64,
    added: u64,
    changed: u64,
    /// Registered already, and different.
    kept: u64,
    not_imported: u64,
}

/// A list of a registrations document. The type has no `Debug`, because it contains secrets.
struct List {
    key: &'static str,
    /// Singular, for people.
    kind: &'static str,
    name_key: &'static str,
    part: Vec<Map<String, Value>>,
    counts: Counts,
    /// Hashes of the names so far, folded, because the service sees only one part at a time.
    names: HashSet<u64>,
    hasher: RandomState,
}

impl List {
    fn new(key: &'static str, kind: &'static str, name_key: &'static str) -> Self {
        Self {
            key,
            kind,
            name_key,
            part: Vec::new(),
            counts: Counts::default(),
            names: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    /// Adds an entry, unless an earlier one has its name. Returns true if the part is full.
    fn add(&mut self, entry: Map<String, Value>, report: &Report) -> bool {
        let name = entry.get(self.name_key).and_then(Value::as_str);
        let username = name.and_then(Username::parse);
        let folded = username.as_ref().map(Username::folded);
        let hash = self.hasher.hash_one(folded.as_deref().or(name));
        self.counts.read += 1;
        if name.is_none() || self.names.insert(hash) {
            self.part.push(entry);
        } else {
            let name = self.name(&entry);
            self.refuse(&name, "the file has this name already", report);
        }
        self.part.len() >= PART
    }

    fn refuse(&mut self, name: &str, why: &str, report: &Report) {
        self.counts.not_imported += 1;
        report.left_out(format_args!("{name} is not imported: {why}"));
    }

    fn name(&self, entry: &Map<String, Value>) -> String {
        let name = entry.get(self.name_key).and_then(Value::as_str);
        format!("{} {}", self.kind, name.unwrap_or_default())
    }
}

struct Import<'a> {
    administration: &'a Administration,
    report: &'a Report,
    path: String,
    dry_run: bool,
    users: List,
    clients: List,
    /// What holds for many objects, with its reason, and for how many.
    left_out: BTreeMap<(String, &'static str), u64>,
    shows_progress: bool,
}

impl<'a> Import<'a> {
    fn new(arguments: &Arguments, administration: &'a Administration, report: &'a Report) -> Self {
        let query = query(&[
            ("dry_run", flag(arguments.dry_run)),
            ("overwrite", flag(arguments.overwrite)),
            ("import", flag(true)),
        ]);
        Self {
            administration,
            report,
            path: format!("/registrations{query}"),
            dry_run: arguments.dry_run,
            users: List::new("users", "user", "username"),
            clients: List::new("clients", "client", "client_id"),
            left_out: BTreeMap::new(),
            shows_progress: std::io::stderr().is_terminal(),
        }
    }

    fn user(&mut self, entry: Map<String, Value>) -> anyhow::Result<()> {
        let is_full = self.users.add(entry, self.report);
        self.send(is_full, false)
    }

    fn client(&mut self, entry: Map<String, Value>) -> anyhow::Result<()> {
        let is_full = self.clients.add(entry, self.report);
        self.send(false, is_full)
    }

    /// Sends the parts of the lists.
    fn send(&mut self, users: bool, clients: bool) -> anyhow::Result<()> {
        let (administration, path, report) = (self.administration, &self.path, self.report);
        if users {
            send(administration, path, &mut self.users, report)?;
            if self.shows_progress {
                eprintln!("{} users", self.users.counts.read);
            }
        }
        if clients {
            send(administration, path, &mut self.clients, report)?;
        }
        Ok(())
    }

    /// Counts something for which many lines would be too many.
    fn count(&mut self, what: impl Into<String>, why: &'static str) {
        *self.left_out.entry((what.into(), why)).or_default() += 1;
    }

    fn finish(mut self) -> anyhow::Result<ExitCode> {
        self.send(true, true)?;
        for ((what, why), count) in &self.left_out {
            self.report.note(format_args!("{what} ({count}): {why}"));
        }
        let (users, clients) = (&self.users.counts, &self.clients.counts);
        let locked_out = self.report.locked_out.borrow();
        let summary = json!({
            "users": users, "clients": clients, "cannot_sign_in": *locked_out, "dry_run": self.dry_run,
        });
        self.administration.print(&summary, |_| {
            let line = |kind: &str, counts: &Counts| {
                let Counts {
                    read,
                    added,
                    changed,
                    kept,
                    not_imported,
                } = counts;
                format!(
                    "{kind}: {read} read, {added} new, {changed} changed, {kept} kept, {not_imported} not imported"
                )
            };
            let mut lines = vec![line("Users", users), line("Clients", clients)];
            if !locked_out.is_empty() {
                let names: Vec<_> = locked_out.iter().take(NAMED).map(|name| bounded(name)).collect();
                let more = match locked_out.len() > NAMED {
                    true => ", ... (user list --without password lists all)",
                    false => "",
                };
                let people = match locked_out.len() {
                    1 => "1 person".to_owned(),
                    count => format!("{count} people"),
                };
                let names = names.join(", ");
                lines.push(format!("{people} cannot sign in: {names}{more}"));
            }
            if self.dry_run {
                lines.push("Nothing was changed: --dry-run.".to_owned());
            }
            lines.join("\n")
        })?;
        Ok(match self.report.left_out.get() {
            true => ExitCode::from(EXIT_LEFT_OUT),
            false => ExitCode::SUCCESS,
        })
    }
}

/// Applies the part of the list. What the service refuses is reported and left out.
fn send(
    administration: &Administration,
    path: &str,
    list: &mut List,
    report: &Report,
) -> anyhow::Result<()> {
    while !list.part.is_empty() {
        let document = BTreeMap::from([(list.key, &list.part)]);
        match administration.send::<Applied>(Method::PUT, path, &document) {
            Ok(answer) => {
                let applied = &answer.value;
                applied.warnings.iter().for_each(|line| report.note(line));
                let changed = applied.differences.iter();
                let changed = changed.filter(|text| text.starts_with('~'));
                let lines = changed.flat_map(|text| text.lines());
                lines.for_each(|line| report.note(line));
                applied.kept.iter().for_each(|line| report.left_out(line));
                list.counts.kept += applied.kept.len() as u64;
                let begin = |sign: char| {
                    let differences = applied.differences.iter();
                    differences.filter(|text| text.starts_with(sign)).count() as u64
                };
                list.counts.added += begin('+');
                list.counts.changed += begin('~');
                list.part.clear();
            }
            Err(error) => mend(list, error.downcast::<Refusal>()?, report)?,
        }
    }
    Ok(())
}

/// Removes what the service refused.
///
/// # Errors
/// The refusal, if it is not about entries of the list.
fn mend(list: &mut List, refusal: Refusal, report: &Report) -> anyhow::Result<()> {
    let mut refused: BTreeMap<usize, Vec<(&str, &str)>> = BTreeMap::new();
    for line in &refusal.0 {
        if line.contains(ARE_MORE) {
            continue;
        }
        let Some((entry, key, why)) = located(list.key, line).or_else(|| of_user(list, line))
        else {
            return Err(refusal.into());
        };
        refused.entry(entry).or_default().push((key, why));
    }
    // From behind, so that the other numbers stay.
    for (number, problems) in refused.into_iter().rev() {
        let entry = list.part.get_mut(number);
        let entry = entry.with_context(|| refusal.to_string())?;
        let mut is_whole = true;
        let mut lines = Vec::new();
        let had_password = has_password(entry);
        for (key, why) in problems {
            let is_without = !NEEDED.contains(&key) && entry.remove(key).is_some();
            let was_there = lines.iter().any(|(known, _)| *known == key);
            is_whole &= is_without || was_there && !NEEDED.contains(&key);
            lines.push((key, why));
        }
        let is_locked_out = had_password && !has_password(entry) && is_whole;
        let entry = list.part.get(number);
        let username = entry.and_then(|entry| entry.get("username")?.as_str());
        let username = username.unwrap_or_default().to_owned();
        let name = list.name(entry.unwrap_or(&Map::new()));
        let outcome = match is_whole {
            true => "comes without",
            false => "is not imported:",
        };
        for (key, why) in lines {
            let colon = if key.is_empty() { "" } else { ": " };
            report.left_out(format_args!("{name} {outcome} {key}{colon}{why}"));
        }
        if is_locked_out {
            report.locked_out(&username, "");
        }
        if !is_whole {
            list.part.remove(number);
            list.counts.not_imported += 1;
        }
    }
    Ok(())
}

/// True if the entry of a user lets the user sign in, with a password or an identity provider, or the user is disabled.
fn has_password(entry: &Map<String, Value>) -> bool {
    let is_disabled = entry.get("enabled") == Some(&Value::Bool(false));
    let keys = ["password", "password_hash", "identities"];
    is_disabled || keys.iter().any(|key| entry.contains_key(*key))
}

/// Number of the entry, key and message of a line such as `users[3].accounts[0].site: is not a URL`.
fn located<'l>(list: &str, line: &'l str) -> Option<(usize, &'l str, &'l str)> {
    let (number, rest) = line
        .strip_prefix(list)?
        .strip_prefix('[')?
        .split_once(']')?;
    let (path, why) = rest.split_once(": ")?;
    let key = path.trim_start_matches('.').split(['.', '[']).next()?;
    Some((number.parse().ok()?, key, why))
}

/// The same of a line such as `user ada: user_id 7c1e... has 36 characters`, or `user ada: identities: ...`.
fn of_user<'l>(list: &List, line: &'l str) -> Option<(usize, &'static str, &'l str)> {
    let mut entries = list.part.iter().enumerate();
    entries.find_map(|(number, entry)| {
        let why = line.strip_prefix(&list.name(entry))?.strip_prefix(": ")?;
        Some(match why.strip_prefix("identities: ") {
            Some(why) => (number, "identities", why),
            None => (number, "accounts", why),
        })
    })
}
