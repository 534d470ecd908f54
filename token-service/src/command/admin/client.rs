//! `token-service client`.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use ureq::http::Method;

use super::connection::{flag, query, segment};
use super::form::{Flags, Form, Keys, Named, Removal, named_file, object_path};
use super::objects::{self, Listing};
use super::values::card;
use super::{Connected, terminal};
use crate::http::admin::Object;
use crate::http::admin::clients::ClientWithSecret;
use crate::telemetry::visible::visible;
use domain::Client;
use domain::client::IntegrationKind;
use registry::objects::ClientView;

pub(super) const EXAMPLES: &str = "Examples:
  token-service client add shop --type web_server --name Shop --scope projects \\
      --redirect-uri https://shop.example.com/callback
  token-service client add sync --type non_interactive --certificate cert-2026=cert.pem
  token-service client rotate-secret shop            # the old secret stays valid
  token-service client rotate-secret shop --end-old  # removes the old secret
  token-service client update shop --add-key 2026=key.jwk
  token-service client update shop --remove-key 2025 --revoke   # and end what the key got
  token-service client update shop --add-scope documents
  token-service client update shop --disable";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// Register a client. The service generates a client secret and shows it once.
    Add(Connected<New>),
    /// List clients.
    List(Connected<Listing>),
    /// Show a client.
    Show(Connected<Named<Client>>),
    /// Change the named fields of a client, and print old and new values. Asks first if grants lose scopes.
    Update(Connected<Update>),
    /// Remove a client and revoke everything issued to it.
    Remove(Connected<Removal<Client>>),
    /// Add a generated client secret, or remove the old one.
    RotateSecret(Connected<RotateSecret>),
    /// Add a certificate, PEM or DER.
    AddCertificate(Connected<AddCertificate>),
    /// Remove a certificate.
    RemoveCertificate(Connected<RemoveCertificate>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct New {
    /// The Client ID.
    #[arg(required_unless_present = "id")]
    client_id: Option<String>,
    /// The same as the argument CLIENT_ID.
    #[arg(long, value_name = "CLIENT_ID", conflicts_with = "client_id")]
    id: Option<String>,
    /// The integration type: web_server, installed, non_interactive, user_bound or legacy.
    #[arg(long, hide_possible_values = true, value_parser = PossibleValuesParser::new(IntegrationKind::NAMES))]
    r#type: String,
    #[command(flatten)]
    flags: Flags<Client, false>,
    /// The certificates of the client's assertions (non_interactive); may be repeated.
    #[arg(long = "certificate", value_name = "ALIAS=FILE")]
    certificates: Vec<String>,
}

impl Form for New {
    type Object = Client;

    fn name(&self) -> &str {
        let name = self.client_id.as_ref().or(self.id.as_ref());
        name.map_or("", String::as_str)
    }

    fn body(&self) -> anyhow::Result<Object> {
        let mut body = self.flags.body()?;
        body.insert("type".to_owned(), json!(self.r#type));
        let certificates = self.certificates.iter();
        let certificates =
            certificates.map(|named| named_file("certificate", named, ["alias", "pem"]));
        let certificates: Vec<Value> = certificates.collect::<anyhow::Result<_>>()?;
        if !certificates.is_empty() {
            body.insert("certificates".to_owned(), certificates.into());
        }
        Ok(body)
    }
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Update {
    #[command(flatten)]
    change: Keys<Client, true>,
    /// Revoke all grants and tokens of the client with the change. New tokens follow 15 seconds later.
    #[arg(long)]
    revoke: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct RotateSecret {
    #[command(flatten)]
    client: Named<Client>,
    /// Remove all secrets except the newest, instead of adding one.
    #[arg(long)]
    end_old: bool,
    /// Remove all secrets of a client that authenticates with keys.
    #[arg(long, conflicts_with = "end_old")]
    end_all: bool,
    /// With --end-old or --end-all: revoke all grants and tokens of the client too. New tokens follow 15 seconds later.
    #[arg(long)]
    revoke: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct AddCertificate {
    #[command(flatten)]
    client: Named<Client>,
    /// The certificateAlias, compared with `kid`.
    alias: String,
    /// The certificate, PEM or DER.
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct RemoveCertificate {
    #[command(flatten)]
    client: Named<Client>,
    /// The certificateAlias.
    alias: String,
    /// Revoke all grants and tokens of the client too. New tokens follow 15 seconds later.
    #[arg(long)]
    revoke: bool,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Add(arguments) => objects::add(arguments, registered).map(drop),
        Command::List(arguments) => objects::list::<Client>(arguments),
        Command::Show(arguments) => objects::show(arguments),
        Command::Update(arguments) => update(arguments),
        Command::Remove(arguments) => objects::remove(arguments),
        Command::RotateSecret(arguments) => rotate_secret(arguments),
        Command::AddCertificate(arguments) => {
            let (own, administration) = arguments.open()?;
            let bytes = std::fs::read(&own.file).with_context(|| own.file.display().to_string())?;
            let path = certificate_path(&own.client, &own.alias);
            administration
                .send_bytes(Method::PUT, &path, &bytes)?
                .print(card::<Client>)
        }
        Command::RemoveCertificate(arguments) => {
            let (own, administration) = arguments.open()?;
            let query = query(&[("revoke", flag(own.revoke))]);
            let path = certificate_path(&own.client, &own.alias) + &query;
            administration
                .act(Method::DELETE, &path)?
                .print(card::<Client>)
        }
    }
}

fn certificate_path(client: &Named<Client>, alias: &str) -> String {
    format!("{}/certificates/{}", client.path(), segment(alias))
}

fn rotate_secret(arguments: &Connected<RotateSecret>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let path = format!("{}/secrets", own.client.path());
    if own.end_old || own.end_all {
        let query = query(&[("all", flag(own.end_all)), ("revoke", flag(own.revoke))]);
        let path = path + &query;
        return administration
            .act(Method::DELETE, &path)?
            .print(card::<Client>);
    }
    anyhow::ensure!(!own.revoke, "--revoke needs --end-old or --end-all");
    administration.act(Method::POST, &path)?.print(registered)
}

/// Asks for a change that takes scopes from grants, unless a flag says yes.
fn update(arguments: &Connected<Update>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let patch = own.change.body()?;
    anyhow::ensure!(!patch.is_empty(), "nothing to change: see --help");
    let path = object_path::<Client>(own.change.name());
    if !own.yes {
        let dry = query(&[("dry_run", flag(true)), ("revoke", flag(own.revoke))]);
        let preview =
            administration.send::<ClientView>(Method::PATCH, &(path.clone() + &dry), &patch)?;
        if preview.value.losing_grants.is_some() {
            confirm(&preview.value)?;
        }
    }
    let query = query(&[("revoke", flag(own.revoke))]);
    administration
        .send(Method::PATCH, &(path + &query), &patch)?
        .print(card::<Client>)
}

/// The response to a registration: the client and its new secret.
fn registered(answer: &ClientWithSecret) -> String {
    let card = card::<Client>(&answer.client);
    match &answer.client_secret {
        None => card,
        Some(secret) => format!("{card}\n\nClient secret, shown this once:\n{secret}"),
    }
}

/// # Errors
/// If nobody says yes.
fn confirm(preview: &ClientView) -> anyhow::Result<()> {
    for line in [&preview.changes, &preview.warnings]
        .into_iter()
        .flatten()
        .flatten()
    {
        eprintln!("{}", visible(line));
    }
    anyhow::ensure!(
        std::io::stdin().is_terminal(),
        "nothing was changed: grants lose scopes; repeat the command with --yes"
    );
    terminal::confirm("Change the client?")
}
