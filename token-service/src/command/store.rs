//! `token-service store`.

use std::process::ExitCode;

use super::copy::place;
use super::{ConfigFile, output};
use store::Dump;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Print keys and rows of a table, one JSON object on a line.
    #[command(after_help = "Examples:
  token-service store dump grants_of_users ada
  token-service store dump grants AZPiNm2acE2LWvhIFuqQ1w
  TOKEN_SERVICE__STORE__URL=redb:today.backup token-service store dump users | jq 'select(.row.enabled | not).key[0]'

Left out are secrets, hashes, sealed values (signing keys, TOTP secrets), recovery codes, digests of links, and texts of messages.
Times are seconds since 1970. Another name than that of a table prints the tables.

Services may use a PostgreSQL database meanwhile: the command reads 1000 rows at a time, each time the newest. A redb file that a
service has open is refused: dump a backup of it.")]
    Dump(Arguments),
}

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The table.
    table: String,
    /// Only rows whose key begins with this part, as the command prints it: a username, a Client ID, an id, a number.
    #[arg(allow_hyphen_values = true)]
    prefix: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Dump(Arguments {
        table,
        prefix,
        config,
    }) = command;
    let config = config.load()?;
    actix_web::rt::System::new().block_on(async {
        let mut dump = Dump::open(place(&config.store), table, prefix.as_deref()).await?;
        while let Some(rows) = dump.page().await? {
            output::json_lines(&rows)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
