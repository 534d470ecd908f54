//! `token-service legacy-instance`.

use ureq::http::Method;

use super::connection::{Answer, segment};
use super::{Connected, table};
use crate::admin::forms::LegacyInstanceRegistration;
use crate::admin::views::LegacyInstanceView;

pub(super) const EXAMPLES: &str = "Examples:
  token-service legacy-instance put us3.example.com --auth-server sso-us3.example.com
  token-service legacy-instance put us3.example.com --auth-server sso-us3.example.com --disable";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// List the hosts of the legacy flow.
    List(Connected<List>),
    /// Register or change a host.
    Put(Connected<Put>),
    /// Remove a host.
    Remove(Connected<Remove>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct List {}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Put {
    /// The host of /OAuthStatus and /Logon.
    hostname: String,
    /// The host of /as/token.oauth2.
    #[arg(long, value_name = "HOST")]
    auth_server: String,
    /// OAuth2 is not enabled on the host.
    #[arg(long)]
    disable: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Remove {
    /// The host.
    hostname: String,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(arguments) => {
            let (_, administration) = arguments.open()?;
            let instances: Answer<Vec<LegacyInstanceView>> =
                administration.get("/legacy-instances")?;
            instances.print(|instances| rows(instances))
        }
        Command::Put(arguments) => {
            let (own, administration) = arguments.open()?;
            let registration = LegacyInstanceRegistration {
                auth_server_hostname: own.auth_server.clone(),
                enabled: Some(!own.disable),
            };
            administration
                .send::<LegacyInstanceView>(Method::PUT, &path(&own.hostname), &registration)?
                .print(|instance| rows(std::slice::from_ref(instance)))
        }
        Command::Remove(arguments) => {
            let (own, administration) = arguments.open()?;
            administration.delete(&path(&own.hostname))
        }
    }
}

fn path(hostname: &str) -> String {
    format!("/legacy-instances/{}", segment(hostname))
}

fn rows(instances: &[LegacyInstanceView]) -> String {
    let rows = instances.iter().map(|instance| {
        [
            instance.hostname.clone(),
            instance.auth_server_hostname.clone(),
            table::yes(instance.enabled),
        ]
    });
    table::list(["HOSTNAME", "AUTHORIZATION SERVER", "ENABLED"], rows)
}
