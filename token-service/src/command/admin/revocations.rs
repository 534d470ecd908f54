//! `token-service revocations`.

use ureq::http::Method;

use super::connection::{Answer, Connection};
use super::{Connected, table};
use crate::http::admin::revocations::{CutOffRequest, CutOffView, FeedView};

pub(super) const EXAMPLES: &str = "Examples:
  token-service revocations cut-off      # every access token that was issued until now
  token-service revocations cut-off --issuer https://us1.legacy.example --before 2026-01-31T12:00:00Z
  token-service revocations renew-feed   # after a PostgreSQL database was restored from a copy";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// End every access token of an issuer that was issued before a time. Gateways refuse them and introspection answers
    /// inactive. Refresh tokens stay valid: each client refreshes once, and nobody has to sign in again. Clients without a
    /// refresh token request a new access token.
    CutOff(Connected<CutOff>),
    /// Give the revocation feed a new identity, so that every gateway reads it from its start. Run it after a PostgreSQL
    /// database was restored from a copy; the command restore does the same for a redb file.
    RenewFeed(Connection),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct CutOff {
    /// Claim iss of the tokens: https:// and the hostname of a legacy instance, or an issuer. Default: the issuer of the
    /// configuration.
    #[arg(long, value_name = "ISSUER")]
    issuer: Option<String>,
    /// End tokens that were issued before this time, in RFC 3339, not in the future. Default: now, including the
    /// current second.
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::CutOff(arguments) => {
            let (own, administration) = arguments.open()?;
            let request = CutOffRequest {
                issuer: own.issuer.clone(),
                before: own.before.clone(),
            };
            let answer: Answer<CutOffView> =
                administration.send(Method::POST, "/revocations/cut-off", &request)?;
            answer.print(|cut_off| {
                table::card([
                    ("Issuer", Some(cut_off.issuer.clone())),
                    ("Issued up to", Some(cut_off.issued_up_to.clone())),
                ])
            })
        }
        Command::RenewFeed(connection) => {
            let administration = connection.open()?;
            let answer: Answer<FeedView> =
                administration.act(Method::POST, "/revocations/renew-feed")?;
            answer.print(|feed| table::card([("Feed", Some(feed.feed.clone()))]))
        }
    }
}
