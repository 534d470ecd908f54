//! Changes of clients, users and legacy instances: from commands, from a file that manages them (D-27), and from an import
//! (D-52).

mod difference;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::describe::{Registered, Registration};
use crate::objects::MUST_CHANGE_PASSWORD;
use crate::registrations::Registrations;
use domain::client::ClientId;
use domain::user::User;
use domain::{Excerpt, LegacyInstance, Managed, ObjectName, RegistryChange, Username};
use secrets::protection::{Protection, ProtectionError};

pub(crate) use difference::NOBODY;
pub use difference::{Difference, DifferenceKind, FieldChange, redefined};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The change for the store. It is valid only for the registrations that it was planned on.
    pub change: RegistryChange,
    /// The same change, for people.
    pub differences: Vec<Difference>,
    /// Objects that stay as they are, although the document describes them.
    pub kept: Vec<Kept>,
}

/// An object that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub object: ObjectName,
    /// What stays, and why, for people.
    text: String,
}

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectName { kind, name } = &self.object;
        write!(formatter, "! {} {name}: {}", kind.name(), self.text)
    }
}

/// What applying a document means.
#[derive(Clone, Copy)]
pub enum DocumentKind<'a> {
    /// The registrations file of this name, which manages what it lists (D-27).
    File(&'a str),
    /// Another server (D-52).
    Import {
        /// Change registered objects that no file manages.
        overwrites: bool,
    },
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

    /// True if there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty() && self.change.touches().is_empty()
    }

    /// Sets an object to the `registration` of a command, in which [`enabled`](Registered::owner) says whether the object is
    /// suspended.
    pub fn register<T: Registered>(
        &mut self,
        mut registration: Registration<T>,
        stored: &Excerpt,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        registration.object.spell_names(stored);
        let before = T::find(stored, registration.object.name());
        let mut object = protect(registration, before, false, protection)?;
        if let Some(managed) = before.and_then(|before| before.owner().0) {
            let suspended = !object.owner().1;
            let managed = Managed {
                suspended,
                ..managed.clone()
            };
            own(&mut object, managed);
        }
        self.put(object, before);
        Ok(())
    }

    /// Applies the entries of a document. A client may be bound to a user of the same document.
    pub fn apply(
        &mut self,
        document: Registrations,
        kind: DocumentKind<'_>,
        stored: &Excerpt,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        for user in document.users {
            self.entry(user, kind, stored, protection)?;
        }
        let put_users = self.change.put_users.iter();
        let put_users: HashMap<String, Username> = put_users
            .map(|user| (user.username.folded().into_owned(), user.username.clone()))
            .collect();
        for mut client in document.clients {
            let registered = |name: &Username| match stored.user(name) {
                Some(user) => Some(user.username.clone()),
                None => put_users.get(&*name.folded()).cloned(),
            };
            client.object.spell_bound_user(registered);
            self.entry(client, kind, stored, protection)?;
        }
        self.sort();
        Ok(())
    }

    fn entry<T: Registered>(
        &mut self,
        given: Registration<T>,
        kind: DocumentKind<'_>,
        stored: &Excerpt,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        let before = T::find(stored, given.object.name());
        match kind {
            DocumentKind::File(file) => self.manage(given, file, before, protection),
            DocumentKind::Import { overwrites } => {
                self.import(given, overwrites, before, protection)
            }
        }
    }

    /// Makes an object as its file defines it (D-27). State stays, and a secret in the file replaces the live one only if it
    /// is another than before in the file.
    fn manage<T: Registered>(
        &mut self,
        mut given: Registration<T>,
        file: &str,
        before: Option<&T>,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        let known = before.and_then(|before| before.owner().0);
        if before.is_some() && known.is_none() {
            self.keep_unmanaged(given.object.object_name());
            return Ok(());
        }
        let secrets = secrets_of(&given, protection);
        let is_known =
            |field: &str| known.is_some_and(|known| known.secrets.get(field) == secrets.get(field));
        // Another password in the file comes with the duty that the file gives.
        let has_new_password = !is_known(PASSWORD);
        given.hidden.retain(|one| {
            !is_known(one.field()) || (has_new_password && one.field() == MUST_CHANGE_PASSWORD)
        });
        if let Some(before) = before.filter(|_| is_known(CLIENT_SECRET))
            && let Some(live) = given.object.client_secrets_mut()
        {
            *live = before.client_secrets().to_vec();
        }
        let managed = Managed {
            file: file.to_owned(),
            line: given.line,
            disables: !given.object.owner().1,
            suspended: before.is_some_and(T::is_suspended),
            secrets,
        };
        let mut object = protect(given, before, false, protection)?;
        if let (Some(before), Some(known)) = (before, known) {
            // Another line, or another name of the file, is nothing to write.
            let is_same = managed.disables == known.disables
                && managed.secrets == known.secrets
                && (managed.line.is_none() || known.line.is_some());
            own(&mut object, known.clone());
            object.keep_versions(before);
            if is_same && object == *before {
                return Ok(());
            }
        }
        own(&mut object, managed);
        self.put(object, before);
        Ok(())
    }

    /// Makes the legacy instances of the configuration as it defines them, like [`Self::manage`].
    pub fn configure(&mut self, instances: &[LegacyInstance], stored: &Excerpt) {
        for instance in instances {
            let before = LegacyInstance::find(stored, instance.name());
            let suspended = before.is_some_and(LegacyInstance::is_suspended);
            match &instance.managed {
                Some(managed) if before.is_none_or(|before| before.managed.is_some()) => {
                    let managed = Managed {
                        suspended,
                        ..managed.clone()
                    };
                    let mut instance = instance.clone();
                    own(&mut instance, managed);
                    self.put(instance, before);
                }
                _ => self.keep_unmanaged(instance.object_name()),
            }
        }
    }

    /// Adds an object of another server. A registered object stays, because it may be another one of the same name (D-52).
    fn import<T: Registered>(
        &mut self,
        given: Registration<T>,
        overwrites: bool,
        before: Option<&T>,
        protection: &dyn Protection,
    ) -> Result<(), ProtectionError> {
        let object = given.object.object_name();
        let stays = before.is_some_and(|before| before.owner().0.is_some() || !overwrites);
        let mut after = protect(given, before, stays, protection)?;
        if let Some(before) = before {
            let (managed, was_enabled) = before.owner();
            let (owner, enabled) = after.owner_mut();
            // Whom an operator has suspended, a table of another server does not bring back.
            *enabled &= was_enabled;
            *owner = managed.cloned();
            if stays {
                let changes = FieldChange::between(before, &after);
                if !changes.is_empty() {
                    let fields: Vec<&str> = changes.iter().map(|change| change.field).collect();
                    let why = match managed {
                        Some(_) => "a registrations file lists it",
                        None => "it is registered",
                    };
                    let text = format!("stays, because {why}; other {}", fields.join(", "));
                    self.kept.push(Kept { object, text });
                }
                return Ok(());
            }
        }
        self.put(after, before);
        Ok(())
    }

    pub fn put<T: Registered>(&mut self, mut object: T, before: Option<&T>) {
        let kind = match before {
            None => DifferenceKind::Added,
            Some(before) => {
                object.keep_versions(before);
                if object == *before {
                    return;
                }
                DifferenceKind::Changed(FieldChange::between(before, &object))
            }
        };
        // The line of an entry that had none is nothing to tell.
        if kind != DifferenceKind::Changed(Vec::new()) {
            let object = object.object_name();
            self.differences.push(Difference { object, kind });
        }
        T::put(&mut self.change).push(object);
    }

    pub fn remove<T: Registered>(&mut self, object: &T) {
        self.differences.push(Difference {
            object: object.object_name(),
            kind: DifferenceKind::Removed,
        });
        object.remove(&mut self.change);
    }

    /// Keeps a user that is not in the file, because a client is bound to the user.
    pub(crate) fn keep_bound(&mut self, user: &User, client_id: &ClientId) {
        let object = user.object_name();
        let text = format!("stays; the client {client_id} is bound to the user");
        self.kept.push(Kept { object, text });
    }

    fn keep_unmanaged(&mut self, object: ObjectName) {
        let command = object.kind.command();
        let text = format!(
            "stays, because no file manages it; to let the file define it: token-service adopt {command} {}",
            object.name
        );
        self.kept.push(Kept { object, text });
    }

    pub fn sort(&mut self) {
        let differences = &mut self.differences;
        differences.sort_by(|one, other| one.object.cmp(&other.object));
        let kept = &mut self.kept;
        kept.sort_by(|one, other| one.object.cmp(&other.object));
    }
}

/// Keys in [`Managed::secrets`].
const PASSWORD: &str = "password";
const CLIENT_SECRET: &str = "client_secret";

/// The keyed hashes of the secrets in an entry. Of client secrets, the registry knows the digests anyway.
fn secrets_of<T: Registered>(
    given: &Registration<T>,
    protection: &dyn Protection,
) -> BTreeMap<String, String> {
    let mut secrets = BTreeMap::new();
    if let Some(user) = given.object.user() {
        for secret in &given.hidden {
            let tag = secret.tag(&user.username, protection);
            secrets.insert(secret.field().to_owned(), tag);
        }
    }
    if let [secret, ..] = given.object.client_secrets() {
        let digest = secret.digest().to_base64url();
        secrets.insert(CLIENT_SECRET.to_owned(), digest);
    }
    secrets
}

fn own<T: Registered>(object: &mut T, managed: Managed) {
    let (owner, enabled) = object.owner_mut();
    *enabled = managed.enables();
    *owner = Some(managed);
}

/// The object in its stored form. Unchanged secrets keep their stored form, and identities that sign-ins linked stay.
/// With `only_compares`, a changed secret gets a mark in place of its stored form, so that no password is hashed.
fn protect<T: Registered>(
    registration: Registration<T>,
    before: Option<&T>,
    only_compares: bool,
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
        user.password_link.clone_from(&before.password_link);
        user.must_change_password = before.must_change_password;
        let by_email = before.identities.iter().filter(|linked| linked.by_email);
        for linked in by_email {
            if !user.has_identity(&linked.identity) {
                user.identities.push(linked.clone());
            }
        }
    }
    for given in &registration.hidden {
        if given.is_of(user, protection)? {
            continue;
        }
        match only_compares {
            true => given.mark_in(user),
            false => given.store_in(user, protection)?,
        }
    }
    Ok(object)
}
