//! `token-service legacy-instance`.

use super::Connected;
use super::connection::{Answer, Connection};
use super::form::{Named, New, path};
use super::objects;
use super::values::rows;
use crate::http::admin::Object;
use domain::LegacyInstance;

pub(super) const EXAMPLES: &str = "Examples:
  token-service legacy-instance put us3.example.com --auth-server sso-us3.example.com
  token-service legacy-instance put us3.example.com --auth-server sso-us3.example.com --disable";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// List the hosts of the legacy flow.
    List(Connection),
    /// Register or change a host.
    Put(Connected<New<LegacyInstance>>),
    /// Remove a host.
    Remove(Connected<Named<LegacyInstance>>),
    /// Let commands define a host that the configuration lists.
    Release(Connected<Named<LegacyInstance>>),
    /// Let the configuration define the host, from the next start.
    Adopt(Connected<Named<LegacyInstance>>),
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(connection) => {
            let administration = connection.open()?;
            let instances: Answer<Vec<Object>> = administration.get(&path::<LegacyInstance>())?;
            instances.print(|instances| rows::<LegacyInstance>(instances))
        }
        Command::Put(arguments) => objects::put(arguments),
        Command::Remove(arguments) => objects::remove(arguments),
        Command::Release(arguments) => objects::hand_over(arguments, "release"),
        Command::Adopt(arguments) => objects::hand_over(arguments, "adopt"),
    }
}
