//! `/admin/grants`.

use actix_web::http::StatusCode;
use actix_web::web::{self, Path};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::{Administrator, Reader};
use super::answer::{self, ErrorBody};
use super::body;
use crate::admin::views::{GrantView, Page, RevokedGrants};
use crate::admin::{AdminError, PageRequest};

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(
            web::resource("/grants")
                .route(web::get().to(list))
                .route(web::delete().to(revoke_all)),
        )
        .service(
            web::resource("/grants/{grant_id}")
                .route(web::get().to(show))
                .route(web::delete().to(revoke)),
        );
}

/// Filter and page of a listing of grants.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct GrantQuery {
    /// Only grants of this client.
    client_id: Option<String>,
    /// Only grants of this user.
    username: Option<String>,
    /// `next` of the previous page.
    after: Option<String>,
    /// Maximum number of entries, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Lists grants, oldest first. A revoked grant stays in the list until its last token expires.
#[utoipa::path(get, path = "/admin/grants", tag = "grants", params(GrantQuery),
    responses((status = 200, body = Page<GrantView>), (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody)))]
async fn list(reader: Reader, http: HttpRequest) -> Result<HttpResponse, AdminError> {
    let query = body::query::<GrantQuery>(http.query_string())?;
    let page = PageRequest {
        after: query.after,
        limit: query.limit,
    };
    let (client_id, username) = (query.client_id.as_deref(), query.username.as_deref());
    let administration = reader.administration();
    let grants = administration.grants(client_id, username, &page).await;
    Ok(answer::json(StatusCode::OK, grants?))
}

/// Whose grants.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OwnerQuery {
    /// Grants of this client.
    client_id: Option<String>,
    /// Grants of this user.
    username: Option<String>,
}

/// Revokes all live grants of a client, of a user, or of a user at a client, and every access token issued to them until
/// now, also without a grant in the list. One of the two must be named.
#[utoipa::path(delete, path = "/admin/grants", tag = "grants", params(OwnerQuery),
    responses((status = 200, body = RevokedGrants), (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn revoke_all(
    administrator: Administrator,
    http: HttpRequest,
) -> Result<HttpResponse, AdminError> {
    let query = body::query::<OwnerQuery>(http.query_string())?;
    let (client_id, username) = (query.client_id.as_deref(), query.username.as_deref());
    let administration = administrator.administration();
    let revoked = administration.revoke_grants(client_id, username).await?;
    Ok(answer::json(StatusCode::OK, revoked))
}

/// Shows a grant.
#[utoipa::path(get, path = "/admin/grants/{grant_id}", tag = "grants", params(("grant_id" = String, Path)),
    responses((status = 200, body = GrantView), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn show(reader: Reader, grant_id: Path<String>) -> Result<HttpResponse, AdminError> {
    Ok(answer::json(
        StatusCode::OK,
        reader.administration().grant(&grant_id).await?,
    ))
}

/// Revokes a grant. The service refuses its refresh token, and gateways refuse its access tokens.
#[utoipa::path(delete, path = "/admin/grants/{grant_id}", tag = "grants", params(("grant_id" = String, Path)),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
async fn revoke(
    administrator: Administrator,
    grant_id: Path<String>,
) -> Result<HttpResponse, AdminError> {
    administrator
        .administration()
        .revoke_grant(&grant_id)
        .await?;
    Ok(HttpResponse::NoContent().finish())
}
