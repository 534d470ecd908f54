//! Cross-origin requests: only for pages of registered public clients (D-12, D-20). The authorization endpoint
//! has none (RFC 9700 §2.6).

use actix_cors::Cors;
use actix_web::http::{Method, header};
use actix_web::web::Data;

use crate::service::Service;

/// Seconds that a browser may keep a preflight answer.
const MAX_AGE_SECONDS: usize = 600;

/// CORS for origins of enabled public clients. Cookies are never sent along.
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
