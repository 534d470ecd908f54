//! `token-service client`.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use ureq::http::Method;

use super::connection::{Answer, Paging, segment};
use super::{Connected, table};
use crate::admin::forms::{CertificateRegistration, ClientRegistration};
use crate::admin::views::{ClientView, ClientWithSecret, Page, SecretView};
use domain::clock::{Clock as _, SystemClock, Timestamp};

pub(super) const EXAMPLES: &str = "Examples:
  token-service client add shop --type web_server --name Shop --scope projects \\
      --redirect-uri https://shop.example.com/callback
  token-service client add sync --type non_interactive --certificate cert-2026=cert.pem
  token-service client rotate-secret shop            # the old secret goes on working
  token-service client rotate-secret shop --end-old  # ... until this
  token-service client update shop --disable";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// Register a client. A client secret is generated and shown this once.
    Add(Connected<Add>),
    /// List clients.
    List(Connected<Paging>),
    /// Show a client.
    Show(Connected<Named>),
    /// Change a client; what is not named stays.
    Update(Connected<Update>),
    /// Remove a client and revoke everything issued to it.
    Remove(Connected<Named>),
    /// Generate another client secret, or end the old one.
    RotateSecret(Connected<RotateSecret>),
    /// Add a certificate, PEM or DER.
    AddCertificate(Connected<AddCertificate>),
    /// Remove a certificate.
    RemoveCertificate(Connected<RemoveCertificate>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Named {
    /// The Client ID.
    client_id: String,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Add {
    /// The Client ID.
    #[arg(required_unless_present = "id")]
    client_id: Option<String>,
    /// The same as the argument CLIENT_ID.
    #[arg(long, value_name = "CLIENT_ID", conflicts_with = "client_id")]
    id: Option<String>,
    /// The integration type.
    #[arg(long = "type", value_name = "TYPE", value_parser = ["web_server", "installed", "non_interactive", "user_bound", "legacy"])]
    integration_type: String,
    /// The name that people see.
    #[arg(long)]
    name: Option<String>,
    /// A redirect URI, or a template of a legacy client; may be repeated.
    #[arg(long = "redirect-uri", value_name = "URI")]
    redirect_uris: Vec<String>,
    /// A scope that the client may ask for; may be repeated.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// The user as whom a user_bound client acts.
    #[arg(long, value_name = "USERNAME")]
    bound_user: Option<String>,
    /// Restrict a non_interactive client to the users of this organization.
    #[arg(long)]
    organization: Option<String>,
    /// The one instance that knows a legacy client.
    #[arg(long)]
    hostname: Option<String>,
    /// A certificate (PEM) of a non_interactive client; may be repeated.
    #[arg(long = "certificate", value_name = "ALIAS=FILE")]
    certificates: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Update {
    /// The Client ID.
    client_id: String,
    /// The name that people see.
    #[arg(long)]
    name: Option<String>,
    /// Redirect URIs in place of the old ones.
    #[arg(long = "redirect-uri", value_name = "URI")]
    redirect_uris: Vec<String>,
    /// Scopes in place of the old ones.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// The user as whom a user_bound client acts.
    #[arg(long, value_name = "USERNAME")]
    bound_user: Option<String>,
    /// The organization of a non_interactive client; empty for none.
    #[arg(long)]
    organization: Option<String>,
    /// The client may be used.
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// The client may not be used, and everything issued to it is revoked.
    #[arg(long)]
    disable: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct RotateSecret {
    /// The Client ID.
    client_id: String,
    /// End all secrets but the newest, instead of adding one.
    #[arg(long)]
    end_old: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct AddCertificate {
    /// The Client ID.
    client_id: String,
    /// The certificateAlias, compared with `kid`.
    alias: String,
    /// The certificate, PEM or DER.
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct RemoveCertificate {
    /// The Client ID.
    client_id: String,
    /// The certificateAlias.
    alias: String,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Add(arguments) => add(arguments),
        Command::List(arguments) => list(arguments),
        Command::Show(arguments) => {
            let (own, administration) = arguments.open()?;
            administration
                .get::<ClientView>(&path(&own.client_id))?
                .print(card)
        }
        Command::Update(arguments) => update(arguments),
        Command::Remove(arguments) => {
            let (own, administration) = arguments.open()?;
            administration.delete(&path(&own.client_id))
        }
        Command::RotateSecret(arguments) => rotate_secret(arguments),
        Command::AddCertificate(arguments) => {
            let (own, administration) = arguments.open()?;
            let bytes = std::fs::read(&own.file).with_context(|| own.file.display().to_string())?;
            let path = certificate_path(&own.client_id, &own.alias);
            administration
                .send_bytes::<ClientView>(Method::PUT, &path, &bytes)?
                .print(card)
        }
        Command::RemoveCertificate(arguments) => {
            let (own, administration) = arguments.open()?;
            let path = certificate_path(&own.client_id, &own.alias);
            administration
                .act::<ClientView>(Method::DELETE, &path)?
                .print(card)
        }
    }
}

fn path(client_id: &str) -> String {
    format!("/clients/{}", segment(client_id))
}

fn certificate_path(client_id: &str, alias: &str) -> String {
    format!("{}/certificates/{}", path(client_id), segment(alias))
}

fn add(arguments: &Connected<Add>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let certificates = own
        .certificates
        .iter()
        .map(|named| {
            let (alias, file) = named
                .split_once('=')
                .with_context(|| format!("--certificate {named}: expected ALIAS=FILE"))?;
            let pem = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
            Ok(CertificateRegistration {
                alias: alias.to_owned(),
                pem,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    let registration = ClientRegistration {
        client_id: own
            .client_id
            .clone()
            .or_else(|| own.id.clone())
            .unwrap_or_default(),
        name: own.name.clone(),
        integration_type: own.integration_type.clone(),
        scopes: own.scopes.clone(),
        redirect_uris: own.redirect_uris.clone(),
        bound_user: own.bound_user.clone(),
        organization: own.organization.clone(),
        hostname: own.hostname.clone(),
        certificates,
        client_secret: None,
        enabled: None,
    };
    administration
        .send(Method::POST, "/clients", &registration)?
        .print(with_secret)
}

fn list(arguments: &Connected<Paging>) -> anyhow::Result<()> {
    let (paging, administration) = arguments.open()?;
    let page: Answer<Page<ClientView>> =
        administration.get(&format!("/clients{}", paging.query(&[])))?;
    let heads = ["CLIENT ID", "TYPE", "NAME", "ENABLED", "SECRETS", ""];
    page.print(|page| table::page(page, heads, row))
}

fn row(client: &ClientView) -> [String; 6] {
    let certificates = client.certificates.iter();
    let warnings = certificates
        .filter(|certificate| certificate.state != "valid")
        .map(|certificate| format!("certificate {} {}", certificate.alias, certificate.state));
    [
        client.client_id.clone(),
        client.integration_type.clone(),
        client.name.clone(),
        table::yes(client.enabled),
        client.secrets.to_string(),
        table::lines(warnings).unwrap_or_default(),
    ]
}

fn update(arguments: &Connected<Update>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let mut patch = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            patch.insert(key.to_owned(), value);
        }
    };
    put("name", own.name.as_ref().map(|name| json!(name)));
    let given = |texts: &[String]| (!texts.is_empty()).then(|| json!(texts));
    put("redirect_uris", given(&own.redirect_uris));
    put("scopes", given(&own.scopes));
    put(
        "bound_user",
        own.bound_user.as_ref().map(|user| json!(user)),
    );
    let organization = own.organization.as_ref();
    put(
        "organization",
        organization.map(|name| {
            if name.is_empty() {
                Value::Null
            } else {
                json!(name)
            }
        }),
    );
    put(
        "enabled",
        (own.enable || own.disable).then(|| json!(own.enable)),
    );
    anyhow::ensure!(!patch.is_empty(), "nothing to change: see --help");
    administration
        .send::<ClientView>(Method::PATCH, &path(&own.client_id), &patch)?
        .print(card)
}

fn rotate_secret(arguments: &Connected<RotateSecret>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let path = format!("{}/secrets", path(&own.client_id));
    if own.end_old {
        return administration
            .act::<ClientView>(Method::DELETE, &path)?
            .print(card);
    }
    administration.act(Method::POST, &path)?.print(with_secret)
}

fn with_secret(answer: &ClientWithSecret) -> String {
    let client = card(&answer.client);
    match &answer.client_secret {
        None => client,
        Some(secret) => format!("{client}\n\nClient secret, shown this once:\n{secret}"),
    }
}

/// The live secrets with their times, the oldest first.
fn secrets(client: &ClientView) -> String {
    let now = SystemClock.now();
    let time = |at: &str| match humantime::parse_rfc3339(at) {
        Ok(moment) => {
            let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
            let ago = now.since(Timestamp::from_seconds(since.as_secs()));
            format!("{at} ({} ago)", roughly(ago))
        }
        Err(_) => at.to_owned(),
    };
    let line = |secret: &SecretView| {
        let added = secret.added_at.as_deref();
        let used = secret.last_used_at.as_deref();
        format!(
            "added {}, {}",
            added.map_or_else(|| "before times were kept".to_owned(), time),
            used.map_or_else(
                || "no use noted".to_owned(),
                |at| format!("last used {}", time(at))
            )
        )
    };
    let lines = table::lines(client.secret_times.iter().map(line));
    lines.unwrap_or_else(|| client.secrets.to_string())
}

/// The largest unit of a time alone: an old secret is some days old.
fn roughly(time: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(24 * 3600, "days"), (3600, "h"), (60, "min")];
    let seconds = time.as_secs();
    let unit = UNITS.iter().find(|(unit, _)| seconds >= *unit);
    unit.map_or_else(
        || format!("{seconds} s"),
        |(unit, name)| format!("{} {name}", seconds / unit),
    )
}

fn card(client: &ClientView) -> String {
    let certificates = client.certificates.iter().map(|certificate| {
        format!(
            "{}  x5t {}  until {}  {}",
            certificate.alias, certificate.x5t, certificate.not_after, certificate.state
        )
    });
    table::card([
        ("Client ID", Some(client.client_id.clone())),
        ("Name", Some(client.name.clone())),
        ("Type", Some(client.integration_type.clone())),
        ("Enabled", Some(table::yes(client.enabled))),
        ("Scopes", table::lines(client.scopes.iter().cloned())),
        (
            "Redirect URIs",
            table::lines(client.redirect_uris.iter().cloned()),
        ),
        ("Live secrets", Some(secrets(client))),
        ("Certificates", table::lines(certificates)),
        ("Organization", client.organization.clone()),
        ("Bound user", client.bound_user.clone()),
        ("Hostname", client.hostname.clone()),
    ])
}
