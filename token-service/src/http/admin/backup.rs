//! `/admin/backup`: copies the store during operation.

use actix_web::HttpResponse;
use actix_web::body::SizedStream;
use actix_web::http::header::{ContentDisposition, ContentType};
use actix_web::web::{self, BytesMut};
use futures_util::stream::try_unfold;
use tempfile::TempDir;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use super::access::Administrator;
use super::answer::{AdminError, Answer, ErrorBody};
use crate::config::StoreUrl;
use crate::telemetry::audit_log::Entry;
use domain::AuditAction;
use store::postgres::NO_BACKUP;

/// Bytes that a download holds in memory.
const CHUNK: usize = 64 << 10;

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(web::resource("/backup").route(web::get().to(backup)));
}

/// Returns a consistent copy of the running store. Restoring it needs the encryption key, which the copy lacks.
#[utoipa::path(get, path = "/admin/backup", tag = "service",
    responses((status = 200, content_type = "application/octet-stream", body = String), (status = 500, body = ErrorBody),
        (status = 501, description = "the database has its own tools: pg_dump", body = ErrorBody)))]
async fn backup(administrator: Administrator) -> Answer {
    let internal = |error: std::io::Error| AdminError::Internal(error.to_string());
    let service = &administrator.service;
    // In the folder of the store, because the machine's temporary folder may be small or in memory.
    let folder = match &service.config.store {
        StoreUrl::Redb(store) => store.parent(),
        StoreUrl::Postgres(_) => return Err(NO_BACKUP.into()),
    };
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new("."));
    let folder = TempDir::with_prefix_in("backup-", folder).map_err(internal)?;
    let copy = folder.path().join("store");
    service.store.backup(&copy).await?;
    administrator.record(Entry::new(AuditAction::BackupTaken));
    // The open file outlives its name.
    let file = File::open(copy).await.map_err(internal)?;
    let bytes = file.metadata().await.map_err(internal)?.len();
    let chunks = try_unfold(file, |mut file| async move {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        let read = file.read_buf(&mut chunk).await?;
        Ok::<_, std::io::Error>((read > 0).then(|| (chunk.freeze(), file)))
    });
    Ok(HttpResponse::Ok()
        .content_type(ContentType::octet_stream())
        .insert_header(ContentDisposition::attachment("token-service.backup"))
        .body(SizedStream::new(bytes, Box::pin(chunks))))
}
