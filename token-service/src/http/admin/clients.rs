//! `/admin/clients`.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::{self, Path, Payload};

use super::access::Administrator;
use super::answer::{self, ErrorBody};
use super::{body, objects};
use crate::admin::AdminError;
use crate::admin::schema::ClientView;
use crate::admin::views::ClientWithSecret;
use domain::Client;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .configure(objects::routes::<Client>)
        .service(
            web::resource("/clients/{client_id}/secrets")
                .route(web::post().to(add_secret))
                .route(web::delete().to(end_old_secrets)),
        )
        .service(
            web::resource("/clients/{client_id}/certificates/{alias}")
                .route(web::put().to(add_certificate))
                .route(web::delete().to(delete_certificate)),
        );
}

/// Adds a generated client secret. The previous one stays valid.
#[utoipa::path(post, path = "/admin/clients/{client_id}/secrets", tag = "clients",
    params(("client_id" = String, Path)),
    responses((status = 201, body = ClientWithSecret), (status = 401, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn add_secret(
    administrator: Administrator,
    client_id: Path<String>,
) -> Result<HttpResponse, AdminError> {
    Ok(answer::json(
        StatusCode::CREATED,
        administrator
            .administration()
            .add_secret(&client_id)
            .await?,
    ))
}

/// Removes all client secrets except the newest.
#[utoipa::path(delete, path = "/admin/clients/{client_id}/secrets", tag = "clients",
    params(("client_id" = String, Path)),
    responses((status = 200, body = ClientView), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody)))]
async fn end_old_secrets(
    administrator: Administrator,
    client_id: Path<String>,
) -> Result<HttpResponse, AdminError> {
    Ok(answer::json(
        StatusCode::OK,
        administrator
            .administration()
            .end_old_secrets(&client_id)
            .await?,
    ))
}

/// Adds a certificate, PEM or DER, under an alias that the client does not have yet.
#[utoipa::path(put, path = "/admin/clients/{client_id}/certificates/{alias}", tag = "clients",
    params(("client_id" = String, Path), ("alias" = String, Path)),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, body = ClientView), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn add_certificate(
    administrator: Administrator,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let (client_id, alias) = path.into_inner();
    let bytes = body::bytes(payload).await?;
    Ok(answer::json(
        StatusCode::OK,
        administrator
            .administration()
            .add_certificate(&client_id, &alias, &bytes)
            .await?,
    ))
}

/// Removes a certificate. The service refuses assertions signed with its key from now on.
#[utoipa::path(delete, path = "/admin/clients/{client_id}/certificates/{alias}", tag = "clients",
    params(("client_id" = String, Path), ("alias" = String, Path)),
    responses((status = 200, body = ClientView), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn delete_certificate(
    administrator: Administrator,
    path: Path<(String, String)>,
) -> Result<HttpResponse, AdminError> {
    let (client_id, alias) = path.into_inner();
    Ok(answer::json(
        StatusCode::OK,
        administrator
            .administration()
            .delete_certificate(&client_id, &alias)
            .await?,
    ))
}
