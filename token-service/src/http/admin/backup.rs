//! `/admin/backup`: copies the store during operation.

use actix_files::NamedFile;
use actix_web::http::header::{ContentDisposition, DispositionParam, DispositionType};
use actix_web::{HttpRequest, web};
use tempfile::TempDir;

use super::access::Administrator;
use super::answer::{AdminError, Answer, ErrorBody};
use crate::audit_log::Entry;
use crate::config::StoreUrl;
use domain::AuditAction;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(web::resource("/backup").route(web::get().to(backup)));
}

/// Returns a consistent copy of the running store. Restoring it needs the encryption key, which the copy lacks.
#[utoipa::path(get, path = "/admin/backup", tag = "service",
    responses((status = 200, content_type = "application/octet-stream", body = String), (status = 500, body = ErrorBody)))]
async fn backup(administrator: Administrator, http: HttpRequest) -> Answer {
    let internal = |error: std::io::Error| AdminError::Internal(error.to_string());
    let service = &administrator.service;
    // In the folder of the store, because the machine's temporary folder may be small or in memory.
    let beside = match &service.config.store {
        StoreUrl::Redb(store) => store.parent(),
        StoreUrl::Postgres(_) => None,
    };
    let beside = beside.filter(|folder| !folder.as_os_str().is_empty());
    let folder = beside.unwrap_or(std::path::Path::new("."));
    let folder = TempDir::with_prefix_in("backup-", folder).map_err(internal)?;
    let copy = folder.path().join("store");
    service.store.backup(&copy).await?;
    administrator.record(Entry::new(AuditAction::BackupTaken));
    let file = NamedFile::open_async(copy).await.map_err(internal)?;
    // The open file outlives its name.
    Ok(file
        .set_content_disposition(ContentDisposition {
            disposition: DispositionType::Attachment,
            parameters: vec![DispositionParam::Filename(
                "token-service.backup".to_owned(),
            )],
        })
        .into_response(&http))
}
