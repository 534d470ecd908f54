//! Checks the host of requests to the internal listener.

use actix_web::Error;
use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::middleware::Next;
use actix_web::web::Data;

use super::{error, paths};
use crate::service::Service;
use document::internal_host;
use protocol::oauth::error::ErrorCode;

/// The middleware: 421 (RFC 9110 §15.5.20) for a host that is not internal. Exempts health, which contains nothing
/// secret and which load balancers request under any name. A request without a host does not come from a browser.
pub(super) async fn check(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let is_health = [paths::HEALTHZ, paths::READYZ].contains(&request.path());
    if is_health || is_internal(&request) {
        return next.call(request).await;
    }
    let description = "The internal listener is asked for under a public host name; add the name to internal_hosts, \
                       or ask for the address";
    tracing::warn!(
        "a request to the internal listener is refused: its host is not among internal_hosts"
    );
    let code = ErrorCode::InvalidRequest.as_str();
    let response = error::json(StatusCode::MISDIRECTED_REQUEST, code, description);
    Ok(request.into_response(response))
}

fn is_internal(request: &ServiceRequest) -> bool {
    let Some(service) = request.app_data::<Data<Service>>() else {
        return false;
    };
    let hosts = request.headers().get_all(header::HOST);
    let authority = request.uri().authority();
    internal_host::is_internal(
        hosts.map(HeaderValue::as_bytes),
        authority.map(|authority| authority.as_str()),
        &service.config.internal_hosts,
    )
}
