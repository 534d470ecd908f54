//! The log, on standard error.

use std::time::Duration;

use anyhow::Context as _;
use process::{log, output};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::settings::LogFormat;

/// Environment variable with the log's filter, such as `debug`.
const VARIABLE: &str = "TOKEN_GUARD_LOG";

/// Target of the error that ends the process. The log has it whatever its level.
const FATAL: &str = "token_guard";

/// Longest wait at the end for the last lines to be written.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// Starts the log. Returns the problem of the environment variable if it does not contain a valid filter; the log then has
/// its default level.
///
/// # Errors
/// A log was started before.
pub(crate) fn start(format: LogFormat) -> anyhow::Result<anyhow::Result<()>> {
    let (levels, level) = log::levels(VARIABLE);
    tracing_subscriber::registry()
        .with(log::layer(format == LogFormat::Json, levels, FATAL))
        .try_init()
        .context("the log cannot be started")?;
    log::log_panics();
    Ok(level)
}

/// Logs why the process ends.
pub(crate) fn fatal(problem: &str) {
    tracing::error!(target: FATAL, "{problem}");
}

/// Waits for the last lines to be written.
pub(crate) fn finish() {
    output::standard_error().finish(LAST_LINES_WITHIN);
}
