//! Health of the process, on the internal listener.

use actix_web::HttpResponse;
use actix_web::web::{self, Data};
use serde_json::json;

use super::{error, paths};
use crate::service::Service;
use crate::store::StoreError;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .route(paths::HEALTHZ, web::get().to(healthz))
        .route(paths::READYZ, web::get().to(readyz));
}

async fn healthz() -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "ok"}))
}

async fn readyz(service: Data<Service>) -> HttpResponse {
    if service.is_draining() {
        return error::token_error(&StoreError::Overloaded.into());
    }
    match service.store.ready().await {
        Ok(()) => HttpResponse::Ok().json(json!({"status": "ready"})),
        Err(error) => {
            tracing::warn!(%error, "not ready");
            error::token_error(&error.into())
        }
    }
}
