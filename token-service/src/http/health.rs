//! Health of the process, on the internal listener.

use actix_web::HttpResponse;
use actix_web::http::header;
use actix_web::web::{self, Data};
use serde_json::json;

use super::{error, line, paths};
use crate::service::Service;

pub(crate) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(error::get(paths::HEALTHZ, healthz))
        .service(error::get(paths::READYZ, readyz));
}

async fn healthz() -> HttpResponse {
    line::json(&mut HttpResponse::Ok(), &json!({"status": "ok"}))
}

async fn readyz(service: Data<Service>) -> HttpResponse {
    if service.is_leaving() {
        return not_ready("draining", "the service is stopping");
    }
    let (reason, description) = match service.unopened_signing_key() {
        Some(error) => (Some("signing_key"), error.to_string()),
        None => match service.ready().await {
            Ok(None) => (None, String::new()),
            Ok(Some(difference)) => (Some("clock"), difference.to_string()),
            Err(error) => (Some("store"), error.to_string()),
        },
    };
    service.readiness.tell(reason, &description);
    match reason {
        Some(reason) => not_ready(reason, &description),
        None => line::json(&mut HttpResponse::Ok(), &json!({"status": "ready"})),
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
