//! `/admin/encryption-keys`.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web;

use super::access::{Administrator, Reader};
use super::answer::{self, ErrorBody};
use crate::admin::AdminError;
use crate::admin::views::EncryptionKeysView;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/encryption-keys").route(web::get().to(list)))
        .service(web::resource("/encryption-keys/reseal").route(web::post().to(reseal)));
}

/// Lists the encryption keys in this replica's file, the current one first, with the number of stored values that each
/// seals.
#[utoipa::path(get, path = "/admin/encryption-keys", tag = "encryption_keys",
    responses((status = 200, body = EncryptionKeysView), (status = 401, body = ErrorBody)))]
async fn list(reader: Reader) -> Result<HttpResponse, AdminError> {
    let keys = reader.administration().encryption_keys().await?;
    Ok(answer::json(StatusCode::OK, keys))
}

/// Seals every stored value with the current key. Afterwards only earlier backups need the other keys.
#[utoipa::path(post, path = "/admin/encryption-keys/reseal", tag = "encryption_keys",
    responses((status = 200, body = EncryptionKeysView), (status = 401, body = ErrorBody)))]
async fn reseal(administrator: Administrator) -> Result<HttpResponse, AdminError> {
    let keys = administrator.administration().reseal().await?;
    Ok(answer::json(StatusCode::OK, keys))
}
