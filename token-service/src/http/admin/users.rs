//! `/admin/users`.

use actix_web::http::StatusCode;
use actix_web::web::{self, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::{Administrator, Reader};
use super::answer::{self, ErrorBody};
use super::body::{self, PageQuery};
use crate::admin::AdminError;
use crate::admin::forms::UserRegistration;
use crate::admin::views::{AccountView, Page, UserView};

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(
            web::resource("/users")
                .route(web::get().to(list))
                .route(web::post().to(create)),
        )
        .service(
            web::resource("/users/{username}")
                .route(web::get().to(show))
                .route(web::patch().to(update))
                .route(web::delete().to(delete)),
        )
        .service(
            web::resource("/users/{username}/second-factor")
                .route(web::delete().to(remove_second_factor)),
        )
        .service(
            web::resource("/users/{username}/accounts")
                .route(web::post().to(link_account))
                .route(web::delete().to(unlink_account)),
        );
}

/// Which linked account.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AccountQuery {
    /// Its User ID.
    user_id: String,
    /// The URL of its instance.
    site: String,
}

/// Lists users in the order of their names.
#[utoipa::path(get, path = "/admin/users", tag = "users", params(PageQuery),
    responses((status = 200, body = Page<UserView>), (status = 401, body = ErrorBody)))]
async fn list(reader: Reader, http: HttpRequest) -> Result<HttpResponse, AdminError> {
    let query = body::query::<PageQuery>(http.query_string())?;
    Ok(answer::json(
        StatusCode::OK,
        reader.administration().users(&query.into()).await?,
    ))
}

/// Registers a user.
#[utoipa::path(post, path = "/admin/users", tag = "users", request_body = UserRegistration,
    responses((status = 201, body = UserView), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
        (status = 409, body = ErrorBody)))]
async fn create(
    administrator: Administrator,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let registration = body::object(payload).await?;
    Ok(answer::json(
        StatusCode::CREATED,
        administrator
            .administration()
            .create_user(registration)
            .await?,
    ))
}

/// Shows a user.
#[utoipa::path(get, path = "/admin/users/{username}", tag = "users", params(("username" = String, Path)),
    responses((status = 200, body = UserView), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn show(reader: Reader, username: Path<String>) -> Result<HttpResponse, AdminError> {
    Ok(answer::json(
        StatusCode::OK,
        reader.administration().user(&username).await?,
    ))
}

/// Changes a user by a JSON merge patch (RFC 7396) of the registration. A new password or second factor, or being
/// disabled, ends the user's sessions and revokes what was issued.
#[utoipa::path(patch, path = "/admin/users/{username}", tag = "users", params(("username" = String, Path)),
    request_body = Object,
    responses((status = 200, body = UserView), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn update(
    administrator: Administrator,
    username: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let patch = body::object(payload).await?;
    Ok(answer::json(
        StatusCode::OK,
        administrator
            .administration()
            .update_user(&username, patch)
            .await?,
    ))
}

/// Removes a user; everything issued to them is revoked, at the edge too.
#[utoipa::path(delete, path = "/admin/users/{username}", tag = "users", params(("username" = String, Path)),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody)))]
async fn delete(
    administrator: Administrator,
    username: Path<String>,
) -> Result<HttpResponse, AdminError> {
    administrator
        .administration()
        .delete_user(&username)
        .await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Removes a user's second factor, registered or set up by the user, and ends the user's sessions.
#[utoipa::path(delete, path = "/admin/users/{username}/second-factor", tag = "users",
    params(("username" = String, Path)),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn remove_second_factor(
    administrator: Administrator,
    username: Path<String>,
) -> Result<HttpResponse, AdminError> {
    administrator
        .administration()
        .remove_second_factor(&username)
        .await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Links an account.
#[utoipa::path(post, path = "/admin/users/{username}/accounts", tag = "users", params(("username" = String, Path)),
    request_body = AccountView,
    responses((status = 201, body = UserView), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody),
        (status = 404, body = ErrorBody)))]
async fn link_account(
    administrator: Administrator,
    username: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let account = body::object(payload).await?;
    Ok(answer::json(
        StatusCode::CREATED,
        administrator
            .administration()
            .link_account(&username, account)
            .await?,
    ))
}

/// Unlinks an account; what was authorized for it is revoked.
#[utoipa::path(delete, path = "/admin/users/{username}/accounts", tag = "users",
    params(("username" = String, Path), AccountQuery),
    responses((status = 200, body = UserView), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn unlink_account(
    administrator: Administrator,
    username: Path<String>,
    http: HttpRequest,
) -> Result<HttpResponse, AdminError> {
    let AccountQuery { user_id, site } = body::query::<AccountQuery>(http.query_string())?;
    Ok(answer::json(
        StatusCode::OK,
        administrator
            .administration()
            .unlink_account(&username, &user_id, &site)
            .await?,
    ))
}
