//! `token-service user`.

use serde_json::Value;
use ureq::http::Method;

use super::Connected;
use super::connection::{Paging, query};
use super::form::{self, Change, Named, New};
use super::objects;
use super::values::card;
use crate::http::admin::Object;
use domain::User;

pub(super) const EXAMPLES: &str = "Examples:
  token-service user add ada@example.com --password-file - \\
      --account 1879048401,alovelace,https://us1.example.com < password.txt
  token-service user link ada@example.com --account 1879048402,ada,https://eu1.example.com
  token-service user update ada@example.com --disable   # ends sessions, revokes what was issued";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// Register a user.
    Add(Connected<New<User>>),
    /// List users.
    List(Connected<Paging>),
    /// Show a user.
    Show(Connected<Named<User>>),
    /// Change a user; what is not named stays.
    Update(Connected<Change<User>>),
    /// Remove a user and revoke everything issued to them.
    Remove(Connected<Named<User>>),
    /// Let commands define an object that a registrations file manages.
    Release(Connected<Named<User>>),
    /// Let the registrations file define the object, from when the file is applied next.
    Adopt(Connected<Named<User>>),
    /// Remove the second factor of a user who lost the app and the recovery codes, and end the user's sessions.
    RemoveSecondFactor(Connected<Named<User>>),
    /// Link a project-information account.
    Link(Connected<Link>),
    /// Unlink a project-information account and revoke what was authorized for it.
    Unlink(Connected<Unlink>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Link {
    #[command(flatten)]
    user: Named<User>,
    /// The linked account.
    #[arg(long, value_name = "USER_ID,USERNAME,SITE", value_parser = form::account)]
    account: Object,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Unlink {
    #[command(flatten)]
    user: Named<User>,
    /// User ID of the linked account.
    #[arg(required_unless_present = "account", requires = "site")]
    user_id: Option<String>,
    /// URL of its instance.
    site: Option<String>,
    /// The linked account as for link, in place of User ID and site. Its username is not compared.
    #[arg(long, value_name = "USER_ID,USERNAME,SITE", value_parser = form::account, conflicts_with = "user_id")]
    account: Option<Object>,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Add(arguments) => objects::add(arguments),
        Command::List(arguments) => objects::list::<User>(arguments),
        Command::Show(arguments) => objects::show(arguments),
        Command::Update(arguments) => objects::update(arguments),
        Command::Remove(arguments) => objects::remove(arguments),
        Command::Release(arguments) => objects::hand_over(arguments, "release"),
        Command::Adopt(arguments) => objects::hand_over(arguments, "adopt"),
        Command::RemoveSecondFactor(arguments) => {
            let (own, administration) = arguments.open()?;
            administration.delete(&format!("{}/second-factor", own.path()))
        }
        Command::Link(arguments) => {
            let (own, administration) = arguments.open()?;
            let path = format!("{}/accounts", own.user.path());
            administration
                .send(Method::POST, &path, &own.account)?
                .print(card::<User>)
        }
        Command::Unlink(arguments) => {
            let (own, administration) = arguments.open()?;
            let part = |key: &str, given: &Option<String>| {
                let account = own.account.as_ref().and_then(|account| account.get(key));
                let part = account.and_then(Value::as_str).map(str::to_owned);
                part.or_else(|| given.clone())
            };
            let query = query(&[
                ("user_id", part("user_id", &own.user_id)),
                ("site", part("site", &own.site)),
            ]);
            let path = format!("{}/accounts{query}", own.user.path());
            administration
                .act(Method::DELETE, &path)?
                .print(card::<User>)
        }
    }
}
