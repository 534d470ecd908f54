//! The commands.

mod admin;
mod assertion;
mod check;
mod copy;
mod health;
mod migrate;
mod output;
mod proof;
mod serve;
mod store;
mod variables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::config::{Config, LogFormat};
use document::InvalidDocument;

/// The configuration or an argument is wrong (`EX_USAGE` of sysexits.h).
const EXIT_USAGE: u8 = 64;

/// The running service cannot be reached (`EX_UNAVAILABLE` of sysexits.h).
const EXIT_UNAVAILABLE: u8 = 69;

/// Time limit for the reader of standard error before the process ends.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(5);

/// An OAuth 2.0 authorization service: issues tokens that a gateway verifies.
#[derive(Debug, Parser)]
#[command(
    name = "token-service",
    version,
    propagate_version = true,
    after_help = "Exit codes: 0 done, 1 refused or failed, 2 unknown arguments, 64 invalid configuration, 69 no \
                  running service."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service.
    Serve(ConfigFile),
    /// Check configuration, registrations, the files with keys and whether they fit the store, connect to the mail
    /// server, and fetch the keys of the identity providers. Print every problem with its line; exit with 1 if there is
    /// one (a mail server that does not answer is only a warning).
    Check(check::Arguments),
    /// Check whether the running service is ready; exit with 1 if not.
    Health(health::Arguments),
    /// Sign a user assertion for the JWT bearer grant (protocol.md §2.3), or a client assertion (§5.12), as an
    /// integrator would. It cannot sign the assertion of an identity provider.
    Assertion(assertion::Arguments),
    /// Make a DPoP proof for one request, as a client would (protocol.md §5.13).
    Proof(proof::Arguments),
    /// Copy everything from one store to another: from redb to PostgreSQL, back, or to a store of the same kind.
    Copy(copy::Arguments),
    /// Show how far an upgrade is, or finish the upgrade.
    Migrate(migrate::Arguments),
    /// Look into the store.
    #[command(subcommand)]
    Store(store::Command),
    #[command(flatten)]
    Administration(admin::Command),
    /// Print completions for a shell, for example: token-service completions bash >> ~/.bashrc
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Place of the configuration.
#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// The configuration file. Without one, development defaults apply. Every key can also be set in the
    /// environment: TOKEN_SERVICE__LIFETIMES__SESSION is lifetimes.session.
    #[arg(long, value_name = "FILE", env = "TOKEN_SERVICE_CONFIG")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    fn path(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    fn load(&self) -> Result<Config, InvalidDocument> {
        let config = Config::load(self.path(), std::env::vars_os());
        let more = variables::problems(std::env::vars_os().map(|(name, _)| name));
        match config {
            Ok(config) if more.is_empty() => Ok(config),
            Ok(_) => Err(InvalidDocument { problems: more }),
            Err(InvalidDocument { mut problems }) => {
                problems.extend(more);
                Err(InvalidDocument { problems })
            }
        }
    }

    /// The format of the log, even if the configuration has problems.
    fn log_format(&self) -> LogFormat {
        Config::log_format_of(self.path(), std::env::vars_os())
    }

    /// The registrations file, even if the configuration has other problems.
    fn registrations(&self) -> Option<PathBuf> {
        Config::registrations_of(self.path(), std::env::vars_os())
    }
}

/// Runs the command of the process's arguments.
pub fn run() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => Ok(serve::run(&arguments)),
        Command::Check(arguments) => check::run(&arguments),
        Command::Health(arguments) => health::run(&arguments),
        Command::Assertion(arguments) => assertion::run(&arguments),
        Command::Proof(arguments) => proof::run(&arguments),
        Command::Copy(arguments) => copy::run(&arguments),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Store(command) => store::run(&command),
        Command::Administration(command) => admin::run(&command),
        Command::Completions { shell } => {
            let name = env!("CARGO_PKG_NAME");
            let mut completions = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), name, &mut completions);
            output::bytes(&completions).map(|()| ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        // Problems start with their place, as in compiler messages.
        if let Some(problems) = error.downcast_ref::<InvalidDocument>() {
            say(&problems.to_string());
        } else if let Some(unreachable) = error.downcast_ref::<admin::Unreachable>() {
            say(&format!("token-service: {unreachable}"));
        } else if let Some(refusal) = error.downcast_ref::<admin::Refusal>() {
            let leaf = named(&Arguments::command(), &Arguments::command().get_matches());
            say(&format!("token-service: {}", in_flags(&refusal.0, &leaf)));
        } else if !error.is::<output::ReaderGone>() {
            say(&format!("token-service: {error:#}"));
        }
        exit_code(&error)
    })
}

/// The command of a line, below `command`.
fn named(command: &clap::Command, line: &clap::ArgMatches) -> clap::Command {
    let below = line.subcommand();
    let below = below.and_then(|(name, line)| Some((command.find_subcommand(name)?, line)));
    below.map_or_else(|| command.clone(), |(command, line)| named(command, line))
}

/// Parameters of the API in the words of a command.
const IN_FLAGS: [(&str, &str); 2] = [
    ("move_identities=true", "--move"),
    ("make a link without first=true", "run user reset-password"),
];

/// What the service refused, in the words of the command: the flag in place of the member or parameter that it becomes.
fn in_flags(lines: &[String], command: &clap::Command) -> String {
    let flag_of = |line: &str| {
        let (path, why) = line.split_once(": ")?;
        let (key, rest) = path.split_at(path.find(['[', '.']).unwrap_or(path.len()));
        let mut flags = command.get_arguments();
        let flag = flags.find(|flag| flag.get_id() == key)?.get_long()?;
        let member = rest
            .rsplit_once('.')
            .map(|(_, member)| format!("{member}: "));
        Some(format!("--{flag}: {}{why}", member.unwrap_or_default()))
    };
    let lines = lines.iter().map(|line| {
        let replaced = |line: String, (api, flag): &(&str, &str)| line.replace(api, flag);
        let line = IN_FLAGS.iter().fold(line.clone(), replaced);
        flag_of(&line).unwrap_or(line)
    });
    lines.collect::<Vec<String>>().join("\n")
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<InvalidDocument>() {
        ExitCode::from(EXIT_USAGE)
    } else if error.is::<admin::Unreachable>() {
        ExitCode::from(EXIT_UNAVAILABLE)
    } else if error.is::<output::ReaderGone>() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Writes the reason for the end of a command to standard error, whose reader may be stalled.
fn say(last_words: &str) {
    let standard_error = process::output::standard_error();
    let last_words = crate::telemetry::visible::visible_lines(last_words);
    standard_error.write(format!("{last_words}\n").into_bytes());
    standard_error.finish(LAST_WORDS_WITHIN);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_flags_of_the_command() {
        let of = |line: &str| {
            let words = ["token-service"].into_iter().chain(line.split(' '));
            let command = Arguments::command();
            named(&command, &command.clone().get_matches_from(words))
        };
        for (line, refusal, expected) in [
            (
                "client add shop --type web_server --redirect-uri x",
                "redirect_uris[0]: is not a URL",
                "--redirect-uri: is not a URL",
            ),
            (
                "user add ada --password-file -",
                "password: is too short",
                "--password-file: is too short",
            ),
            (
                "user add ada --account 1,a,x",
                "accounts[0].site: expected an http or https URL",
                "--account: site: expected an http or https URL",
            ),
            (
                "audit --action nosuch",
                "action: nosuch: unknown action",
                "--action: nosuch: unknown action",
            ),
            (
                "user link-identity ada --issuer https://sso.example --subject 1",
                "user ada: identities: bob has 1 of https://sso.example: unlink it there first, or add move_identities=true",
                "user ada: identities: bob has 1 of https://sso.example: unlink it there first, or add --move",
            ),
            (
                "user invite ada",
                "ada has a password: make a link without first=true",
                "ada has a password: run user reset-password",
            ),
        ] {
            assert_eq!(in_flags(&[refusal.to_owned()], &of(line)), expected);
        }
    }

    /// Key ids, grant ids and legacy refresh tokens are random base64url text.
    #[test]
    fn random_values_may_start_with_a_hyphen() {
        for line in [
            "key remove -mzNIbRgrX5gZ_6z",
            "key remove --zNIbRgrX5gZ_6z --url http://127.0.0.1:9081",
            "grant revoke -mzNIbRgrX5gZ_6z",
            "grant revoke --key -zbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
            "grant show -mzNIbRgrX5gZ_6z",
            "explain -mzNIbRgrX5gZ_6z",
            "store dump grants -mzNIbRgrX5gZ_6z",
            "explain -",
        ] {
            let words = ["token-service"].into_iter().chain(line.split(' '));
            let parsed = Arguments::try_parse_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
