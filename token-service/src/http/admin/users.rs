//! `/admin/users`.

use actix_web::http::StatusCode;
use actix_web::web::{self, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Administrator;
use super::answer::{self, ErrorBody};
use super::{body, objects};
use crate::admin::AdminError;
use crate::admin::schema::{AccountView, UserView};
use domain::User;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .configure(objects::routes::<User>)
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

/// Linked account.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AccountQuery {
    /// User ID of the account.
    user_id: String,
    /// URL of the account's instance.
    site: String,
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

/// Unlinks an account and revokes what was authorized for it.
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
