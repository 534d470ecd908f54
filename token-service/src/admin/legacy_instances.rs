//! Hosts of the legacy flow.

use zeroize::Zeroizing;

use super::objects::Administered;
use super::schema::{LegacyInstanceView, View};
use super::{AdminError, Administration, Object};
use domain::LegacyInstance;
use registration::describe::{self, Moment};
use store::{Store, StoreError};

impl Administered for LegacyInstance {
    type Created = LegacyInstanceView;

    fn created(view: LegacyInstanceView, _: Option<Zeroizing<String>>) -> LegacyInstanceView {
        view
    }

    async fn stored(store: &dyn Store, name: &str) -> Result<Option<Self>, StoreError> {
        let mut instances = store.legacy_instances().await?.into_iter();
        Ok(instances.find(|instance| instance.hostname == name))
    }
}

impl Administration<'_> {
    /// Lists the hosts of the legacy flow, sorted by name.
    ///
    /// # Errors
    /// [`AdminError::Store`] if the store fails.
    pub async fn legacy_instances(&self) -> Result<Vec<LegacyInstanceView>, AdminError> {
        let moment = Moment {
            now: self.service.clock.now(),
            secret_times: &[],
        };
        let instances = self.service.store.legacy_instances().await?;
        let views = instances.iter().map(|one| describe::view(one, &moment));
        Ok(views.map(View::new).collect())
    }

    /// Registers or changes the host `hostname`; the body is an object with `auth_server_hostname` and `enabled`. A
    /// start overwrites the host only if the configuration has changed there (D-27).
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with every problem, [`AdminError::DoesNotFit`].
    pub async fn put_legacy_instance(
        &self,
        hostname: &str,
        instance: Object,
    ) -> Result<LegacyInstanceView, AdminError> {
        let view = self.put::<LegacyInstance>(hostname, instance).await?;
        // The first legacy host needs an Ed25519 key.
        self.service.maintain_keys().await?;
        Ok(view)
    }
}
