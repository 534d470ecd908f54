//! `token-service key`.

use ureq::http::Method;

use super::connection::{Answer, Connection, segment};
use super::{Connected, table};
use crate::http::admin::keys::{KeyView, RotationRequest};

pub(super) const EXAMPLES: &str = "Examples:
  token-service key list
  token-service key rotate               # announced first: no request notices
  token-service key rotate --immediate   # for a key that got into wrong hands ...
  token-service key rotate --immediate --cut-off   # ... and its tokens end within moments
  token-service key remove KID           # ... whose tokens shall be worthless";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// List signing keys with their states and dates.
    List(Connection),
    /// Make the successor of each signing key.
    Rotate(Connected<Rotate>),
    /// Remove a key that does not sign. Gateways refuse its tokens after their next fetch of the keys.
    Remove(Connected<Remove>),
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Rotate {
    /// The new keys sign at once, without announcement.
    #[arg(long)]
    immediate: bool,
    /// End every earlier access token of all issuers at once: every client needs one refresh. Without this flag, the tokens
    /// of a removed key end when each gateway fetches the keys again.
    #[arg(long, requires = "immediate")]
    cut_off: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Remove {
    /// The key identifier.
    #[arg(allow_hyphen_values = true)]
    kid: String,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(connection) => {
            let answer: Answer<Vec<KeyView>> = connection.open()?.get("/keys")?;
            answer.print(|answer| keys(answer))
        }
        Command::Rotate(arguments) => {
            let (own, administration) = arguments.open()?;
            let request = RotationRequest {
                immediate: own.immediate,
                cut_off: own.cut_off,
            };
            let answer: Answer<Vec<KeyView>> =
                administration.send(Method::POST, "/keys/rotate", &request)?;
            answer.print(|answer| keys(answer))
        }
        Command::Remove(arguments) => {
            let (own, administration) = arguments.open()?;
            administration.delete(&format!("/keys/{}", segment(&own.kid)))
        }
    }
}

fn keys(keys: &[KeyView]) -> String {
    let rows = keys.iter().map(|key| {
        [
            key.kid.clone(),
            key.algorithm.clone(),
            key.state.clone(),
            key.created_at.clone(),
            key.signs_from.clone(),
            key.retired_at.clone().unwrap_or_default(),
            key.forgotten_at.clone().unwrap_or_default(),
        ]
    });
    let heads = [
        "KID",
        "ALGORITHM",
        "STATE",
        "CREATED",
        "SIGNS FROM",
        "RETIRED",
        "FORGOTTEN",
    ];
    table::list(heads, rows)
}
