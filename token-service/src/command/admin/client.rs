//! `token-service client`.

use std::path::PathBuf;

use anyhow::Context as _;
use ureq::http::Method;

use super::Connected;
use super::connection::{Paging, segment};
use super::form::{Change, Named, New};
use super::objects::{self, registered};
use super::values::card;
use domain::Client;

pub(super) const EXAMPLES: &str = "Examples:
  token-service client add shop --type web_server --name Shop --scope projects \\
      --redirect-uri https://shop.example.com/callback
  token-service client add sync --type non_interactive --certificate cert-2026=cert.pem
  token-service client rotate-secret shop            # the old secret goes on working
  token-service client rotate-secret shop --end-old  # ... until this
  token-service client update shop --key 2026=key.jwk
  token-service client update shop --disable";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// Register a client. The service generates a client secret and shows it once.
    Add(Connected<New<Client>>),
    /// List clients.
    List(Connected<Paging>),
    /// Show a client.
    Show(Connected<Named<Client>>),
    /// Change the named fields of a client.
    Update(Connected<Change<Client>>),
    /// Remove a client and revoke everything issued to it.
    Remove(Connected<Named<Client>>),
    /// Add a generated client secret, or remove the old one.
    RotateSecret(Connected<RotateSecret>),
    /// Add a certificate, PEM or DER.
    AddCertificate(Connected<AddCertificate>),
    /// Remove a certificate.
    RemoveCertificate(Connected<RemoveCertificate>),
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
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Add(arguments) => objects::add(arguments),
        Command::List(arguments) => objects::list::<Client>(arguments),
        Command::Show(arguments) => objects::show(arguments),
        Command::Update(arguments) => objects::update(arguments),
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
            let path = certificate_path(&own.client, &own.alias);
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
        let path = match own.end_all {
            true => path + "?all=true",
            false => path,
        };
        return administration
            .act(Method::DELETE, &path)?
            .print(card::<Client>);
    }
    administration
        .act(Method::POST, &path)?
        .print(registered::<Client>)
}
