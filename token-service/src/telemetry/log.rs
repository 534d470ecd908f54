//! The log, and traces for an OpenTelemetry collector.

use std::time::Duration;

use anyhow::Context as _;
use process::{log, output};
use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::traces::Traces;
use super::visible::visible;
use crate::config::LogFormat;

/// Environment variable with the filter of the log, such as `debug` or `token_service=debug,actix_server=warn`.
pub(crate) const LOG_VARIABLE: &str = "TOKEN_SERVICE_LOG";

/// Target of the error that ends the process. The log has it whatever its level.
const FATAL: &str = "token_service";

/// Time limit for writing the last lines of the log and the audit log.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// Log and traces, until [`Telemetry::finish`].
pub(crate) struct Telemetry {
    traces: Option<Traces>,
}

impl Telemetry {
    /// Starts the log on standard error, and the export of traces to `otlp_endpoint`. After an error the log has started too,
    /// with its default level.
    pub(crate) fn start(format: LogFormat, otlp_endpoint: Option<&str>) -> anyhow::Result<Self> {
        let (levels, filter) = log::levels(LOG_VARIABLE);
        let traces = otlp_endpoint.map(Traces::exporting_to).transpose();
        let spans = traces.as_ref().ok().and_then(Option::as_ref);
        let for_traces = filter_fn(is_for_traces).with_max_level_hint(LevelFilter::INFO);
        let spans = spans.map(|traces| traces.layer().with_filter(for_traces));
        // With the hints, levels that nobody wants cost nothing, in libraries too.
        let not_for_traces = filter_fn(|metadata| !is_for_traces(metadata));
        let of_log = levels.and(not_for_traces.with_max_level_hint(LevelFilter::TRACE));
        tracing_subscriber::registry()
            .with(spans)
            .with(log::layer(format == LogFormat::Json, of_log, FATAL))
            .try_init()
            .context("the log cannot be started")?;
        log::log_panics();
        filter?;
        Ok(Self { traces: traces? })
    }

    pub(crate) fn finish(self) {
        if let Some(traces) = self.traces {
            traces.finish();
        }
    }
}

/// Logs the error that ends the process, one line for each line of its message.
pub(crate) fn log_fatal(error: &anyhow::Error) {
    for line in format!("{error:#}").lines() {
        tracing::error!(target: FATAL, "{}", visible(line));
    }
}

/// Writes the waiting lines of the log and the audit log.
pub(crate) fn write_last_lines() {
    output::standard_output().finish(LAST_LINES_WITHIN);
    output::standard_error().finish(LAST_LINES_WITHIN);
}

/// True for spans with the field `otel.kind`. Traces have only these spans: they go to other people than the log, and
/// spans and events of the log contain names and paths. The log has all others. Without traces these spans cost a
/// comparison each, because nothing wants them.
fn is_for_traces(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.fields().field("otel.kind").is_some()
}
