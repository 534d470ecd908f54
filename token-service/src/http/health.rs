//! Health of the process, on the internal listener.

use actix_web::HttpResponse;
use actix_web::http::header;
use actix_web::web::{self, Data};
use serde_json::json;

use super::{error, line, paths};
use crate::service::Service;

pub(crate) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(
            web::resource(paths::HEALTHZ)
                .route(web::get().to(healthz))
                .default_service(error::other_methods("GET, HEAD")),
        )
        .service(
            web::resource(paths::READYZ)
                .route(web::get().to(readyz))
                .default_service(error::other_methods("GET, HEAD")),
        );
}

async fn healthz() -> HttpResponse {
    line::json(&mut HttpResponse::Ok(), &json!({"status": "ok"}))
}

async fn readyz(service: Data<Service>) -> HttpResponse {
    if service.is_leaving() {
        return not_ready("draining", "the service is stopping");
    }
    if let Some(error) = service.unopened_signing_key() {
        tracing::warn!(%error, "not ready");
        return not_ready("signing_key", &error.to_string());
    }
    match service.store.ready().await {
        Ok(()) => line::json(&mut HttpResponse::Ok(), &json!({"status": "ready"})),
        Err(error) => {
            tracing::warn!(%error, "not ready");
            not_ready("store", &error.to_string())
        }
    }
}

/// Only the internal listener serves this path, so the response may name the failure.
fn not_ready(reason: &str, description: &str) -> HttpResponse {
    let body = json!({"status": "not ready", "reason": reason, "description": description});
    let mut response = HttpResponse::ServiceUnavailable();
    response
        .insert_header((header::RETRY_AFTER, "1"))
        .insert_header((header::CACHE_CONTROL, "no-store"));
    line::json(&mut response, &body)
}
