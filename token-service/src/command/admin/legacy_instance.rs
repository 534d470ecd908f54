//! `token-service legacy-instance`.

use serde::Serialize;
use ureq::http::Method;

use super::Connected;
use super::connection::{Answer, Connection};
use super::form::{Named, Removal, given, help_of_new, path};
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
    Put(Connected<Put>),
    /// Remove a host.
    Remove(Connected<Removal<LegacyInstance>>),
}

#[derive(Debug, clap::Args, Serialize)]
#[command(mut_args = help_of_new)]
pub(in crate::command) struct Put {
    #[command(flatten)]
    #[serde(skip)]
    instance: Named<LegacyInstance>,
    /// The host of `/as/token.oauth2`.
    #[arg(long = "auth-server", value_name = "HOST")]
    auth_server_hostname: String,
    /// OAuth2 is not enabled on the host.
    #[arg(long = "disable", num_args = 0, default_missing_value = "false")]
    enabled: Option<bool>,
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
                .send(Method::PUT, &own.instance.path(), &given(own)?)?
                .print(card::<LegacyInstanceView>)
        }
        Command::Remove(arguments) => objects::remove(arguments),
    }
}
