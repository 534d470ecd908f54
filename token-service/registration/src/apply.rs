//! Applying a registrations file: the differences from the registry, and the change that applies them.

mod difference;
mod merge;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use document::{Place, Problem};

use crate::describe::{Registered, Registration};
use crate::protection::{Protection, ProtectionError};
use crate::registrations::Registrations;
use difference::Values;
use domain::RegistryChange;
use domain::client::{Client, ClientId};
use domain::registry::Registry;
use domain::remembered::{ObjectKind, ObjectName, Remembered};
use domain::user::User;
use protocol::flow::Misfit;
use protocol::flows;

pub use difference::{Difference, DifferenceKind, FieldChange};
pub use merge::{Kept, Occasion};

/// The effect of applying a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The change for the store. It is valid only for the registry that it was planned on.
    pub change: RegistryChange,
    /// The same change, for people.
    pub differences: Vec<Difference>,
    /// Differences that stay, because the registry takes precedence over the file.
    pub kept: Vec<Kept>,
}

/// The misfit as one line. The line starts with the place of the client if `places` contains the client.
#[must_use]
pub fn located(misfit: &Misfit, places: &BTreeMap<ClientId, Place>) -> String {
    match places.get(&misfit.client_id) {
        Some(place) => Problem::new(place, format!("client_id: {misfit}")).to_string(),
        None => misfit.to_string(),
    }
}

/// The names in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed(HashSet<ObjectName>);

impl Listed {
    #[must_use]
    pub fn of(registrations: &Registrations) -> Self {
        let clients = registrations.clients.iter();
        let users = registrations.users.iter();
        let clients = clients.map(|client| client.object.object_name());
        Self(
            clients
                .chain(users.map(|user| user.object.object_name()))
                .collect(),
        )
    }
}

impl Plan {
    /// An empty plan on `stored`. The store applies it only if the registry has not changed since.
    #[must_use]
    pub fn on(stored: &Registry) -> Self {
        Self {
            change: RegistryChange {
                planned_on: stored.version(),
                ..RegistryChange::default()
            },
            ..Self::default()
        }
    }

    /// True if there is nothing to change, to report or to remember.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
            && self.change.remember.is_empty()
            && self.change.forget.is_empty()
    }

    /// Sets an object to the `registration` of a command.
    ///
    /// # Errors
    /// The errors of [`Protection`].
    pub fn register<T: Registered>(
        &mut self,
        registration: Registration<T>,
        stored: &Registry,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        let before = T::find(stored, registration.object.name());
        let object = protect(registration, before.as_deref(), protection)?;
        self.put(object, before.as_deref());
        Ok(())
    }

    /// Also removes the objects that are in `stored` but not in `listed`, and forgets what was remembered of them.
    pub fn prune(&mut self, listed: &Listed, stored: &Registry, remembered: &[Remembered]) {
        self.remove_unlisted::<Client>(listed, stored);
        self.remove_unlisted::<User>(listed, stored);
        let in_files = |kind| kind != ObjectKind::LegacyInstance;
        let objects = remembered.iter().map(|one| &one.object);
        let unlisted = objects.filter(|one| in_files(one.kind) && !listed.0.contains(one));
        self.change.forget.extend(unlisted.cloned());
        self.differences
            .sort_by(|one, other| one.object.cmp(&other.object));
    }

    fn remove_unlisted<T: Registered>(&mut self, listed: &Listed, stored: &Registry) {
        for object in T::all(stored) {
            if !listed.0.contains(&object.object_name()) {
                self.remove(&*object);
            }
        }
    }

    /// Clients whose access tokens would be too short for the names after the change (protocol.md §2.5). If there are
    /// any, the change is refused.
    #[must_use]
    pub fn misfits(&self, api_audience: &str, stored: &Registry) -> Vec<Misfit> {
        flows::misfits(
            api_audience,
            stored
                .legacy_instances()
                .iter()
                .chain(&self.change.put_legacy_instances),
            stored
                .clients()
                .map(|client| &**client)
                .chain(&self.change.put_clients),
            stored
                .users()
                .map(|user| &**user)
                .chain(&self.change.put_users),
        )
    }

    pub fn put<T: Registered>(&mut self, object: T, before: Option<&T>) {
        let changes =
            before.map(|before| FieldChange::between(&Values::of(before), &Values::of(&object)));
        let kind = match changes {
            None => DifferenceKind::Added,
            Some(changes) if changes.is_empty() => return,
            Some(changes) => DifferenceKind::Changed(changes),
        };
        let difference = Difference {
            object: object.object_name(),
            kind,
        };
        self.differences.push(difference);
        T::put(&mut self.change).push(object);
    }

    pub fn remove<T: Registered>(&mut self, object: &T) {
        self.differences.push(Difference {
            object: object.object_name(),
            kind: DifferenceKind::Removed,
        });
        object.remove(&mut self.change);
    }

    /// Removes the registered second factor of `user`.
    pub fn remove_totp_secret(&mut self, user: &User) {
        let without = User {
            totp_secret_sealed: None,
            ..user.clone()
        };
        self.put(without, Some(user));
    }
}

/// The object in its stored form. Unchanged secrets keep their stored form.
fn protect<T: Registered>(
    registration: Registration<T>,
    before: Option<&T>,
    protection: &dyn Protection,
) -> Result<T, ProtectionError> {
    let Registration { mut object, hidden } = registration;
    for (key, secret) in T::DESCRIPTION.secrets() {
        let stored = before.and_then(secret.get);
        let owner = (secret.owner)(&object);
        let kept = match (hidden.get(key), stored) {
            (Some(given), Some(stored)) if given.is(&stored, owner, protection)? => Some(stored),
            (Some(given), _) => Some(given.protect(owner, protection)?),
            (None, stored) => stored,
        };
        if let Some(kept) = kept {
            (secret.set)(&mut object, kept);
        }
    }
    Ok(object)
}
