//! `/admin/legacy-instances`.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::{self, Path, Payload};

use super::access::{Administrator, Reader};
use super::answer::{self, ErrorBody};
use super::{body, objects};
use crate::admin::AdminError;
use crate::admin::schema::{LegacyInstanceRegistration, LegacyInstanceView};
use domain::LegacyInstance;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/legacy-instances").route(web::get().to(list)))
        .service(
            web::resource("/legacy-instances/{hostname}")
                .route(web::put().to(put))
                .route(web::delete().to(delete)),
        );
}

/// Lists the hosts of the legacy flow.
#[utoipa::path(get, path = "/admin/legacy-instances", tag = "legacy instances",
    responses((status = 200, body = Vec<LegacyInstanceView>), (status = 401, body = ErrorBody)))]
async fn list(reader: Reader) -> Result<HttpResponse, AdminError> {
    let instances = reader.administration().legacy_instances().await?;
    Ok(answer::json(StatusCode::OK, instances))
}

/// Registers or changes a host of the legacy flow. At the next start, a host in the configuration file overwrites the
/// stored one.
#[utoipa::path(put, path = "/admin/legacy-instances/{hostname}", tag = "legacy instances",
    params(("hostname" = String, Path)), request_body = LegacyInstanceRegistration,
    responses((status = 200, body = LegacyInstanceView), (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody)))]
async fn put(
    administrator: Administrator,
    hostname: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let instance = body::object(payload).await?;
    let instance = administrator
        .administration()
        .put_legacy_instance(&hostname, instance)
        .await?;
    Ok(answer::json(StatusCode::OK, instance))
}

/// Removes a host of the legacy flow.
#[utoipa::path(delete, path = "/admin/legacy-instances/{hostname}", tag = "legacy instances",
    params(("hostname" = String, Path)),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn delete(
    administrator: Administrator,
    hostname: Path<String>,
) -> Result<HttpResponse, AdminError> {
    objects::delete::<LegacyInstance>(administrator, hostname).await
}
