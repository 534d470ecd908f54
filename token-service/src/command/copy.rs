//! `token-service copy`.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::output;
use crate::config::StoreUrl;
use secrets::text_file;
use store::{Copied, Place};

/// Time between two lines about the progress.
const LINE_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  token-service copy --from redb:data/token-service.redb --to @/etc/token-service/database-url
  token-service copy --from redb:token-service-2026-11-21.backup --to postgres://service@db.example.com/tokens
  token-service copy --from @/etc/token-service/database-url --to redb:data/token-service.redb

No token service may use either store. The copy opens with the encryption key of its source (encryption_key_file).
Tokens, refresh tokens and sessions stay valid; gateways read the revocation feed again from its start.")]
pub(super) struct Arguments {
    /// The store to copy: redb:PATH (also a backup), postgres://USER:PASSWORD@HOST/DATABASE, or @FILE with such a URL,
    /// because other users of this machine can read arguments.
    #[arg(long, value_name = "URL")]
    from: String,
    /// The store to write, as for --from: a file that does not exist, or an empty database.
    #[arg(long, value_name = "URL")]
    to: String,
    /// PEM file with the CA certificates that the command trusts for PostgreSQL. Default: the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl Arguments {
    fn store(&self, option: &str, url: &str) -> anyhow::Result<StoreUrl> {
        let ca_file = self.ca_file.clone();
        let url = match url.strip_prefix('@') {
            Some(file) => &text_file::text(file.as_ref()).with_context(|| file.to_owned())?,
            None => url,
        };
        let store = StoreUrl::parse(url.trim(), ca_file).map_err(anyhow::Error::msg);
        store.with_context(|| option.to_owned())
    }
}

pub(super) fn place(store: &StoreUrl) -> Place<'_> {
    match store {
        StoreUrl::Redb(path) => Place::Redb(path),
        StoreUrl::Postgres(settings) => Place::Postgres(settings),
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let from = arguments.store("--from", &arguments.from)?;
    let to = arguments.store("--to", &arguments.to)?;
    let last_line = Cell::new(Instant::now());
    let progress = |done: &str, table: &str, rows: u64| {
        if last_line.get().elapsed() >= LINE_EVERY {
            eprintln!("{done} {rows} rows of {table}");
            last_line.set(Instant::now());
        }
    };
    let copy = store::copy(place(&from), place(&to), progress);
    for Copied {
        table,
        rows,
        digest,
    } in actix_web::rt::System::new().block_on(copy)?
    {
        output::line(format_args!("{table:<20} {rows:>10} rows  {digest:032x}"))?;
    }
    output::line(format_args!("{to}: copied and verified"))?;
    Ok(ExitCode::SUCCESS)
}
