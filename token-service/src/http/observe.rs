//! Middleware for every request: request id, span and metrics.

use std::time::Instant;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpMessage as _};
use tracing::Instrument as _;

use super::method;
use super::origin::{self, REQUEST_ID, RequestId};
use super::pages;
use crate::metrics::Route;
use crate::service::Service;
use crate::visible::bounded;
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
    if request.method() == Method::HEAD {
        request.head_mut().method = Method::GET;
    }
    let response = next.call(request).instrument(span.clone()).await?;
    let mut response = pages::explain(response).await;
    let route = Route {
        route: response
            .request()
            .match_pattern()
            .unwrap_or_else(|| "unknown".to_owned()),
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

fn request_id(request: &ServiceRequest, service: &Service) -> String {
    let peer = request.peer_addr().map(|peer| peer.ip());
    origin::given_id(peer, request.headers(), &service.config.trusted_proxies)
        .or_else(|| random::text::<16>(&*service.random).ok())
        .unwrap_or_default()
}
