//! `token-service user`.

use serde_json::json;
use ureq::http::Method;

use super::Connected;
use super::connection::{Administration, Answer, Refusal, flag, query};
use super::form::{Form, Keys, Named, Removal, account, object_path, path};
use super::values::card;
use super::{objects, table};
use crate::http::admin::Object;
use crate::http::admin::objects::Without;
use crate::http::admin::pages::Page;
use crate::http::admin::users::PasswordLinkView;
use crate::telemetry::visible::visible;
use domain::User;
use registry::objects::{AccountView, IdentityView, UserView};

pub(super) const EXAMPLES: &str = "Examples:
  token-service user add ada@example.com --account 1879048401,alovelace,https://us1.example.com
  token-service user invite ada@example.com             # a link with which she sets her password
  token-service user invite --without password --mail   # a message to everybody who has none
  token-service user list --cannot-sign-in
  token-service user link ada@example.com --account 1879048402,ada,https://eu1.example.com
  token-service user update ada@example.com --disable   # ends sessions, revokes what was issued";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// Register a user.
    Add(Connected<New>),
    /// List users.
    List(Connected<Users>),
    /// Show a user.
    Show(Connected<Named<User>>),
    /// Change the named fields of a user.
    Update(Connected<Keys<User, true>>),
    /// Remove a user and revoke everything issued to them.
    Remove(Connected<Removal<User>>),
    /// Print or send a link with which a user sets the first password. You never know the password.
    Invite(Connected<Invitation>),
    /// Print or send a link with which a user who forgot the password sets another one.
    ResetPassword(Connected<PasswordLink>),
    /// Remove the second factor of a user who lost the app and the recovery codes, and end the user's sessions.
    RemoveSecondFactor(Connected<Named<User>>),
    /// Link a project-information account.
    Link(Connected<Link>),
    /// Unlink a project-information account and revoke what was authorized for it.
    Unlink(Connected<Unlink>),
    /// Link an identity at an identity provider. The person can then sign in with the provider.
    LinkIdentity(Connected<LinkIdentity>),
    /// Unlink an identity and end the sessions and grants from sign-ins with it.
    UnlinkIdentity(Connected<LinkedIdentity>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct New {
    #[command(flatten)]
    keys: Keys<User, false>,
    /// Linked project-information accounts; may be repeated.
    #[arg(long = "account", value_name = "USER_ID,USERNAME,SITE", value_parser = account)]
    accounts: Vec<AccountView>,
}

impl Form for New {
    type Object = User;

    fn name(&self) -> &str {
        self.keys.name()
    }

    fn body(&self) -> anyhow::Result<Object> {
        let mut body = self.keys.body()?;
        if !self.accounts.is_empty() {
            body.insert("accounts".to_owned(), json!(self.accounts));
        }
        Ok(body)
    }
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Users {
    #[command(flatten)]
    listing: objects::Listing,
    /// Only users without a password, second factor or linked account, or (sign-in) users who have never signed in.
    #[arg(long, value_name = "WHAT")]
    without: Option<Without>,
    /// Only users with a linked identity of this issuer.
    #[arg(long, value_name = "ISSUER")]
    identity_provider: Option<String>,
    /// Only users who cannot sign in, with the reason: disabled, or with neither a password nor an identity provider.
    #[arg(long)]
    cannot_sign_in: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct PasswordLink {
    #[command(flatten)]
    user: Named<User>,
    #[command(flatten)]
    how: LinkFlags,
}

#[derive(Debug, clap::Args)]
struct LinkFlags {
    /// Hours for which the link works, 1 to 720.
    #[arg(long, default_value_t = 72)]
    hours: u32,
    /// Send the link to the user's e-mail address, and do not print it.
    #[arg(long)]
    mail: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Invitation {
    /// The account's username
    #[arg(required_unless_present = "without", conflicts_with = "without")]
    username: Option<String>,
    /// Invite every enabled user who has neither a password nor an identity provider.
    #[arg(long, value_name = "WHAT", value_parser = ["password"])]
    without: Option<String>,
    #[command(flatten)]
    how: LinkFlags,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Link {
    #[command(flatten)]
    user: Named<User>,
    /// The linked account.
    #[arg(long, value_name = "USER_ID,USERNAME,SITE", value_parser = account)]
    account: AccountView,
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
    #[arg(long, value_name = "USER_ID,USERNAME,SITE", value_parser = account, conflicts_with = "user_id")]
    account: Option<AccountView>,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct LinkedIdentity {
    #[command(flatten)]
    user: Named<User>,
    /// Issuer of the identity provider: iss of its tokens.
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// `sub` of the provider's tokens for this person.
    #[arg(long, value_name = "SUB")]
    subject: String,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct LinkIdentity {
    #[command(flatten)]
    identity: LinkedIdentity,
    /// Take the identity from the user who has it. What rests on that user's sign-ins with it ends.
    #[arg(long = "move")]
    moves: bool,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Add(arguments) => {
            let user = objects::add(arguments, card::<User>)?;
            if user.cannot_sign_in.is_some() && user.enabled {
                let next = format!(
                    "{} cannot sign in yet: token-service user invite {}",
                    user.username, user.username
                );
                eprintln!("{}", visible(&next));
            }
            Ok(())
        }
        Command::List(arguments) => {
            let (own, administration) = arguments.open()?;
            let filter = [
                ("without", own.without.map(objects::name_of)),
                ("identity_provider", own.identity_provider.clone()),
                ("cannot_sign_in", flag(own.cannot_sign_in)),
            ];
            objects::list_of::<User>(&own.listing, &administration, &filter)
        }
        Command::Show(arguments) => objects::show(arguments),
        Command::Update(arguments) => objects::update(arguments),
        Command::Remove(arguments) => objects::remove(arguments),
        Command::Invite(arguments) => {
            let (own, administration) = arguments.open()?;
            match &own.username {
                Some(name) => {
                    password_link(&administration, name, &own.how, true)?.print(link_text)
                }
                None => invite_all(&administration, &own.how),
            }
        }
        Command::ResetPassword(arguments) => {
            let (own, administration) = arguments.open()?;
            let link = password_link(&administration, &own.user.name, &own.how, false)?;
            link.print(link_text)
        }
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
            let (user_id, site) = match &own.account {
                Some(account) => (Some(account.user_id.clone()), Some(account.site.clone())),
                None => (own.user_id.clone(), own.site.clone()),
            };
            let query = query(&[("user_id", user_id), ("site", site)]);
            let path = format!("{}/accounts{query}", own.user.path());
            administration
                .act(Method::DELETE, &path)?
                .print(card::<User>)
        }
        Command::LinkIdentity(arguments) => {
            let (own, administration) = arguments.open()?;
            let LinkedIdentity {
                user,
                issuer,
                subject,
            } = &own.identity;
            let identity = IdentityView {
                issuer: issuer.clone(),
                subject: subject.clone(),
            };
            let query = query(&[("move_identities", flag(own.moves))]);
            let path = format!("{}/identities{query}", user.path());
            administration
                .send(Method::POST, &path, &identity)?
                .print(card::<User>)
        }
        Command::UnlinkIdentity(arguments) => {
            let (own, administration) = arguments.open()?;
            let query = query(&[
                ("issuer", Some(own.issuer.clone())),
                ("subject", Some(own.subject.clone())),
            ]);
            let path = format!("{}/identities{query}", own.user.path());
            administration
                .act(Method::DELETE, &path)?
                .print(card::<User>)
        }
    }
}

fn password_link(
    administration: &Administration,
    username: &str,
    how: &LinkFlags,
    first: bool,
) -> anyhow::Result<Answer<PasswordLinkView>> {
    let query = query(&[
        ("first", flag(first)),
        ("hours", Some(how.hours.to_string())),
        ("mail", flag(how.mail)),
    ]);
    let path = format!("{}/password-link{query}", object_path::<User>(username));
    administration.act(Method::POST, &path)
}

/// Where the link is, when it ends, and what to do before the person gets it.
fn link_text(link: &PasswordLinkView) -> String {
    let place = match (&link.url, &link.sent_to) {
        (Some(url), _) => url.clone(),
        (None, sent_to) => format!("Sent to {}.", sent_to.as_deref().unwrap_or_default()),
    };
    let warnings = link.warnings.iter().flatten();
    let warnings: String = warnings
        .map(|text| format!("\n\nwarning: {text}."))
        .collect();
    format!(
        "{place}\n\nWorks once, until {}.{warnings}",
        link.expires_at
    )
}

/// A link for each enabled user who cannot sign in for want of a password.
fn invite_all(administration: &Administration, how: &LinkFlags) -> anyhow::Result<()> {
    let (mut links, mut refused, mut after) = (Vec::new(), 0, None);
    // Whatever ends the loop, the links that were made are printed: only these answers show them.
    let outcome = loop {
        let query = query(&[
            ("cannot_sign_in", flag(true)),
            ("limit", Some("500".to_owned())),
            ("after", after),
        ]);
        let page = administration.get(&format!("{}{query}", path::<User>()));
        let page: Page<UserView> = match page {
            Ok(page) => page.value,
            Err(error) => break Err(error),
        };
        let mut users = page.items.iter().filter(|user| user.enabled);
        let failed = users.find_map(|user| {
            match password_link(administration, &user.username, how, true) {
                Ok(link) => links.push(link.value),
                Err(error) if error.is::<Refusal>() => {
                    refused += 1;
                    eprintln!("{}", visible(&format!("{}: {error}", user.username)));
                }
                Err(error) => return Some(error),
            }
            None
        });
        match (failed, page.next) {
            (Some(error), _) => break Err(error),
            (None, Some(next)) => after = Some(next),
            (None, None) => break Ok(()),
        }
    };
    administration.print(&links, |links| {
        let row = |link: &PasswordLinkView| {
            let place = link.url.as_ref().or(link.sent_to.as_ref());
            let place = place.cloned().unwrap_or_default();
            vec![link.username.clone(), place, link.expires_at.clone()]
        };
        let place = if how.mail { "SENT TO" } else { "LINK" };
        table::list(["USERNAME", place, "UNTIL"], links.iter().map(row))
    })?;
    outcome?;
    anyhow::ensure!(refused == 0, "users without an invitation: {refused}");
    Ok(())
}
