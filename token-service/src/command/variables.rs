//! Environment variables with the prefix of this program that the program does not read: probably misspelt.

use std::ffi::OsString;

use clap::CommandFactory as _;
use document::unknown;

use super::Arguments;
use super::telemetry::LOG_VARIABLE;

const PREFIX: &str = "TOKEN_SERVICE_";

/// Prefix of the configuration's keys, whose unknown names are problems of the configuration.
const OF_CONFIGURATION: &str = "TOKEN_SERVICE__";

/// Kubernetes sets such variables for a Service with the name `token-service`.
const OF_KUBERNETES: [&str; 2] = ["TOKEN_SERVICE_PORT", "TOKEN_SERVICE_SERVICE_"];

/// One warning for each unknown variable among `names`.
pub(super) fn warnings(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let mut known = vec![LOG_VARIABLE.to_owned()];
    read_by(&Arguments::command(), &mut known);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let is_unknown = |name: &String| {
        name.starts_with(PREFIX)
            && !name.starts_with(OF_CONFIGURATION)
            && !OF_KUBERNETES.iter().any(|prefix| name.starts_with(prefix))
            && !known.contains(&name.as_str())
    };
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let unknown = names.filter(is_unknown).map(|name| {
        let message = unknown("variable", &name, &known);
        format!("{name}: {message} (keys of the configuration start with {OF_CONFIGURATION})")
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
    use super::*;

    #[test]
    fn misspelt_variables_are_told() {
        let names = [
            "TOKEN_SERVICE_CONFIG",
            "TOKEN_SERVICE_LOG",
            "TOKEN_SERVICE_ADMIN_URL",
            "TOKEN_SERVICE__COLOUR",
            "TOKEN_SERVICE_PORT_9080_TCP",
            "TOKEN_SERVICE_SERVICE_HOST",
            "PATH",
            "TOKEN_SERVICE_LOGS",
            "TOKEN_SERVICE_ISSUER",
        ];
        let hint = "(keys of the configuration start with TOKEN_SERVICE__)";
        assert_eq!(
            warnings(names.map(OsString::from)),
            [
                format!(
                    "TOKEN_SERVICE_LOGS: unknown variable; did you mean TOKEN_SERVICE_LOG? {hint}"
                ),
                format!(
                    "TOKEN_SERVICE_ISSUER: unknown variable; did you mean TOKEN_SERVICE_LOG? {hint}"
                ),
            ]
        );
    }
}
