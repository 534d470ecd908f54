//! The registry as requests see it: an immutable value that is replaced as a whole.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::client::{Client, ClientId, IntegrationType};
use super::redirect_uri::RedirectUriPattern;
use super::user::{User, Username};

/// All clients and users, indexed for requests.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    clients: HashMap<ClientId, Arc<Client>>,
    users: HashMap<Username, Arc<User>>,
    app_origins: HashSet<String>,
    app_loopbacks: Vec<RedirectUriPattern>,
}

impl Registry {
    /// Indexes `clients` and `users`; a later one replaces an earlier one of the same name.
    #[must_use]
    pub fn new(
        clients: impl IntoIterator<Item = Client>,
        users: impl IntoIterator<Item = User>,
    ) -> Self {
        let clients: HashMap<_, _> = clients
            .into_iter()
            .map(|client| (client.client_id.clone(), Arc::new(client)))
            .collect();
        let app_uris = || {
            clients
                .values()
                .filter(|client| client.enabled)
                .filter(|client| matches!(client.integration, IntegrationType::Installed { .. }))
                .flat_map(|client| client.redirect_uris())
        };
        Self {
            app_origins: app_uris()
                .filter_map(RedirectUriPattern::web_origin)
                .collect(),
            app_loopbacks: app_uris()
                .filter(|uri| uri.is_any_port())
                .cloned()
                .collect(),
            clients,
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

    /// Whether a page of this origin may call the token endpoint: it is that of an enabled public client's
    /// redirect URI (D-12, D-20).
    #[must_use]
    pub fn allows_origin(&self, origin: &str) -> bool {
        self.app_origins.contains(origin)
            || self
                .app_loopbacks
                .iter()
                .any(|uri| uri.allows_origin(origin))
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
