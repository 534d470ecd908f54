//! `/admin/legacy-instances`: hosts of the legacy flow.

use actix_web::web::{self, Path, Payload};

use super::access::{Administrator, Reader};
use super::answer::{self, AdminError, Answer, ErrorBody};
use super::objects;
use super::{Administration, Object, body};
use domain::{LegacyInstance, Observed};
use registry::objects::{LegacyInstanceRegistration, LegacyInstanceView};

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes
        .service(web::resource("/legacy-instances").route(web::get().to(list)))
        .service(
            web::resource("/legacy-instances/{hostname}")
                .route(web::put().to(put))
                .route(web::delete().to(delete)),
        )
        .configure(objects::owner_routes::<LegacyInstance>);
}

/// Lists the hosts of the legacy flow.
#[utoipa::path(get, path = "/admin/legacy-instances", tag = "legacy instances",
    responses((status = 200, body = Vec<LegacyInstanceView>)))]
async fn list(reader: Reader) -> Answer {
    let instances = reader.service.store.legacy_instances().await?;
    let nothing = Observed::default();
    let views = instances.iter().map(|one| reader.view(one, &nothing));
    answer::ok(views.collect::<Vec<_>>())
}

/// Registers or changes a host of the legacy flow. Disabling the host revokes its access tokens. Of a host in the configuration, only
/// `enabled` can change.
#[utoipa::path(put, path = "/admin/legacy-instances/{hostname}", tag = "legacy instances",
    params(("hostname" = String, Path)), request_body = LegacyInstanceRegistration,
    responses((status = 200, body = LegacyInstanceView), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn put(administrator: Administrator, hostname: Path<String>, payload: Payload) -> Answer {
    let instance = body::object(payload).await?;
    answer::ok(
        administrator
            .put_legacy_instance(&hostname, instance)
            .await?,
    )
}

/// Removes a host of the legacy flow. Its access tokens are revoked.
#[utoipa::path(delete, path = "/admin/legacy-instances/{hostname}", tag = "legacy instances",
    params(("hostname" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn delete(administrator: Administrator, hostname: Path<String>) -> Answer {
    objects::delete::<LegacyInstance>(administrator, hostname).await
}

impl Administration {
    /// # Errors
    /// [`AdminError::Invalid`] with every problem, [`AdminError::DoesNotFit`].
    pub(crate) async fn put_legacy_instance(
        &self,
        hostname: &str,
        instance: Object,
    ) -> Result<LegacyInstanceView, AdminError> {
        let view = self.put::<LegacyInstance>(hostname, instance).await?;
        // The first legacy host needs an Ed25519 key.
        let outcome = self.service.maintain_keys().await;
        answer::after_change("its keys are not loaded yet", outcome);
        Ok(view)
    }
}
