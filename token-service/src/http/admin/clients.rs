//! `/admin/clients`.

use actix_web::http::StatusCode;
use actix_web::web::{self, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::access::{Administrator, Reader};
use super::answer::{self, ErrorBody};
use super::body::{self, PageQuery};
use crate::admin::AdminError;
use crate::admin::forms::ClientRegistration;
use crate::admin::views::{ClientView, ClientWithSecret, Page};

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(
            web::resource("/clients")
                .route(web::get().to(list))
                .route(web::post().to(create)),
        )
        .service(
            web::resource("/clients/{client_id}")
                .route(web::get().to(show))
                .route(web::patch().to(update))
                .route(web::delete().to(delete)),
        )
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

/// Lists clients in the order of their ids.
#[utoipa::path(get, path = "/admin/clients", tag = "clients", params(PageQuery),
    responses((status = 200, body = Page<ClientView>), (status = 401, body = ErrorBody)))]
async fn list(reader: Reader, http: HttpRequest) -> Result<HttpResponse, AdminError> {
    let query = body::query::<PageQuery>(http.query_string())?;
    Ok(answer::json(
        StatusCode::OK,
        reader.administration().clients(&query.into()).await?,
    ))
}

/// Registers a client. A generated secret is in the answer, this once.
#[utoipa::path(post, path = "/admin/clients", tag = "clients", request_body = ClientRegistration,
    responses((status = 201, body = ClientWithSecret), (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn create(
    administrator: Administrator,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let registration = body::object(payload).await?;
    Ok(answer::json(
        StatusCode::CREATED,
        administrator
            .administration()
            .create_client(registration)
            .await?,
    ))
}

/// Shows a client.
#[utoipa::path(get, path = "/admin/clients/{client_id}", tag = "clients", params(("client_id" = String, Path)),
    responses((status = 200, body = ClientView), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn show(reader: Reader, client_id: Path<String>) -> Result<HttpResponse, AdminError> {
    Ok(answer::json(
        StatusCode::OK,
        reader.administration().client(&client_id).await?,
    ))
}

/// Changes a client by a JSON merge patch (RFC 7396) of its registration. Disabling it revokes what was issued to it.
#[utoipa::path(patch, path = "/admin/clients/{client_id}", tag = "clients", params(("client_id" = String, Path)),
    request_body = Object,
    responses((status = 200, body = ClientView), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn update(
    administrator: Administrator,
    client_id: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let patch = body::object(payload).await?;
    Ok(answer::json(
        StatusCode::OK,
        administrator
            .administration()
            .update_client(&client_id, patch)
            .await?,
    ))
}

/// Removes a client; everything issued to it is revoked, at the edge too.
#[utoipa::path(delete, path = "/admin/clients/{client_id}", tag = "clients", params(("client_id" = String, Path)),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn delete(
    administrator: Administrator,
    client_id: Path<String>,
) -> Result<HttpResponse, AdminError> {
    administrator
        .administration()
        .delete_client(&client_id)
        .await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Adds a generated client secret; the one before goes on working.
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

/// Ends all client secrets but the newest.
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

/// Removes a certificate: assertions signed with it are refused from now on.
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
