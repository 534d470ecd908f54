//! `token-service legacy-instance`.

use super::Connected;
use super::connection::Answer;
use super::form::{Commanded, Named, New};
use super::objects;
use super::values::{card, rows};
use crate::admin::schema::LegacyInstanceView;
use domain::LegacyInstance;

pub(super) const EXAMPLES: &str = "Examples:
  token-service legacy-instance put us3.example.com --auth-server sso-us3.example.com
  token-service legacy-instance put us3.example.com --auth-server sso-us3.example.com --disable";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// List the hosts of the legacy flow.
    List(Connected<List>),
    /// Register or change a host.
    Put(Connected<New<LegacyInstance>>),
    /// Remove a host.
    Remove(Connected<Named<LegacyInstance>>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct List {}

impl Commanded for LegacyInstance {
    const PATH: &'static str = "/legacy-instances";
    const NAME: &'static str = "HOSTNAME";

    fn registered(instance: &LegacyInstanceView) -> String {
        card(instance)
    }
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(arguments) => {
            let (_, administration) = arguments.open()?;
            let instances: Answer<Vec<LegacyInstanceView>> =
                administration.get(LegacyInstance::PATH)?;
            instances.print(|instances| rows(instances))
        }
        Command::Put(arguments) => objects::put(arguments),
        Command::Remove(arguments) => objects::remove(arguments),
    }
}
