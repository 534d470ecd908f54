//! Middleware for every request: request id, spans for log and traces, and metrics.

use std::time::Instant;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpMessage as _};
use process::networks;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::method;
use super::origin::{self, REQUEST_ID, RequestId};
use super::{pages, paths};
use crate::service::Service;
use crate::telemetry::metrics::Route;
use crate::telemetry::traces;
use crate::telemetry::visible::bounded;
use domain::random;

/// Marks a request that may have been held. Its duration says nothing about the speed of the service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waited;

/// The middleware. Handles HEAD as GET (RFC 9110 §9.3.2); the connection omits the body.
pub(super) async fn observe(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(service) = request.app_data::<Data<Service>>().cloned() else {
        return next.call(request).await;
    };
    let started = Instant::now();
    let id = request_id(&request, &service);
    request.extensions_mut().insert(RequestId(id.clone()));
    // Only the path, because the query may contain codes and tokens.
    let span = tracing::info_span!(
        "request",
        request_id = %id,
        method = method::name(request.method()),
        path = %bounded(request.path()),
    );
    let name = method::name(request.method());
    let trace = span_for_traces(&request, name, &id, &service);
    if request.method() == Method::HEAD {
        request.head_mut().method = Method::GET;
        request.extensions_mut().insert(method::IsHead);
    }
    let response = next
        .call(request)
        .instrument(span.clone())
        .instrument(trace.clone())
        .await?;
    let mut response = pages::explain(response).await;
    let pattern = response.request().match_pattern();
    complete(&trace, &response, name, pattern.as_deref());
    let route = Route {
        route: pattern.unwrap_or_else(|| "unknown".to_owned()),
        method: name,
    };
    let (status, took) = (response.status().as_u16(), started.elapsed());
    span.in_scope(|| tracing::debug!(status, ?took, "answered"));
    let waited = response.request().extensions().contains::<Waited>();
    let took_for_itself = (!waited).then_some(took);
    service.metrics.answered(route, status, took_for_itself);
    if let Ok(id) = HeaderValue::from_str(&id) {
        let name = HeaderName::from_static(REQUEST_ID);
        response.headers_mut().insert(name, id);
    }
    if service.is_draining() {
        // The service is stopping and cannot serve the connection's next request.
        response
            .response_mut()
            .head_mut()
            .set_connection_type(actix_web::http::ConnectionType::Close);
    }
    Ok(response)
}

/// Paths that programs request again and again. Their traces would hide the traces of people and clients.
const POLLED: [&str; 4] = [
    paths::HEALTHZ,
    paths::READYZ,
    paths::METRICS,
    paths::REVOCATIONS,
];

/// The span of a request by the semantic conventions of OpenTelemetry for HTTP servers, without what may contain secrets
/// or name people: query, addresses, headers, and paths that no route has. [`complete`] adds the rest.
fn span_for_traces(
    request: &ServiceRequest,
    method: &'static str,
    id: &str,
    service: &Service,
) -> Span {
    if POLLED.contains(&request.path()) {
        return Span::none();
    }
    let (name, method) = in_traces(method);
    let span = tracing::info_span!(
        "request",
        otel.kind = "server",
        otel.name = name,
        otel.status_code = Empty,
        request_id = id,
        http.request.method = method,
        http.response.status_code = Empty,
        http.route = Empty,
        url.path = Empty,
        url.scheme = "http",
        error.type = Empty,
    );
    // A client could join its requests to the traces of others, or keep them out of all traces.
    let peer = request.peer_addr().map(|peer| peer.ip());
    let trusted = &service.config.trusted_proxies;
    if peer.is_some_and(|peer| networks::contain(trusted, peer)) {
        traces::join(&span, request.headers());
    }
    span
}

/// A method in names of spans, and in `http.request.method`.
fn in_traces(method: &'static str) -> (&'static str, &'static str) {
    match method {
        method::OTHER => ("HTTP", "_OTHER"),
        method => (method, method),
    }
}

/// Adds to the span of a request what only its response shows.
fn complete(
    span: &Span,
    response: &ServiceResponse<BoxBody>,
    method: &'static str,
    pattern: Option<&str>,
) {
    if span.is_disabled() {
        return;
    }
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", status.as_str());
    }
    if let Some(pattern) = pattern {
        traces::rename(span, format!("{} {pattern}", in_traces(method).0));
        span.record("http.route", pattern);
        // Otherwise the path may contain the name of a user.
        if !pattern.contains('{') {
            span.record("url.path", pattern);
        }
    }
}

fn request_id(request: &ServiceRequest, service: &Service) -> String {
    let peer = request.peer_addr().map(|peer| peer.ip());
    origin::given_id(peer, request.headers(), &service.config.trusted_proxies)
        .or_else(|| random::text::<16>(&*service.random).ok())
        .unwrap_or_default()
}
