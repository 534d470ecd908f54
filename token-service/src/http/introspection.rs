//! `POST /auth/introspect`.

use actix_web::http::header;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::endpoint_request::{authorization, endpoint_request};
use super::{body, error, paths};
use crate::oauth::introspection;
use crate::service::Service;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(
        web::resource(paths::INTROSPECT)
            .route(web::post().to(introspect))
            .default_service(error::other_methods("POST")),
    );
}

async fn introspect(
    request: HttpRequest,
    payload: web::Payload,
    service: Data<Service>,
) -> HttpResponse {
    let body = match body::read(payload).await {
        Ok(body) => body,
        Err(error) => return error::unreadable_body(error),
    };
    let authorization = authorization(&request);
    let (registry, keys) = (service.registry(), service.keys());
    let context = service.context(&registry, &keys);
    let request = endpoint_request(&request, &authorization, &body);
    match introspection::introspect(&context, request).await {
        Ok(introspection) => HttpResponse::Ok()
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .json(introspection),
        Err(error) => {
            tracing::info!(reason = ?error, "introspection request refused");
            error::token_error(&error)
        }
    }
}
