//! `token-service legacy-instance`.

use ureq::http::Method;

use super::Connected;
use super::connection::{Answer, Connection};
use super::form::{Form as _, Keys, Removal, object_path, path};
use super::objects;
use super::values::{card, rows};
use domain::LegacyInstance;
use registry::objects::LegacyInstanceView;

pub(super) const EXAMPLES: &str = "Examples:
  token-service legacy-instance put us3.example.com --auth-server sso-us3.example.com
  token-service legacy-instance put us3.example.com --auth-server sso-us3.example.com --disable";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// List the hosts of the legacy flow.
    List(Connection),
    /// Register or change a host.
    Put(Connected<Keys<LegacyInstance, false>>),
    /// Remove a host.
    Remove(Connected<Removal<LegacyInstance>>),
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(connection) => {
            let administration = connection.open()?;
            let instances: Answer<Vec<LegacyInstanceView>> =
                administration.get(&path::<LegacyInstance>())?;
            instances.print(|instances| rows(instances))
        }
        Command::Put(arguments) => {
            let (own, administration) = arguments.open()?;
            administration
                .send(
                    Method::PUT,
                    &object_path::<LegacyInstance>(own.name()),
                    &own.body()?,
                )?
                .print(card::<LegacyInstance>)
        }
        Command::Remove(arguments) => objects::remove(arguments),
    }
}
