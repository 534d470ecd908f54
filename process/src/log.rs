//! The parts of a log on standard error.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::Filter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::output;

/// Omits the server's messages about the start of each worker, which do not help operators.
const DEFAULT: &str = "info,actix_server=warn";

/// At the level `debug`, this target writes the values of each statement: hashes of passwords, sealed secrets.
const WITHOUT_VALUES: &str = "tokio_postgres::query=info";

/// The filter in the environment variable `variable`, and the problem of this variable; with a problem, the filter is
/// the default.
pub fn levels(variable: &'static str) -> (EnvFilter, anyhow::Result<()>) {
    let directives = std::env::var(variable).unwrap_or_else(|_| DEFAULT.to_owned());
    match EnvFilter::try_new(format!("{directives},{WITHOUT_VALUES}")).context(variable) {
        Ok(levels) => (levels, Ok(())),
        Err(error) => (EnvFilter::new(DEFAULT), Err(error)),
    }
}

/// Lines on standard error with the events that `levels` lets through, and with errors of the target `fatal`, which end
/// the process.
pub fn layer<S>(
    is_json: bool,
    levels: impl Filter<S> + Send + Sync + 'static,
    fatal: &'static str,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let is_fatal =
        filter_fn(move |event| event.target() == fatal && *event.level() == Level::ERROR);
    let filter = levels.or(is_fatal.with_max_level_hint(LevelFilter::ERROR));
    let log = fmt::layer()
        .with_writer(|| output::standard_error().stream())
        .with_ansi(io::stderr().is_terminal());
    if !is_json {
        return log.with_filter(filter).boxed();
    }
    // The list of spans would repeat the current span, because a request has only one.
    let log = log.json().flatten_event(true).with_span_list(false);
    log.with_filter(filter).boxed()
}

/// Logs panics. The standard library's hook writes directly to standard error and waits for its reader.
pub fn log_panics() {
    std::panic::set_hook(Box::new(
        |panic| tracing::error!(%panic, "a thread panicked"),
    ));
}
