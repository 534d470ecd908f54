//! Applying a registrations file: what differs from the registry, and the change that makes it the same.

mod fields;
mod merge;

use std::collections::{BTreeMap, HashSet};

use std::fmt;

use document::{Place, Problem};
use zeroize::Zeroizing;

use crate::registrations::{PasswordRegistration, Registrations, UserRegistration};
use domain::RegistryChange;
use domain::client::ClientId;
use domain::digest::Digest;
use domain::legacy_instance::LegacyInstance;
use domain::registry::Registry;
use domain::remembered::{ObjectKind, ObjectName, Remembered};
use domain::user::{User, Username};
use protocol::flow::Misfit;
use protocol::flows;

pub use fields::FieldChange;
pub use merge::{Kept, Occasion};

/// How the secrets of users are kept at rest. Applying a file again must not make them anew, or the users would
/// be signed out: what is stored is compared with what is registered first.
pub trait Protection {
    /// Why a secret cannot be protected or compared.
    type Error;

    /// A password as an argon2id PHC string.
    ///
    /// # Errors
    /// When hashing fails.
    fn hash(&self, password: &str) -> Result<String, Self::Error>;

    /// Whether `hash` is the password's.
    ///
    /// # Errors
    /// When the stored hash cannot be read.
    fn is_hash_of(&self, hash: &str, password: &str) -> Result<bool, Self::Error>;

    /// A TOTP secret, sealed for this user.
    ///
    /// # Errors
    /// When sealing fails.
    fn seal(&self, username: &Username, totp_secret: &[u8]) -> Result<Vec<u8>, Self::Error>;

    /// A secret of a file as it is remembered: only who has the service's key can make it, or guess at the secret with
    /// it.
    fn tag(&self, field: &str, username: &Username, secret: &[u8]) -> String;

    /// A sealed TOTP secret of this user.
    ///
    /// # Errors
    /// When it was sealed with another key.
    fn unseal(&self, username: &Username, sealed: &[u8])
    -> Result<Zeroizing<Vec<u8>>, Self::Error>;
}

/// One difference between file and registry, for people to read. Its text names fields, never their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Client, user or legacy instance that differs.
    pub object: ObjectName,
    /// What applying the file does to the object.
    pub kind: DifferenceKind,
}

/// What applying a file does to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Adds the object.
    Added,
    /// Changes these fields.
    Changed(Vec<FieldChange>),
    /// Removes the object and revokes what was issued to it.
    Removed,
}

impl Difference {
    /// The names of the fields that change.
    #[must_use]
    pub fn fields(&self) -> Vec<&'static str> {
        match &self.kind {
            DifferenceKind::Changed(changes) => changes.iter().map(|one| one.field).collect(),
            DifferenceKind::Added | DifferenceKind::Removed => Vec::new(),
        }
    }

    /// The text, followed by a line for each field with its old and its new value; secrets have none.
    #[must_use]
    pub fn with_values(&self) -> String {
        let mut text = self.to_string();
        if let DifferenceKind::Changed(changes) = &self.kind {
            for FieldChange { field, values } in changes {
                if let Some(values) = values {
                    text.push_str(&format!("\n    {field}: {values}"));
                }
            }
        }
        text
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectName { kind, name } = &self.object;
        let kind = kind.name();
        match &self.kind {
            DifferenceKind::Added => write!(formatter, "+ {kind} {name}"),
            DifferenceKind::Changed(_) => {
                write!(formatter, "~ {kind} {name}: {}", self.fields().join(", "))
            }
            DifferenceKind::Removed => write!(formatter, "- {kind} {name}"),
        }
    }
}

/// What applying a file does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The change for the store, on the registry that it was planned on.
    pub change: RegistryChange,
    /// The same, for people.
    pub differences: Vec<Difference>,
    /// Where the file says something else and the registry stays.
    pub kept: Vec<Kept>,
}

/// A misfit as a line that starts with the place of its client, if that is one of `places`.
#[must_use]
pub fn located(misfit: &Misfit, places: &BTreeMap<ClientId, Place>) -> String {
    match places.get(&misfit.client_id) {
        Some(place) => Problem::new(place, format!("client_id: {misfit}")).to_string(),
        None => misfit.to_string(),
    }
}

/// The names that a file lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    clients: HashSet<ClientId>,
    users: HashSet<Username>,
}

impl Listed {
    /// The names in `registrations`.
    #[must_use]
    pub fn of(registrations: &Registrations) -> Self {
        let clients = registrations.clients.iter();
        let users = registrations.users.iter();
        Self {
            clients: clients.map(|client| client.client_id.clone()).collect(),
            users: users
                .map(|registration| registration.user.username.clone())
                .collect(),
        }
    }
}

impl Plan {
    /// An empty plan on `stored`: the store carries it out only while the registry is that one.
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

    /// Whether there is nothing to do, to tell or to remember.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
            && self.change.remember.is_empty()
            && self.change.forget.is_empty()
    }

    /// Makes the registry what a command's `registrations` say. What they do not mention stays as it is.
    ///
    /// # Errors
    /// The [`Protection`]'s.
    pub fn new<P: Protection>(
        registrations: Registrations,
        stored: &Registry,
        protection: &P,
    ) -> Result<Self, P::Error> {
        let mut plan = Self::on(stored);
        for client in registrations.clients {
            let before = stored.any_client(&client.client_id).map(|client| &**client);
            plan.put_client(client, before);
        }
        for registration in registrations.users {
            let before = stored.any_user(&registration.user.username);
            let before = before.map(|user| &**user);
            let user = protect(registration, before, protection)?;
            plan.put_user(user, before);
        }
        Ok(plan)
    }

    /// Removes as well what `stored` has and `listed` has not, and forgets it.
    pub fn prune(&mut self, listed: &Listed, stored: &Registry, remembered: &[Remembered]) {
        let clients = stored.clients().map(|client| &client.client_id);
        for client_id in clients.filter(|client_id| !listed.clients.contains(client_id)) {
            self.remove_client(client_id.clone());
        }
        let users = stored.users().map(|user| &user.username);
        for username in users.filter(|username| !listed.users.contains(username)) {
            self.remove_user(username.clone());
        }
        let unlisted = remembered.iter().filter(|one| {
            let ObjectName { kind, name } = &one.object;
            match kind {
                ObjectKind::Client => {
                    ClientId::parse(name).is_none_or(|id| !listed.clients.contains(&id))
                }
                ObjectKind::User => {
                    Username::parse(name).is_none_or(|name| !listed.users.contains(&name))
                }
                ObjectKind::LegacyInstance => false,
            }
        });
        let forget = unlisted.map(|one| one.object.clone());
        self.change.forget.extend(forget);
        self.differences
            .sort_by(|one, other| one.object.cmp(&other.object));
    }

    /// Clients whose access tokens would have no room for names after the change (protocol.md §2.5): the change is refused.
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

    /// Adds or changes legacy instances.
    pub fn put_legacy_instances(
        &mut self,
        instances: impl IntoIterator<Item = LegacyInstance>,
        stored: &Registry,
    ) {
        for instance in instances {
            let mut all = stored.legacy_instances().iter();
            let before = all.find(|before| before.hostname == instance.hostname);
            let changes = before.map(|before| {
                FieldChange::between(
                    &fields::of_legacy_instance(before),
                    &fields::of_legacy_instance(&instance),
                )
            });
            if self.differs(ObjectKind::LegacyInstance, &instance.hostname, changes) {
                self.change.put_legacy_instances.push(instance);
            }
        }
    }

    /// Removes a legacy instance.
    pub fn remove_legacy_instance(&mut self, hostname: String) {
        self.removed(ObjectKind::LegacyInstance, &hostname);
        self.change.remove_legacy_instances.push(hostname);
    }

    /// Removes a client.
    pub fn remove_client(&mut self, client_id: ClientId) {
        self.removed(ObjectKind::Client, client_id.as_str());
        self.change.remove_clients.push(client_id);
    }

    /// Removes a user.
    pub fn remove_user(&mut self, username: Username) {
        self.removed(ObjectKind::User, username.as_str());
        self.change.remove_users.push(username);
    }

    /// Registers `user` without the second factor.
    pub fn remove_totp_secret(&mut self, user: &User) {
        let without = User {
            totp_secret_sealed: None,
            ..user.clone()
        };
        self.put_user(without, Some(user));
    }

    fn removed(&mut self, kind: ObjectKind, name: &str) {
        self.differences.push(Difference {
            object: ObjectName::new(kind, name),
            kind: DifferenceKind::Removed,
        });
    }

    fn differs(&mut self, kind: ObjectKind, name: &str, changes: Option<Vec<FieldChange>>) -> bool {
        let difference = match changes {
            None => DifferenceKind::Added,
            Some(changes) if changes.is_empty() => return false,
            Some(changes) => DifferenceKind::Changed(changes),
        };
        self.differences.push(Difference {
            object: ObjectName::new(kind, name),
            kind: difference,
        });
        true
    }
}

/// The user as the registry keeps it. Secrets that are the stored ones keep their stored form.
fn protect<P: Protection>(
    registration: UserRegistration,
    before: Option<&User>,
    protection: &P,
) -> Result<User, P::Error> {
    let UserRegistration {
        mut user,
        password,
        totp_secret,
    } = registration;
    let stored_hash = before.and_then(|before| before.password_hash.clone());
    let registered = before.and_then(|before| before.registered_password_digest);
    user.password_hash = match (password, stored_hash) {
        (None, stored) => stored,
        (Some(PasswordRegistration::Hash(hash)), stored)
            if registered == Some(Digest::of(hash.as_bytes())) =>
        {
            stored
        }
        (Some(PasswordRegistration::Hash(hash)), _) => Some(hash),
        (Some(PasswordRegistration::Plaintext(password)), Some(stored))
            if protection.is_hash_of(&stored, &password)? =>
        {
            Some(stored)
        }
        (Some(PasswordRegistration::Plaintext(password)), _) => Some(protection.hash(&password)?),
    };
    if let Some(before) = before
        && before.password_hash == user.password_hash
    {
        user.registered_password_digest = before.registered_password_digest;
    }
    let stored_secret = before.and_then(|before| before.totp_secret_sealed.clone());
    user.totp_secret_sealed = match (totp_secret, stored_secret) {
        (None, stored) => stored,
        (Some(secret), Some(stored)) if *protection.unseal(&user.username, &stored)? == *secret => {
            Some(stored)
        }
        (Some(secret), _) => Some(protection.seal(&user.username, &secret)?),
    };
    Ok(user)
}

#[cfg(test)]
mod tests;
