//! Cross-origin requests, allowed only for pages of registered public clients (D-12, D-20). The authorization endpoint
//! allows none (RFC 9700 §2.6).

use actix_cors::Cors;
use actix_web::http::{Method, header};
use actix_web::web::Data;

use crate::service::Service;

/// Time for which a browser may cache a preflight response, in seconds.
const MAX_AGE_SECONDS: usize = 600;

/// CORS for origins of enabled public clients, without cookies.
pub(super) fn registered_apps(service: Data<Service>) -> Cors {
    Cors::default()
        .allowed_origin_fn(move |origin, _| {
            origin
                .to_str()
                .is_ok_and(|origin| service.registry().allows_origin(origin))
        })
        .allowed_methods([Method::GET, Method::POST])
        .allowed_headers([header::CONTENT_TYPE, header::ACCEPT])
        .max_age(MAX_AGE_SECONDS)
}
