//! The part of the registrations that a plan of a change needs, read from a store.

use std::collections::HashMap;
use std::sync::Arc;

use crate::client::{Client, ClientId};
use crate::legacy_instance::LegacyInstance;
use crate::user::{User, Username};

/// Registrations at one position of the sequence of changes. Contains the clients and users of the
/// names that were asked for, as far as the store has them, and all legacy instances.
#[derive(Debug, Clone, Default)]
pub struct Excerpt {
    clients: HashMap<ClientId, Arc<Client>>,
    /// By folded name (D-43).
    users: HashMap<String, Arc<User>>,
    legacy_instances: Vec<LegacyInstance>,
    version: Option<u64>,
}

impl Excerpt {
    pub fn new(
        clients: impl IntoIterator<Item = Client>,
        users: impl IntoIterator<Item = User>,
    ) -> Self {
        let clients = clients.into_iter();
        let users = users.into_iter();
        Self {
            clients: clients
                .map(|client| (client.client_id.clone(), Arc::new(client)))
                .collect(),
            users: users
                .map(|user| (user.username.folded().into_owned(), Arc::new(user)))
                .collect(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn with_legacy_instances(self, legacy_instances: Vec<LegacyInstance>) -> Self {
        Self {
            legacy_instances,
            ..self
        }
    }

    /// Sets the store's position in the sequence of changes.
    #[must_use]
    pub fn at(self, version: u64) -> Self {
        Self {
            version: Some(version),
            ..self
        }
    }

    /// The store's position in the sequence of changes; `None` if the excerpt is not from a store.
    pub const fn version(&self) -> Option<u64> {
        self.version
    }

    /// The client with this id, of any type, enabled or not.
    pub fn client(&self, client_id: &ClientId) -> Option<&Arc<Client>> {
        self.clients.get(client_id)
    }

    /// The user with this name in any letter case (D-43), enabled or not.
    pub fn user(&self, username: &Username) -> Option<&Arc<User>> {
        self.users.get(&*username.folded())
    }

    /// The user with exactly this spelling of the name, enabled or not.
    pub fn user_spelt(&self, username: &Username) -> Option<&Arc<User>> {
        self.user(username)
            .filter(|user| user.username == *username)
    }

    /// The clients, of any type, in any order.
    pub fn clients(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.clients.values()
    }

    /// All hosts of the legacy flow, sorted by name.
    pub fn legacy_instances(&self) -> &[LegacyInstance] {
        &self.legacy_instances
    }
}
