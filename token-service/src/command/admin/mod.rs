//! The commands that administrate a running service, through its internal listener. None opens the store of a running
//! service.

mod apply;
mod audit;
mod backup;
mod client;
mod connection;
mod encryption_key;
mod explain;
mod form;
mod grant;
mod key;
mod legacy_instance;
mod objects;
mod revocations;
mod table;
mod terminal;
mod user;
mod values;

use std::process::ExitCode;

use clap::Subcommand;

use self::connection::{Administration, Connection};

/// Administration of a running service.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Apply what changed in a registrations file to the running service, and print it.
    #[command(after_help = apply::EXAMPLES)]
    Apply(Connected<apply::Arguments>),
    /// Let commands change an object that the registrations file or the configuration defines.
    Release(Connected<objects::HandOver>),
    /// Let the registrations file define a client or user from its next apply, or the configuration a legacy instance from the next start.
    Adopt(Connected<objects::HandOver>),
    /// Clients: add, list, show, update, remove, rotate secrets, certificates.
    #[command(subcommand, visible_alias = "clients", after_help = client::EXAMPLES)]
    Client(Box<client::Command>),
    /// Users, their linked accounts and identities: add, list, show, update, remove.
    #[command(subcommand, visible_alias = "users", after_help = user::EXAMPLES)]
    User(user::Command),
    /// Signing keys: list, rotate, remove.
    #[command(subcommand, visible_alias = "keys", after_help = key::EXAMPLES)]
    Key(key::Command),
    /// Encryption keys of the store: list, reseal.
    #[command(subcommand, after_help = encryption_key::EXAMPLES)]
    EncryptionKey(encryption_key::Command),
    /// Hosts of the legacy flow: list, put, remove.
    #[command(subcommand, after_help = legacy_instance::EXAMPLES)]
    LegacyInstance(legacy_instance::Command),
    /// What users authorized: list, show, revoke.
    #[command(subcommand, visible_alias = "grants", after_help = grant::EXAMPLES)]
    Grant(grant::Command),
    /// Revocations beyond one grant: cut off all tokens of an issuer, renew the feed.
    #[command(subcommand, after_help = revocations::EXAMPLES)]
    Revocations(revocations::Command),
    /// The audit log: list or follow.
    #[command(after_help = audit::EXAMPLES)]
    Audit(Connected<audit::Arguments>),
    /// Copy the store of the running service to a file.
    #[command(after_help = backup::EXAMPLES)]
    Backup(Connected<backup::BackupArguments>),
    /// Put a copy in the place of a store that does not exist. The service must not run.
    #[command(after_help = backup::EXAMPLES)]
    Restore(backup::RestoreArguments),
    /// Explain a token or assertion: decode it and print the result of each check with its reason.
    #[command(after_help = explain::EXAMPLES)]
    Explain(Connected<explain::Arguments>),
}

/// A command's own arguments, and how to reach the service.
#[derive(Debug, clap::Args)]
pub(super) struct Connected<A: clap::Args> {
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    connection: Connection,
}

impl<A: clap::Args> Connected<A> {
    fn open(&self) -> anyhow::Result<(&A, Administration)> {
        Ok((&self.own, self.connection.open()?))
    }
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Apply(arguments) => return apply::run(arguments),
        Command::Release(arguments) => objects::hand_over(arguments, "release")?,
        Command::Adopt(arguments) => objects::hand_over(arguments, "adopt")?,
        Command::Client(command) => client::run(command)?,
        Command::User(command) => user::run(command)?,
        Command::Key(command) => key::run(command)?,
        Command::EncryptionKey(command) => encryption_key::run(command)?,
        Command::LegacyInstance(command) => legacy_instance::run(command)?,
        Command::Grant(command) => grant::run(command)?,
        Command::Revocations(command) => revocations::run(command)?,
        Command::Audit(arguments) => audit::run(arguments)?,
        Command::Backup(arguments) => backup::take(arguments)?,
        Command::Restore(arguments) => backup::restore(arguments)?,
        Command::Explain(arguments) => return explain::run(arguments),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) use connection::{Refusal, Unreachable, reachable};
