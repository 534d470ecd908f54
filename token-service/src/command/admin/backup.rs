//! `token-service backup` and `token-service restore`.

use std::fs::File;
use std::path::PathBuf;

use anyhow::Context as _;

use super::Connected;
use crate::command::{ConfigFile, output};
use crate::config::StoreUrl;
use store::redb;

pub(super) const EXAMPLES: &str = "Examples:
  token-service backup token-service-2026-11-21.backup
  token-service restore token-service-2026-11-21.backup --config config.toml

A copy opens only with the encryption key (encryption_key_file), which is not in it: keep that safe elsewhere.";

#[derive(Debug, clap::Args)]
pub(in crate::command) struct BackupArguments {
    /// The file to write; it must not exist.
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(in crate::command) struct RestoreArguments {
    /// The copy.
    file: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) fn take(arguments: &Connected<BackupArguments>) -> anyhow::Result<()> {
    let (own, administration) = arguments.open()?;
    let name = own.file.display();
    anyhow::ensure!(!own.file.exists(), "{name} exists already");
    let folder = match own.file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => std::path::Path::new("."),
    };
    // The file gets its name when it is complete; temporary files have mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(|| name.to_string())?;
    let mut copy = administration.download("/backup")?;
    let bytes =
        std::io::copy(&mut copy.as_reader(), &mut file).with_context(|| name.to_string())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(&own.file)?;
    File::open(folder)?.sync_all()?;
    output::line(format_args!("{name}: {bytes} bytes"))
}

pub(super) fn restore(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let config = arguments.config.load()?;
    let StoreUrl::Redb(store) = &config.store else {
        anyhow::bail!("a PostgreSQL store is restored with its own tools: pg_restore");
    };
    redb::restore(&arguments.file, store)?;
    output::line(format_args!("{}: restored", store.display()))
}
