//! `POST /auth/revoke`.

use actix_web::http::header;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::endpoint_request::{authorization, endpoint_request};
use super::{body, cors, error, origin, paths};
use crate::audit::Entry;
use crate::oauth::revocation;
use crate::service::Service;
use crate::store::AuditAction;

pub(super) fn routes(routes: &mut web::ServiceConfig, service: &Data<Service>) {
    routes.service(
        web::resource(paths::REVOKE)
            .wrap(cors::registered_apps(service.clone()))
            .route(web::post().to(revoke))
            .default_service(web::to(|| async {
                error::method_not_allowed("POST, OPTIONS")
            })),
    );
}

async fn revoke(
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
    let form = endpoint_request(&request, &authorization, &body);
    match revocation::revoke(&context, form).await {
        Ok(ended) => {
            if let Some(token) = ended {
                let entry = Entry::new(AuditAction::TokenRevoked)
                    .by_client(Some(token.client_id.as_str()))
                    .user(token.username.as_str())
                    .grant(token.grant_id);
                service.record(&origin::of(&request), entry);
            }
            HttpResponse::Ok()
                .insert_header((header::CACHE_CONTROL, "no-store"))
                .finish()
        }
        Err(error) => {
            tracing::info!(reason = ?error, "revocation request refused");
            error::token_error(&error)
        }
    }
}
