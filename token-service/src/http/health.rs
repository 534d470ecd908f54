//! Health of the process, on the internal listener.

use actix_web::HttpResponse;
use actix_web::web::{self, Data};
use serde_json::json;

use super::{error, paths};
use crate::service::Service;
use crate::store::StoreError;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
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
