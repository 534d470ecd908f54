//! Traces for an OpenTelemetry collector.

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::{Layer, Registry};

/// The exporter of traces.
pub(super) struct Traces(SdkTracerProvider);

impl Traces {
    /// Exports by OTLP over HTTP to the collector at `endpoint`.
    pub(super) fn exporting_to(endpoint: &str) -> anyhow::Result<Self> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .context("otlp_endpoint")?;
        let resource = Resource::builder()
            .with_service_name(env!("CARGO_PKG_NAME"))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Self(provider))
    }

    /// The layer that turns spans into traces.
    pub(super) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer(env!("CARGO_PKG_NAME")))
            // Only the service's own spans, not those of libraries.
            .with_filter(FilterFn::new(|metadata| {
                metadata.target().starts_with("token_service")
                    && *metadata.level() <= tracing::Level::INFO
            }))
    }

    /// Sends the waiting traces.
    pub(super) fn finish(self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
