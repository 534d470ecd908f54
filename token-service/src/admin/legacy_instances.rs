//! Hosts of the legacy flow.

use zeroize::Zeroizing;

use super::objects::Administered;
use super::schema::{LegacyInstanceView, View};
use super::{AdminError, Administration, Object};
use domain::LegacyInstance;
use registration::describe::Registered;
use registration::describe::view::{self, Moment};

impl Administered for LegacyInstance {
    type Created = LegacyInstanceView;

    fn created(view: LegacyInstanceView, _: Option<Zeroizing<String>>) -> LegacyInstanceView {
        view
    }
}

impl Administration<'_> {
    /// Lists the hosts of the legacy flow, sorted by name.
    #[must_use]
    pub fn legacy_instances(&self) -> Vec<LegacyInstanceView> {
        let moment = Moment {
            now: self.service.clock.now(),
            secret_times: &[],
        };
        let instances = LegacyInstance::all(&self.service.registry());
        let views = instances.iter().map(|one| view::view(&**one, &moment));
        views.map(View::new).collect()
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
