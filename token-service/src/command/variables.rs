//! Environment variables with the prefix of this program that the program does not read: probably misspelt.

use std::ffi::OsString;

use clap::CommandFactory as _;

use super::Arguments;
use crate::config::Config;
use crate::telemetry::log::LOG_VARIABLE;
use document::{Place, Problem};

const PREFIX: &str = "TOKEN_SERVICE_";

/// Prefix of the configuration's keys, whose unknown names are problems of the configuration.
const OF_CONFIGURATION: &str = "TOKEN_SERVICE__";

/// Kubernetes sets such variables for a Service with the name `token-service`.
const OF_KUBERNETES: [&str; 2] = ["TOKEN_SERVICE_PORT", "TOKEN_SERVICE_SERVICE_"];

/// A problem for each variable among `names` that is a key of the configuration behind one underscore: nobody reads it.
pub(super) fn problems(names: impl IntoIterator<Item = OsString>) -> Vec<Problem> {
    let known = known();
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let problems = names
        .filter(|name| !known.contains(name))
        .filter_map(|name| {
            let key = name
                .strip_prefix(PREFIX)
                .filter(|key| Config::is_key(key))?;
            let message =
                format!("unknown variable; write {OF_CONFIGURATION}{key}, with two underscores");
            Some(Problem::new(&Place::Variable(name), message))
        });
    problems.collect()
}

/// The variables that commands and the log read, sorted.
fn known() -> Vec<String> {
    let mut known = vec![LOG_VARIABLE.to_owned()];
    read_by(&Arguments::command(), &mut known);
    known.sort_unstable();
    known.dedup();
    known
}

/// One warning for each unknown variable among `names`.
pub(super) fn warnings(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let known = known();
    let is_unknown = |name: &String| {
        name.starts_with(PREFIX)
            && !name.starts_with(OF_CONFIGURATION)
            && !OF_KUBERNETES.iter().any(|prefix| name.starts_with(prefix))
            && !known.contains(name)
    };
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let all = known.join(", ");
    let unknown = names.filter(is_unknown).map(|name| {
        format!("{name}: unknown variable; expected {all} or {OF_CONFIGURATION} and a key of the configuration")
    });
    unknown.collect()
}

/// Adds the variables that arguments of `command` read.
fn read_by(command: &clap::Command, known: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(clap::Arg::get_env);
    known.extend(variables.filter_map(|name| name.to_str().map(str::to_owned)));
    for command in command.get_subcommands() {
        read_by(command, known);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use clap::error::ErrorKind;

    use super::*;

    /// An empty variable counts as an empty option.
    #[test]
    fn no_variable_may_be_empty() {
        for option in ["--config", "--url", "--admin-token-file"] {
            let words = ["token-service", "user", "list", &format!("{option}=")];
            let error = Arguments::try_parse_from(words).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{option}: {error}");
        }
    }

    #[test]
    fn misspelt_variables_are_told() {
        let names = [
            "TOKEN_SERVICE_CONFIG",
            "TOKEN_SERVICE_LOG",
            "TOKEN_SERVICE_ADMIN_URL",
            "TOKEN_SERVICE_ADMIN_TOKEN_FILE",
            "TOKEN_SERVICE__COLOUR",
            "TOKEN_SERVICE_PORT_9080_TCP",
            "TOKEN_SERVICE_SERVICE_HOST",
            "PATH",
            "TOKEN_SERVICE_LOGS",
            "TOKEN_SERVICE_ISSUER",
        ];
        let problems = problems(names.map(OsString::from));
        let expected = "TOKEN_SERVICE_ISSUER: unknown variable; write TOKEN_SERVICE__ISSUER, with two underscores";
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, [expected]);
        // The problem ends the start.
        let names = names.into_iter().filter(|name| !name.ends_with("ISSUER"));
        let warnings = warnings(names.map(OsString::from));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let expected = "TOKEN_SERVICE_LOGS: unknown variable; expected TOKEN_SERVICE_ADMIN_TOKEN_FILE, \
            TOKEN_SERVICE_ADMIN_URL, TOKEN_SERVICE_CONFIG, TOKEN_SERVICE_LOG or TOKEN_SERVICE__ and a key of the \
            configuration";
        assert_eq!(warnings[0], expected);
    }
}
