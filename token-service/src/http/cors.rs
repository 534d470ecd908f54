//! Cross-origin requests, allowed only for pages of registered public clients (D-12, D-20). The authorization endpoint
//! allows none (RFC 9700 §2.6).

use actix_cors::Cors;
use actix_web::body::MessageBody;
use actix_web::dev::{HttpServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode, header};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data};
use actix_web::{Error, FromRequest, Handler, Responder};
use claims::dpop;

use super::error;
use crate::service::Service;

/// Time for which a browser may cache a preflight response, in seconds.
const MAX_AGE_SECONDS: usize = 600;

/// Header that [`look_up_origin`] adds to a request from a registered origin.
const REGISTERED: HeaderName = HeaderName::from_static("gatepass-registered-origin");

/// Proof of a client's key (RFC 9449 §4.1).
const DPOP: HeaderName = HeaderName::from_static(dpop::HEADER);

/// Header of an answer with the nonce for the next proof (RFC 9449 §8).
const DPOP_NONCE: HeaderName = HeaderName::from_static(dpop::NONCE_HEADER);

/// CORS for origins of enabled public clients, without cookies. Needs [`look_up_origin`] around it.
pub(super) fn registered_apps() -> Cors {
    Cors::default()
        .allowed_origin_fn(|_, request| request.headers.contains_key(REGISTERED))
        .allowed_methods([Method::GET, Method::POST])
        .allowed_headers([header::CONTENT_TYPE, header::ACCEPT, DPOP])
        .expose_headers([DPOP_NONCE, header::WWW_AUTHENTICATE])
        .max_age(MAX_AGE_SECONDS)
}

/// A `POST` endpoint that clients call, among them single-page apps.
pub(super) fn post<F, Arguments>(
    path: &'static str,
    handler: F,
) -> impl HttpServiceFactory + 'static
where
    F: Handler<Arguments>,
    Arguments: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    web::resource(path)
        .wrap(registered_apps())
        .wrap(from_fn(look_up_origin))
        .route(web::post().to(handler))
        .default_service(error::other_methods("POST, OPTIONS"))
}

/// Looks up the origin of the request. [`Cors`] decides synchronously, and the look-up may read the store. A refused
/// preflight gets the body of all errors.
pub(super) async fn look_up_origin(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse, Error> {
    request.headers_mut().remove(REGISTERED);
    let origin = request.headers().get(header::ORIGIN);
    let origin = origin.and_then(|origin| origin.to_str().ok().map(str::to_owned));
    let service = request.app_data::<Data<Service>>().cloned();
    if let (Some(origin), Some(service)) = (origin, service) {
        match service.directory().allows_origin(&origin).await {
            Ok(true) => {
                let value = HeaderValue::from_static("yes");
                request.headers_mut().insert(REGISTERED, value);
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "an origin cannot be looked up"),
        }
    }
    let is_preflight = request.method() == Method::OPTIONS;
    let response = next.call(request).await?;
    if is_preflight && response.status() == StatusCode::BAD_REQUEST {
        let description = "The Origin belongs to no registered single-page app, or the method or a header is not allowed";
        let refusal = error::json(StatusCode::BAD_REQUEST, "invalid_request", description);
        return Ok(response.into_response(refusal));
    }
    Ok(response.map_into_boxed_body())
}
