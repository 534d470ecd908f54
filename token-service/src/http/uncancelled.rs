//! Handles a request to its end, even if its connection breaks.

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::middleware::Next;
use actix_web::{Error, rt};
use tracing::Instrument as _;

use super::error;

/// The middleware. A broken connection drops the future that waits for the response. The store completes an operation
/// that has begun, so what follows the operation, such as its audit entry, must not be dropped either: its own task
/// handles the request.
pub(super) async fn run(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let handling = rt::spawn(next.call(request).in_current_span());
    handling.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request could not be handled");
        let response = error::failed("The request could not be handled");
        Err(InternalError::from_response(error, response).into())
    })
}
