//! Hosts of the legacy flow.

use serde_json::json;

use super::views::LegacyInstanceView;
use super::{AdminError, Administration, Object};
use registration::apply::Plan;
use registration::legacy_instance;

impl Administration<'_> {
    /// The hosts of the legacy flow, in the order of their names.
    #[must_use]
    pub fn legacy_instances(&self) -> Vec<LegacyInstanceView> {
        let registry = self.service.registry();
        let instances = registry.legacy_instances().iter();
        instances.map(LegacyInstanceView::from).collect()
    }

    /// Registers or changes the host `hostname`: an object with `auth_server_hostname` and `enabled`. A start changes it
    /// again only if the configuration has changed there (D-27).
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with every problem, [`AdminError::DoesNotFit`].
    pub async fn put_legacy_instance(
        &self,
        hostname: &str,
        instance: Object,
    ) -> Result<LegacyInstanceView, AdminError> {
        self.changing(async |registry| {
            let mut instance = instance.clone();
            instance.insert("hostname".to_owned(), json!(hostname));
            let instance = legacy_instance::from_json(instance)?
                .ok_or_else(|| AdminError::Internal("no instance".to_owned()))?;
            let view = LegacyInstanceView::from(&instance);
            let mut plan = Plan::on(&registry);
            plan.put_legacy_instances([instance], &registry);
            self.carry_out(plan, &registry).await?;
            // The first one needs a key of its own.
            self.service.maintain_keys().await?;
            Ok(view)
        })
        .await
    }

    /// Removes a host: it is unknown from now on.
    ///
    /// # Errors
    /// [`AdminError::NotFound`].
    pub async fn delete_legacy_instance(&self, hostname: &str) -> Result<(), AdminError> {
        self.changing(async |registry| {
            let mut all = registry.legacy_instances().iter();
            if !all.any(|instance| instance.hostname == hostname) {
                return Err(AdminError::not_found("legacy instance", hostname));
            }
            let mut plan = Plan::on(&registry);
            plan.remove_legacy_instance(hostname.to_owned());
            self.carry_out(plan, &registry).await?;
            Ok(())
        })
        .await
    }
}
