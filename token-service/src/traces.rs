//! Traces for an OpenTelemetry collector.

use actix_web::http::header::HeaderMap;
use anyhow::Context as _;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Link, SpanKind, TraceContextExt as _, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{
    Sampler, SamplingDecision, SamplingResult, SdkTracerProvider, ShouldSample,
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, Registry};

use domain::random;
use system::OsRandom;

pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Exports by OTLP over HTTP to the collector at `endpoint`. The variable `OTEL_RESOURCE_ATTRIBUTES` adds attributes of
    /// the resource, or replaces them.
    pub(crate) fn exporting_to(endpoint: &str) -> anyhow::Result<Self> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .context("otlp_endpoint")?;
        let resource = Resource::builder_empty()
            .with_service_name(env!("CARGO_PKG_NAME"))
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", random::text::<16>(&OsRandom)?),
            ])
            .with_detectors(&[
                Box::new(TelemetryResourceDetector),
                Box::new(EnvResourceDetector::new()),
            ])
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .with_sampler(Sampler::parent_based(Requests))
            .build();
        Ok(Self(provider))
    }

    /// The layer that turns spans into traces.
    pub(crate) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer(env!("CARGO_PKG_NAME")))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
    }

    pub(crate) fn finish(self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

/// Begins a trace with a request alone: background tasks use the store too.
#[derive(Debug, Clone)]
struct Requests;

impl ShouldSample for Requests {
    fn should_sample(
        &self,
        _: Option<&Context>,
        _: TraceId,
        _: &str,
        kind: &SpanKind,
        _: &[KeyValue],
        _: &[Link],
    ) -> SamplingResult {
        let decision = match kind {
            SpanKind::Server => SamplingDecision::RecordAndSample,
            _ => SamplingDecision::Drop,
        };
        SamplingResult {
            decision,
            attributes: Vec::new(),
            trace_state: TraceState::default(),
        }
    }
}

/// Makes `span`, which has not begun, a part of the trace that `traceparent` names (W3C Trace Context). Without a valid
/// `traceparent` the span begins a trace.
pub(crate) fn join(span: &Span, headers: &HeaderMap) {
    if !span.is_disabled() {
        let parent = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeadersOfRequest(headers));
        // An error means that there are no traces.
        let _ = span.set_parent(parent);
    }
}

/// Gives `span` another name, also after its begin.
pub(crate) fn rename(span: &Span, name: String) {
    span.context().span().update_name(name);
}

struct HeadersOfRequest<'a>(&'a HeaderMap);

impl Extractor for HeadersOfRequest<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
