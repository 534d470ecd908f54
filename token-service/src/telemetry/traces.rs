//! Traces for an OpenTelemetry collector.

use std::env::VarError;
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use anyhow::Context as _;
use async_trait::async_trait;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Link, SpanKind, TraceContextExt as _, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, ResponseBodyTooLarge};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::{
    Sampler, SamplingDecision, SamplingResult, SdkTracerProvider, ShouldSample,
};
use percent_encoding::percent_decode_str;
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
            .with_http_client(Collector::new())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(address(endpoint))
            .build()
            .context("otlp_endpoint")?;
        let resource = Resource::builder_empty()
            .with_service_name(env!("CARGO_PKG_NAME"))
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", random::text::<16>(&OsRandom)?),
            ])
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_attributes(given_attributes().unwrap_or_default())
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

/// The address for traces of a collector. Other programs are configured with the whole address.
fn address(endpoint: &str) -> String {
    const PATH: &str = "/v1/traces";
    let endpoint = endpoint.trim_end_matches('/');
    format!("{}{PATH}", endpoint.strip_suffix(PATH).unwrap_or(endpoint))
}

const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// What is wrong with `OTEL_RESOURCE_ATTRIBUTES`. Traces are then sent without its attributes.
pub(crate) fn problem_of_attributes() -> Option<String> {
    given_attributes().err()
}

fn given_attributes() -> Result<Vec<KeyValue>, String> {
    match std::env::var(ATTRIBUTES) {
        Ok(text) => attributes(&text),
        Err(VarError::NotPresent) => Ok(Vec::new()),
        Err(VarError::NotUnicode(_)) => Err(format!("{ATTRIBUTES} is not UTF-8")),
    }
}

/// Attributes of the resource in the form of OpenTelemetry: `KEY=VALUE`, separated by commas, percent-encoded.
fn attributes(text: &str) -> Result<Vec<KeyValue>, String> {
    let parts = text.split(',').map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    let attribute = |part: &str| {
        let (key, value) = part.split_once('=')?;
        let decoded = |text: &str| {
            let text = percent_decode_str(text.trim()).decode_utf8().ok()?;
            Some(text.into_owned())
        };
        let key = decoded(key).filter(|key| !key.is_empty())?;
        Some(KeyValue::new(key, decoded(value)?))
    };
    parts
        .map(|part| {
            attribute(part).ok_or_else(|| {
                format!(
                    "{ATTRIBUTES}: {part}: expected KEY=VALUE, percent-encoded; traces have none of these attributes"
                )
            })
        })
        .collect()
}

/// Time limit for a batch, the default of OpenTelemetry.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Largest response in bytes, the limit of OpenTelemetry's own clients.
const MAX_ANSWER: u64 = 4 << 20;

/// Sends batches to the collector. The exporter calls from its own thread, so that `send_bytes` may block.
#[derive(Debug)]
struct Collector(ureq::Agent);

impl Collector {
    fn new() -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            // Ignores proxies from the environment, as every request of the service.
            .proxy(None);
        Self(config.build().into())
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, batch) = request.into_parts();
        let response = self.0.run(Request::from_parts(head, &*batch))?;
        let (head, mut body) = response.into_parts();
        match body.with_config().limit(MAX_ANSWER).read_to_vec() {
            Ok(body) => Ok(Response::from_parts(head, body.into())),
            Err(ureq::Error::BodyExceedsLimit(_)) => Err(ResponseBodyTooLarge::new().into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Only a request begins a trace: background tasks use the store too.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_percent_decoded() {
        let text = "service.instance.id=ts%20one, deployment.environment.name = pro%2Cd ,a%3Db=c%3D=,empty=,";
        let expected = [
            ("service.instance.id", "ts one"),
            ("deployment.environment.name", "pro,d"),
            ("a=b", "c=="),
            ("empty", ""),
        ];
        let expected = expected.map(|(key, value)| KeyValue::new(key, value));
        assert_eq!(attributes(text).unwrap(), expected);
        assert_eq!(attributes("").unwrap(), []);
        for wrong in ["a", "=b", "a=%ff"] {
            let problem = attributes(&format!("x=y,{wrong}")).unwrap_err();
            assert!(
                problem.contains(&format!("{wrong}: expected KEY=VALUE")),
                "{problem}"
            );
        }
    }

    #[test]
    fn an_endpoint_may_have_the_path_of_traces() {
        for endpoint in [
            "http://c:4318",
            "http://c:4318/",
            "http://c:4318/v1/traces",
            "http://c:4318/v1/traces/",
        ] {
            assert_eq!(address(endpoint), "http://c:4318/v1/traces");
        }
        assert_eq!(address("http://c/otlp"), "http://c/otlp/v1/traces");
    }
}
