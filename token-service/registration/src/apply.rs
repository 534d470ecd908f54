//! Applying a registrations file: the differences from the registry, and the change that applies them.

mod difference;
mod merge;
#[cfg(test)]
mod tests;

use crate::describe::values::Values;
use crate::describe::{Registered, Registration};
use crate::protection::{Protection, ProtectionError};
use domain::client::ClientId;
use domain::remembered::ObjectName;
use domain::user::User;
use domain::{Excerpt, RegistryChange};

pub use difference::{Difference, DifferenceKind, FieldChange};
pub use merge::{Kept, Occasion};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The change for the store. It is valid only for the registrations that it was planned on.
    pub change: RegistryChange,
    /// The same change, for people.
    pub differences: Vec<Difference>,
    /// Differences that stay, because the registry takes precedence over the file.
    pub kept: Vec<Kept>,
    /// Objects that were not compared with the file, because something else must change first.
    pub postponed: Vec<ObjectName>,
}

impl Plan {
    /// An empty plan on `stored`. The store applies it only if nothing that it [rests on](domain::Premises) has changed
    /// since.
    pub fn on(stored: &Excerpt) -> Self {
        Self {
            change: RegistryChange {
                planned_on: stored.version(),
                ..RegistryChange::default()
            },
            ..Self::default()
        }
    }

    /// True if there is nothing to change, to report or to remember.
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
            && self.change.remember.is_empty()
            && self.change.forget.is_empty()
    }

    /// Sets an object to the `registration` of a command.
    pub fn register<T: Registered>(
        &mut self,
        mut registration: Registration<T>,
        stored: &Excerpt,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        registration.object.spell_names(stored);
        let before = T::find(stored, registration.object.name());
        let object = protect(registration, before, protection)?;
        self.put(object, before);
        Ok(())
    }

    pub fn put<T: Registered>(&mut self, object: T, before: Option<&T>) {
        let changes =
            before.map(|before| FieldChange::between(&Values::of(before), &Values::of(&object)));
        self.put_changed(object, changes);
    }

    /// Adds the object, or replaces it if there are `changes`.
    fn put_changed<T: Registered>(&mut self, object: T, changes: Option<Vec<FieldChange>>) {
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

    /// Keeps a user that is not in the file, because a client in the file is bound to the user.
    pub fn keep_bound(&mut self, user: &User, client_id: &ClientId) {
        let text = format!("stays; the client {client_id} is bound to the user");
        self.keep(user.object_name(), None, false, text);
    }

    fn keep(
        &mut self,
        object: ObjectName,
        field: Option<&'static str>,
        conflict: bool,
        text: String,
    ) {
        self.kept.push(Kept {
            object,
            field,
            conflict,
            text,
        });
    }

    pub fn sort(&mut self) {
        let differences = &mut self.differences;
        differences.sort_by(|one, other| one.object.cmp(&other.object));
    }
}

/// The object in its stored form. Unchanged secrets keep their stored form.
fn protect<T: Registered>(
    registration: Registration<T>,
    before: Option<&T>,
    protection: &dyn Protection,
) -> Result<T, ProtectionError> {
    let mut object = registration.object;
    let Some(user) = object.user_mut() else {
        return Ok(object);
    };
    if let Some(before) = before.and_then(T::user) {
        user.password_hash.clone_from(&before.password_hash);
        user.registered_password_digest = before.registered_password_digest;
        user.totp_secret_sealed
            .clone_from(&before.totp_secret_sealed);
    }
    for given in &registration.hidden {
        if !given.is_of(user, protection)? {
            given.store_in(user, protection)?;
        }
    }
    Ok(object)
}
