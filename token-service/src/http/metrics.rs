//! `GET /metrics`, on the internal listener.

use actix_web::HttpResponse;
use actix_web::http::header;
use actix_web::web::{self, Data};

use super::{error, paths};
use crate::service::Service;
use crate::upkeep::MOST_CERTIFICATES;
use protocol::sign_in::password;

/// The content type that Prometheus prefers.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(
        web::resource(paths::METRICS)
            .route(web::get().to(metrics))
            .default_service(error::other_methods("GET, HEAD")),
    );
}

async fn metrics(service: Data<Service>) -> HttpResponse {
    let counts = service.store.counts().await;
    let certificates = service
        .store
        .certificates_by_expiry(MOST_CERTIFICATES)
        .await;
    let (counts, certificates) = match (counts, certificates) {
        (Ok(counts), Ok(certificates)) => (counts, certificates),
        (Err(error), _) | (_, Err(error)) => return error::unavailable(error),
    };
    let moment = service.moment();
    let context = service.context(&moment);
    let waiting = password::waiting();
    match service
        .metrics
        .text(&context, counts, &certificates, waiting)
    {
        Ok(text) => HttpResponse::Ok()
            .insert_header((header::CONTENT_TYPE, OPEN_METRICS))
            .body(text),
        Err(std::fmt::Error) => error::failed("The metrics cannot be written"),
    }
}
