//! The registry as requests see it: an immutable value that is replaced as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use super::client::{Client, ClientId, IntegrationType};
use super::user::{User, Username};

/// All clients and users, indexed for requests.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    clients: HashMap<ClientId, Arc<Client>>,
    users: HashMap<Username, Arc<User>>,
}

impl Registry {
    /// Indexes `clients` and `users`; a later one replaces an earlier one of the same name.
    #[must_use]
    pub fn new(
        clients: impl IntoIterator<Item = Client>,
        users: impl IntoIterator<Item = User>,
    ) -> Self {
        Self {
            clients: clients
                .into_iter()
                .map(|client| (client.client_id.clone(), Arc::new(client)))
                .collect(),
            users: users
                .into_iter()
                .map(|user| (user.username.clone(), Arc::new(user)))
                .collect(),
        }
    }

    /// The enabled client of the current flows with this id; legacy clients are unknown here.
    #[must_use]
    pub fn client(&self, client_id: &str) -> Option<&Arc<Client>> {
        self.clients
            .get(&ClientId::parse(client_id)?)
            .filter(|client| {
                client.enabled && !matches!(client.integration, IntegrationType::Legacy { .. })
            })
    }

    /// The enabled user with this username.
    #[must_use]
    pub fn user(&self, username: &str) -> Option<&Arc<User>> {
        self.users
            .get(&Username::parse(username)?)
            .filter(|user| user.enabled)
    }

    /// Every client, enabled or not.
    pub fn clients(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.clients.values()
    }

    /// Every user, enabled or not.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }
}
