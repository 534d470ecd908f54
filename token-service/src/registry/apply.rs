//! Applying a registrations file: what differs from the registry, and the change that makes it the same.

use std::collections::{HashMap, HashSet};
use std::fmt;

use zeroize::Zeroizing;

use super::client::{Client, ClientId, IntegrationType};
use super::legacy_instance::LegacyInstance;
use super::registrations::{PasswordRegistration, Registrations, UserRegistration};
use super::snapshot::Registry;
use super::user::{User, Username};
use crate::legacy::access_token::{self, DoesNotFit};
use crate::store::RegistryChange;

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

    /// A sealed TOTP secret of this user.
    ///
    /// # Errors
    /// When it was sealed with another key.
    fn unseal(&self, username: &Username, sealed: &[u8])
    -> Result<Zeroizing<Vec<u8>>, Self::Error>;
}

/// One difference between file and registry, for people to read. It names fields, never their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `client`, `user` or `legacy instance`.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// What happens to it.
    pub kind: DifferenceKind,
}

/// How a client or user differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DifferenceKind {
    /// It is new.
    Added,
    /// These fields change.
    Changed(Vec<&'static str>),
    /// It goes, and what was issued to it is revoked.
    Removed,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, kind } = self;
        match kind {
            DifferenceKind::Added => write!(formatter, "+ {what} {name}"),
            DifferenceKind::Changed(fields) => {
                write!(formatter, "~ {what} {name}: {}", fields.join(", "))
            }
            DifferenceKind::Removed => write!(formatter, "- {what} {name}"),
        }
    }
}

/// What applying a file does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The change for the store; empty when nothing differs.
    pub change: RegistryChange,
    /// The same, for people.
    pub differences: Vec<Difference>,
}

/// The names that a file lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    clients: HashSet<ClientId>,
    users: HashSet<Username>,
}

impl Kept {
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
    /// Compares `registrations` with `stored`. What the file does not mention stays as it is.
    ///
    /// # Errors
    /// The [`Protection`]'s.
    pub fn new<P: Protection>(
        registrations: Registrations,
        stored: &Registry,
        protection: &P,
    ) -> Result<Self, P::Error> {
        let mut plan = Self::default();
        let stored_clients: HashMap<_, _> = stored
            .clients()
            .map(|client| (&client.client_id, &**client))
            .collect();
        for client in registrations.clients {
            let before = stored_clients.get(&client.client_id);
            let fields = before.map(|before| changed_client_fields(before, &client));
            if plan.differs("client", client.client_id.as_str(), fields) {
                plan.change.put_clients.push(client);
            }
        }
        let stored_users: HashMap<_, _> = stored
            .users()
            .map(|user| (&user.username, &**user))
            .collect();
        for registration in registrations.users {
            let before = stored_users.get(&registration.user.username).copied();
            let user = protect(registration, before, protection)?;
            let fields = before.map(|before| changed_user_fields(before, &user));
            if plan.differs("user", user.username.as_str(), fields) {
                plan.change.put_users.push(user);
            }
        }
        Ok(plan)
    }

    /// Removes as well what `stored` has and `kept` has not.
    pub fn prune(&mut self, kept: &Kept, stored: &Registry) {
        let clients = stored.clients().map(|client| &client.client_id);
        for client_id in clients.filter(|client_id| !kept.clients.contains(client_id)) {
            self.remove_client(client_id.clone());
        }
        let users = stored.users().map(|user| &user.username);
        for username in users.filter(|username| !kept.users.contains(username)) {
            self.remove_user(username.clone());
        }
        self.differences
            .sort_by(|one, other| (one.what, &one.name).cmp(&(other.what, &other.name)));
    }

    /// What would not fit a legacy access token after the change (spec §2.5): it is refused.
    #[must_use]
    pub fn legacy_misfits(&self, api_audience: &str, stored: &Registry) -> Vec<DoesNotFit> {
        access_token::misfits(
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
            let fields = before.map(|before| {
                names_of([
                    (
                        "auth_server_hostname",
                        before.auth_server_hostname != instance.auth_server_hostname,
                    ),
                    ("enabled", before.enabled != instance.enabled),
                ])
            });
            if self.differs("legacy instance", &instance.hostname, fields) {
                self.change.put_legacy_instances.push(instance);
            }
        }
    }

    /// Removes a legacy instance.
    pub fn remove_legacy_instance(&mut self, hostname: String) {
        self.removed("legacy instance", &hostname);
        self.change.remove_legacy_instances.push(hostname);
    }

    /// Removes a client.
    pub fn remove_client(&mut self, client_id: ClientId) {
        self.removed("client", client_id.as_str());
        self.change.remove_clients.push(client_id);
    }

    /// Removes a user.
    pub fn remove_user(&mut self, username: Username) {
        self.removed("user", username.as_str());
        self.change.remove_users.push(username);
    }

    /// Registers `user` without the second factor.
    pub fn remove_totp_secret(&mut self, user: &User) {
        let without = User {
            totp_secret_sealed: None,
            ..user.clone()
        };
        let fields = Some(changed_user_fields(user, &without));
        if self.differs("user", user.username.as_str(), fields) {
            self.change.put_users.push(without);
        }
    }

    fn removed(&mut self, what: &'static str, name: &str) {
        self.differences.push(Difference {
            what,
            name: name.to_owned(),
            kind: DifferenceKind::Removed,
        });
    }

    fn differs(
        &mut self,
        what: &'static str,
        name: &str,
        fields: Option<Vec<&'static str>>,
    ) -> bool {
        let kind = match fields {
            None => DifferenceKind::Added,
            Some(fields) if fields.is_empty() => return false,
            Some(fields) => DifferenceKind::Changed(fields),
        };
        self.differences.push(Difference {
            what,
            name: name.to_owned(),
            kind,
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
    let registered_hash = before.and_then(|before| before.registered_password_hash.as_deref());
    user.password_hash = match (password, stored_hash) {
        (None, stored) => stored,
        (Some(PasswordRegistration::Hash(hash)), stored)
            if registered_hash == Some(hash.as_str()) =>
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
        user.registered_password_hash
            .clone_from(&before.registered_password_hash);
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

fn names_of<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields
        .into_iter()
        .filter_map(|(name, changed)| changed.then_some(name))
        .collect()
}

fn changed_user_fields(before: &User, after: &User) -> Vec<&'static str> {
    names_of([
        ("email", before.email != after.email),
        ("password", before.password_hash != after.password_hash),
        (
            "totp_secret",
            before.totp_secret_sealed != after.totp_secret_sealed,
        ),
        ("organization", before.organization != after.organization),
        (
            "single_sign_on",
            before.single_sign_on != after.single_sign_on,
        ),
        ("accounts", before.accounts != after.accounts),
        ("enabled", before.enabled != after.enabled),
    ])
}

fn changed_client_fields(before: &Client, after: &Client) -> Vec<&'static str> {
    let (old, new) = (Parts::of(before), Parts::of(after));
    names_of([
        ("name", before.name != after.name),
        ("type", old.kind != new.kind),
        ("client_secret", before.secrets() != after.secrets()),
        (
            "redirect_uris",
            before.redirect_uris() != after.redirect_uris() || old.templates != new.templates,
        ),
        ("scopes", before.scopes != after.scopes),
        ("certificates", old.certificates != new.certificates),
        ("organization", old.organization != new.organization),
        ("bound_user", old.bound_user != new.bound_user),
        ("hostname", old.hostname != new.hostname),
        ("enabled", before.enabled != after.enabled),
    ])
}

/// What only some integration types have.
struct Parts<'a> {
    kind: std::mem::Discriminant<IntegrationType>,
    templates: &'a [String],
    hostname: Option<&'a str>,
    certificates: &'a [super::Certificate],
    organization: Option<&'a str>,
    bound_user: Option<&'a Username>,
}

impl<'a> Parts<'a> {
    fn of(client: &'a Client) -> Self {
        let none = Self {
            kind: std::mem::discriminant(&client.integration),
            templates: &[],
            hostname: None,
            certificates: &[],
            organization: None,
            bound_user: None,
        };
        match &client.integration {
            IntegrationType::WebServer { .. } | IntegrationType::Installed { .. } => none,
            IntegrationType::NonInteractive {
                certificates,
                organization,
                ..
            } => Self {
                certificates,
                organization: organization.as_deref(),
                ..none
            },
            IntegrationType::UserBound { bound_user, .. } => Self {
                bound_user: Some(bound_user),
                ..none
            },
            IntegrationType::Legacy {
                redirect_templates,
                hostname,
                ..
            } => Self {
                templates: redirect_templates,
                hostname: hostname.as_deref(),
                ..none
            },
        }
    }
}

#[cfg(test)]
mod tests;
