//! `/admin/encryption-keys`: usage and resealing.

use actix_web::web;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Administration;
use super::access::{Administrator, Reader};
use super::answer::{self, AdminError, Answer};
use crate::telemetry::audit_log::Entry;
use domain::AuditAction;
use secrets::encryption_key;
use store::StoreError;

/// The encryption keys of a replica's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct EncryptionKeysView {
    /// The keys, the current one first.
    pub keys: Vec<EncryptionKeyView>,
    /// Values that are sealed with an earlier key.
    pub outdated: u64,
    /// Values that none of the keys opens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    /// Values that were sealed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resealed: Option<u64>,
}

/// An encryption key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct EncryptionKeyView {
    /// Its name, which tells nothing of the key.
    pub id: String,
    /// Whether it seals.
    pub current: bool,
    /// Values of the store that are sealed with it.
    pub sealed_values: u64,
}

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/encryption-keys").route(web::get().to(list)))
        .service(web::resource("/encryption-keys/reseal").route(web::post().to(reseal)));
}

/// Lists the encryption keys in this replica's file, the current one first, with the number of stored values that each
/// seals.
#[utoipa::path(get, path = "/admin/encryption-keys", tag = "encryption_keys",
    responses((status = 200, body = EncryptionKeysView)))]
async fn list(reader: Reader) -> Answer {
    answer::ok(view(&reader, None).await?)
}

/// Seals every stored value with the current key. Afterwards only earlier backups need the other keys.
#[utoipa::path(post, path = "/admin/encryption-keys/reseal", tag = "encryption_keys",
    responses((status = 200, body = EncryptionKeysView)))]
async fn reseal(administrator: Administrator) -> Answer {
    let service = &administrator.service;
    let key = &service.encryption_key;
    let mut resealed = 0;
    let outcome = encryption_key::reseal(key, &*service.store, &mut resealed).await;
    let current = key.sealing().ids().next();
    let current = current.map(|id| id.to_string()).unwrap_or_default();
    let detail = format!("{resealed} values, key {current}");
    if outcome.is_ok() || resealed > 0 {
        administrator.record(Entry::new(AuditAction::StoreResealed).detail(detail));
    }
    let unread = "this process has not read the sealed values again";
    answer::after_change(unread, service.maintain_keys().await);
    answer::after_change(unread, service.follow_registrations().await);
    outcome.map_err(|error| AdminError::Internal(error.to_string()))?;
    answer::ok(view(&administrator, Some(resealed)).await?)
}

/// The keys of the file and the number of values that each sealed.
async fn view(
    administration: &Administration,
    resealed: Option<u64>,
) -> Result<EncryptionKeysView, StoreError> {
    let service = &administration.service;
    let usage = encryption_key::usage(&service.encryption_key, &*service.store).await?;
    let current = usage.keys.first().map(|(id, _)| *id);
    let sealed = usage.keys.iter().map(|(_, count)| count).sum::<u64>();
    let keys = usage.keys.iter().map(|(id, count)| EncryptionKeyView {
        id: id.to_string(),
        current: Some(*id) == current,
        sealed_values: *count,
    });
    Ok(EncryptionKeysView {
        keys: keys.collect(),
        outdated: sealed - usage.up_to_date,
        unreadable: usage.unreadable,
        resealed,
    })
}
