//! The parts of a log on standard error.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, Targets, filter_fn};
use tracing_subscriber::layer::Filter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, fmt};

use crate::output;

/// Omits the server's messages about the start of each worker, which do not help operators.
const DEFAULT: &str = "info,actix_server=warn";

/// What these targets write: at the level `debug` the values of each statement, with hashes of passwords and sealed secrets; at the level
/// `trace` each byte of requests to other servers, with client secrets and codes.
const WITHOUT_VALUES: [&str; 2] = ["tokio_postgres::query=info", "ureq_proto::util=info"];

/// The filter in the environment variable `variable`, and the problem of this variable; with a problem, the filter is
/// the default.
pub fn levels(variable: &'static str) -> (Targets, anyhow::Result<()>) {
    let directives = std::env::var(variable).unwrap_or_else(|_| DEFAULT.to_owned());
    match parse(&directives).context(variable) {
        Ok(levels) => (levels, Ok(())),
        Err(error) => (parse(DEFAULT).unwrap_or_default(), Err(error)),
    }
}

fn parse(directives: &str) -> anyhow::Result<Targets> {
    // `Targets` would take a span for the name of a target that nothing has, and the log would be empty.
    anyhow::ensure!(
        !directives.contains('['),
        "found a span or field in brackets, expected levels and TARGET=LEVEL, such as debug"
    );
    anyhow::ensure!(
        !directives.trim().is_empty(),
        "is empty: set a level, such as debug, or remove the variable"
    );
    let given = directives.split(',').map(str::trim);
    // An empty directive would let everything through.
    let given = given.filter(|directive| !directive.is_empty());
    let all: Vec<&str> = given.chain(WITHOUT_VALUES).collect();
    Ok(all.join(",").parse()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_give_levels_and_no_level_gives_the_values_of_statements() {
        let enabled = |directives: &str, target, level| {
            parse(directives).unwrap().would_enable(target, &level)
        };
        for (directives, service, server) in [
            (DEFAULT, Some(Level::INFO), Some(Level::WARN)),
            ("debug", Some(Level::DEBUG), Some(Level::DEBUG)),
            ("token_service=trace", Some(Level::TRACE), None),
            ("info, actix_server=off,", Some(Level::INFO), None),
            ("off", None, None),
        ] {
            for (target, most) in [("token_service::feed", service), ("actix_server", server)] {
                for level in [
                    Level::ERROR,
                    Level::WARN,
                    Level::INFO,
                    Level::DEBUG,
                    Level::TRACE,
                ] {
                    let expected = most.is_some_and(|most| level <= most);
                    let enabled = enabled(directives, target, level);
                    assert_eq!(enabled, expected, "{directives}: {target} {level}");
                }
            }
        }
        for directives in [
            "trace",
            "tokio_postgres::query=debug",
            "tokio_postgres=trace",
        ] {
            assert!(!enabled(directives, "tokio_postgres::query", Level::DEBUG));
        }
        for directives in ["trace", "ureq_proto=trace", "ureq_proto::util=trace"] {
            assert!(!enabled(directives, "ureq_proto::util", Level::TRACE));
        }
        for directives in ["a=b=c", "[request]=debug", "info,a[{b}]=debug", "", " "] {
            assert!(parse(directives).is_err(), "{directives}");
        }
    }
}
