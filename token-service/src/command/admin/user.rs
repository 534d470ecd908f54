//! `token-service user`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use ureq::http::Method;
use zeroize::Zeroizing;

use super::connection::{Answer, Paging, query, segment};
use super::{Connected, table};
use crate::admin::forms::UserRegistration;
use crate::admin::views::{AccountView, Page, UserView};

pub(super) const EXAMPLES: &str = "Examples:
  token-service user add ada@example.com --password-file - \\
      --account 1879048401,alovelace,https://us1.example.com < password.txt
  token-service user link ada@example.com --account 1879048402,ada,https://eu1.example.com
  token-service user update ada@example.com --disable   # ends sessions, revokes what was issued";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// Register a user.
    Add(Connected<Add>),
    /// List users.
    List(Connected<Paging>),
    /// Show a user.
    Show(Connected<Named>),
    /// Change a user; what is not named stays.
    Update(Connected<Update>),
    /// Remove a user and revoke everything issued to them.
    Remove(Connected<Named>),
    /// Remove a user's second factor, for somebody who has lost app and recovery codes; ends the user's sessions.
    RemoveSecondFactor(Connected<Named>),
    /// Link a project-information account.
    Link(Connected<Link>),
    /// Unlink a project-information account and revoke what was authorized for it.
    Unlink(Connected<Unlink>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Named {
    /// The account's username.
    username: String,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Add {
    /// The account's username.
    username: String,
    /// E-mail address, for legacy single sign-on.
    #[arg(long)]
    email: Option<String>,
    /// The file with the password; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The file with the TOTP secret in BASE32; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    totp_secret_file: Option<PathBuf>,
    /// Organization.
    #[arg(long)]
    organization: Option<String>,
    /// The legacy flow may find the user by e-mail.
    #[arg(long)]
    single_sign_on: bool,
    /// A linked account; may be repeated.
    #[arg(long = "account", value_name = "USER_ID,USERNAME,SITE", value_parser = account)]
    accounts: Vec<AccountView>,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Update {
    /// The account's username.
    username: String,
    /// E-mail address; empty for none.
    #[arg(long)]
    email: Option<String>,
    /// The file with the new password; `-` for standard input. Ends sessions and revokes what was issued.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Organization; empty for none.
    #[arg(long)]
    organization: Option<String>,
    /// The user may sign in and be named.
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// The user may neither sign in nor be named; ends sessions and revokes what was issued.
    #[arg(long)]
    disable: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Link {
    /// The account's username.
    username: String,
    /// The linked account.
    #[arg(long, value_name = "USER_ID,USERNAME,SITE", value_parser = account)]
    account: AccountView,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Unlink {
    /// The account's username.
    username: String,
    /// User ID of the linked account.
    user_id: String,
    /// URL of its instance.
    site: String,
}

fn account(text: &str) -> Result<AccountView, &'static str> {
    let mut parts = text.splitn(3, ',').map(str::to_owned);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(user_id), Some(username), Some(site)) => Ok(AccountView {
            user_id,
            username,
            site,
        }),
        _ => Err("expected USER_ID,USERNAME,SITE"),
    }
}

/// A secret from a file or standard input, without the line end that editors leave.
fn secret(file: &Path) -> anyhow::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("standard input")?;
    } else {
        text = Zeroizing::new(
            std::fs::read_to_string(file).with_context(|| file.display().to_string())?,
        );
    }
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    Ok(text)
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Add(arguments) => add(arguments),
        Command::List(arguments) => list(arguments),
        Command::Show(arguments) => {
            let (own, administration) = arguments.open()?;
            administration
                .get::<UserView>(&path(&own.username))?
                .print(card)
        }
        Command::Update(arguments) => update(arguments),
        Command::Remove(arguments) => {
            let (own, administration) = arguments.open()?;
            administration.delete(&path(&own.username))
        }
        Command::RemoveSecondFactor(arguments) => {
            let (own, administration) = arguments.open()?;
            administration.delete(&format!("{}/second-factor", path(&own.username)))
        }
        Command::Link(arguments) => {
            let (own, administration) = arguments.open()?;
            let path = format!("{}/accounts", path(&own.username));
            administration
                .send::<UserView>(Method::POST, &path, &own.account)?
                .print(card)
        }
        Command::Unlink(arguments) => {
            let (own, administration) = arguments.open()?;
            let query = query(&[
                ("user_id", Some(own.user_id.clone())),
                ("site", Some(own.site.clone())),
            ]);
            let path = format!("{}/accounts{query}", path(&own.username));
            administration
                .act::<UserView>(Method::DELETE, &path)?
                .print(card)
        }
    }
}

fn path(username: &str) -> String {
    format!("/users/{}", segment(username))
}

fn add(arguments: &Connected<Add>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let read = |file: &Option<PathBuf>| -> anyhow::Result<Option<String>> {
        let secret = file.as_deref().map(secret).transpose()?;
        Ok(secret.map(|secret| secret.to_string()))
    };
    let registration = UserRegistration {
        username: own.username.clone(),
        email: own.email.clone(),
        password: read(&own.password_file)?,
        totp_secret: read(&own.totp_secret_file)?,
        organization: own.organization.clone(),
        single_sign_on: own.single_sign_on.then_some(true),
        accounts: own.accounts.clone(),
        ..UserRegistration::default()
    };
    administration
        .send::<UserView>(Method::POST, "/users", &registration)?
        .print(card)
}

fn list(arguments: &Connected<Paging>) -> anyhow::Result<()> {
    let (paging, administration) = arguments.open()?;
    let page: Answer<Page<UserView>> =
        administration.get(&format!("/users{}", paging.query(&[])))?;
    let heads = [
        "USERNAME",
        "E-MAIL",
        "ORGANIZATION",
        "ENABLED",
        "TOTP",
        "ACCOUNTS",
    ];
    page.print(|page| {
        table::page(page, heads, |user| {
            [
                user.username.clone(),
                user.email.clone().unwrap_or_default(),
                user.organization.clone().unwrap_or_default(),
                table::yes(user.enabled),
                table::yes(user.has_totp),
                user.accounts.len().to_string(),
            ]
        })
    })
}

fn update(arguments: &Connected<Update>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let mut patch = Map::new();
    for (key, text) in [("email", &own.email), ("organization", &own.organization)] {
        if let Some(text) = text {
            let value = if text.is_empty() {
                Value::Null
            } else {
                json!(text)
            };
            patch.insert(key.to_owned(), value);
        }
    }
    if let Some(file) = &own.password_file {
        patch.insert("password".to_owned(), json!(*secret(file)?));
    }
    if own.enable || own.disable {
        patch.insert("enabled".to_owned(), json!(own.enable));
    }
    anyhow::ensure!(!patch.is_empty(), "nothing to change: see --help");
    administration
        .send::<UserView>(Method::PATCH, &path(&own.username), &patch)?
        .print(card)
}

fn card(user: &UserView) -> String {
    let accounts = user.accounts.iter().map(|account| {
        format!(
            "{}  {}  {}",
            account.user_id, account.username, account.site
        )
    });
    table::card([
        ("Username", Some(user.username.clone())),
        ("E-mail", user.email.clone()),
        ("Organization", user.organization.clone()),
        ("Enabled", Some(table::yes(user.enabled))),
        ("Password", Some(table::yes(user.has_password))),
        ("TOTP", Some(table::yes(user.has_totp))),
        ("Single sign-on", Some(table::yes(user.single_sign_on))),
        ("Linked accounts", table::lines(accounts)),
    ])
}
