//! `token-service grant`.

use ureq::http::Method;

use super::connection::{Answer, Paging, query, segment};
use super::values::account;
use super::{Connected, table};
use crate::command::output::counted;
use crate::http::admin::grants::{GrantView, RevokedGrants};
use crate::http::admin::pages::Page;

pub(super) const EXAMPLES: &str = "Examples:
  token-service grant list --user ada@example.com
  token-service grant revoke GRANT_ID    # the claim grant_id of its tokens
  token-service grant revoke --user ada@example.com
  token-service grant revoke --client shop --user ada@example.com
  token-service grant revoke --key THUMBPRINT    # a lost device: jkt or x5t#S256 in the claim cnf of its tokens";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// List grants.
    List(Connected<List>),
    /// Show a grant.
    Show(Connected<Named>),
    /// Revoke a grant, or everything that was issued to a user or client or is bound to a key or certificate. The
    /// service refuses the refresh tokens, and gateways refuse the access tokens. Tokens without a refresh token have a
    /// grant_id too, which `grant list` does not show.
    Revoke(Connected<Revoke>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Named {
    /// The grant's id: the claim `grant_id` of its tokens.
    #[arg(allow_hyphen_values = true)]
    grant_id: String,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Revoke {
    /// The grant's id: the claim `grant_id` of its tokens.
    #[arg(allow_hyphen_values = true, required_unless_present_any = ["client", "user", "key"], conflicts_with_all = ["client", "user", "key"])]
    grant_id: Option<String>,
    /// All grants and access tokens of this client.
    #[arg(long, value_name = "CLIENT_ID")]
    client: Option<String>,
    /// All grants and access tokens of this user. With --client: only those at this client.
    #[arg(long, value_name = "USERNAME")]
    user: Option<String>,
    /// All grants and access tokens that are bound to the key or certificate with this thumbprint, for a lost device. `grant
    /// list` and `audit` show the thumbprint.
    #[arg(long, value_name = "THUMBPRINT", allow_hyphen_values = true, conflicts_with_all = ["client", "user"])]
    key: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct List {
    /// Only grants of this client.
    #[arg(long, value_name = "CLIENT_ID")]
    client: Option<String>,
    /// Only grants of this user.
    #[arg(long, value_name = "USERNAME")]
    user: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(arguments) => list(arguments),
        Command::Show(arguments) => {
            let (own, administration) = arguments.open()?;
            administration
                .get::<GrantView>(&path(&own.grant_id))?
                .print(card)
        }
        Command::Revoke(arguments) => {
            let (own, administration) = arguments.open()?;
            if let Some(grant_id) = &own.grant_id {
                return administration.delete(&path(grant_id));
            }
            let query = query(&[
                ("client_id", own.client.clone()),
                ("username", own.user.clone()),
                ("jkt", own.key.clone()),
            ]);
            administration
                .act::<RevokedGrants>(Method::DELETE, &format!("/grants{query}"))?
                .print(|done| {
                    let of = own.client.iter().map(|client| format!(" to {client}"));
                    let whom: String = of
                        .chain(own.user.iter().map(|user| format!(" for {user}")))
                        .chain(own.key.iter().map(|key| format!(" for the key {key}")))
                        .collect();
                    format!(
                        "{} revoked, and every access token that was issued{whom} up to {}.",
                        counted(done.revoked, "grant"),
                        done.issued_up_to
                    )
                })
        }
    }
}

fn path(grant_id: &str) -> String {
    format!("/grants/{}", segment(grant_id))
}

fn list(arguments: &Connected<List>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let query = own.paging.query(&[
        ("client_id", own.client.clone()),
        ("username", own.user.clone()),
    ]);
    let page: Answer<Page<GrantView>> = administration.get(&format!("/grants{query}"))?;
    let heads = [
        "GRANT",
        "CLIENT",
        "USER",
        "ACCOUNT",
        "ISSUED",
        "EXPIRES",
        "KEY OR CERTIFICATE",
        "REVOKED",
    ];
    page.print(|page| {
        table::page(page, heads, |grant| {
            let bound_to: Vec<&str> = [&grant.jkt, &grant.certificate]
                .into_iter()
                .filter_map(Option::as_deref)
                .collect();
            [
                grant.grant_id.clone(),
                grant.client_id.clone(),
                grant.username.clone(),
                grant.account.user_id.clone(),
                grant.last_issued_at.clone(),
                grant.expires_at.clone(),
                bound_to.join(" "),
                grant.revoked_at.clone().unwrap_or_default(),
            ]
        })
    })
}

fn card(grant: &GrantView) -> String {
    table::card([
        ("Grant", Some(grant.grant_id.clone())),
        ("Client", Some(grant.client_id.clone())),
        ("User", Some(grant.username.clone())),
        ("Account", Some(account(&grant.account))),
        ("Scope", Some(grant.scope.clone())),
        ("Signed in", Some(grant.authenticated_at.clone())),
        ("Issued", Some(grant.last_issued_at.clone())),
        ("Expires", Some(grant.expires_at.clone())),
        ("Key", grant.jkt.clone()),
        ("Certificate", grant.certificate.clone()),
        ("Revoked", grant.revoked_at.clone()),
    ])
}
