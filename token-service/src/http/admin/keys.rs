//! `/admin/keys`.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::{self, Path, Payload};

use super::access::{Administrator, Reader};
use super::answer::{self, ErrorBody};
use super::body;
use crate::admin::AdminError;
use crate::admin::forms::RotationRequest;
use crate::admin::keys::Rotation;
use crate::admin::views::KeyView;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/keys").route(web::get().to(list)))
        .service(web::resource("/keys/rotate").route(web::post().to(rotate)))
        .service(web::resource("/keys/{kid}").route(web::delete().to(delete)));
}

/// Lists signing keys, oldest first.
#[utoipa::path(get, path = "/admin/keys", tag = "keys",
    responses((status = 200, body = Vec<KeyView>), (status = 401, body = ErrorBody)))]
async fn list(reader: Reader) -> Result<HttpResponse, AdminError> {
    Ok(answer::json(StatusCode::OK, reader.administration().keys()))
}

/// Creates the successor of each signing key.
#[utoipa::path(post, path = "/admin/keys/rotate", tag = "keys", request_body = RotationRequest,
    responses((status = 200, body = Vec<KeyView>), (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody)))]
async fn rotate(
    administrator: Administrator,
    payload: Payload,
) -> Result<HttpResponse, AdminError> {
    let request = body::form::<RotationRequest>(payload).await?;
    let rotation = match (request.immediate, request.cut_off) {
        (true, true) => Rotation::ImmediateWithCutOff,
        (true, false) => Rotation::Immediate,
        (false, false) => Rotation::Announced,
        (false, true) => {
            let message = "cut_off: only an immediate rotation cuts off what was issued before";
            return Err(AdminError::Malformed(message.to_owned()));
        }
    };
    let keys = administrator.administration().rotate_keys(rotation).await;
    Ok(answer::json(StatusCode::OK, keys?))
}

/// Removes a key that does not sign. Gateways refuse its tokens after their next fetch of the keys.
#[utoipa::path(delete, path = "/admin/keys/{kid}", tag = "keys", params(("kid" = String, Path)),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody)))]
async fn delete(
    administrator: Administrator,
    kid: Path<String>,
) -> Result<HttpResponse, AdminError> {
    administrator.administration().delete_key(&kid).await?;
    Ok(HttpResponse::NoContent().finish())
}
