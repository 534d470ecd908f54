//! `/admin/revocations`.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::{self, Payload};

use super::access::Administrator;
use super::answer::{self, ErrorBody};
use super::body;
use crate::admin::AdminError;
use crate::admin::forms::CutOffRequest;
use crate::admin::views::{CutOffView, FeedView};

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/revocations/cut-off").route(web::post().to(cut_off)))
        .service(web::resource("/revocations/renew-feed").route(web::post().to(renew_feed)));
}

/// Ends every access token that an issuer issued before a time, at gateways and introspection. Refresh tokens stay
/// valid.
#[utoipa::path(post, path = "/admin/revocations/cut-off", tag = "revocations", request_body = CutOffRequest,
    responses((status = 200, body = CutOffView), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
async fn cut_off(
    administrator: Administrator,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let request = body::form::<CutOffRequest>(payload).await?;
    let (issuer, before) = (request.issuer.as_deref(), request.before.as_deref());
    let cut_off = administrator.administration().cut_off(issuer, before).await;
    Ok(answer::json(StatusCode::OK, cut_off?))
}

/// Gives the revocation feed a new identity, so that every gateway reads the feed from its start.
#[utoipa::path(post, path = "/admin/revocations/renew-feed", tag = "revocations",
    responses((status = 200, body = FeedView), (status = 401, body = ErrorBody)))]
async fn renew_feed(administrator: Administrator) -> Result<HttpResponse, AdminError> {
    let feed = administrator.administration().renew_feed().await;
    Ok(answer::json(StatusCode::OK, feed?))
}
