//! The registry in memory: an immutable value that is replaced as a whole.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::client::{Client, ClientId, IntegrationType};
use crate::legacy_instance::LegacyInstance;
use crate::password_hash;
use crate::redirect_uri::RedirectUriPattern;
use crate::user::{User, Username};

#[derive(Debug, Clone, Default)]
pub struct Registry {
    clients: HashMap<ClientId, Arc<Client>>,
    users: HashMap<Username, Arc<User>>,
    single_sign_on: HashMap<String, Vec<Username>>,
    app_origins: HashSet<String>,
    app_loopbacks: Vec<RedirectUriPattern>,
    scopes: BTreeSet<String>,
    legacy_instances: Vec<LegacyInstance>,
    password_schemes: Arc<[String]>,
    version: Option<u64>,
}

impl Registry {
    /// Indexes `clients` and `users`. Of two entries with the same name, the later entry counts.
    #[must_use]
    pub fn new(
        clients: impl IntoIterator<Item = Client>,
        users: impl IntoIterator<Item = User>,
    ) -> Self {
        let clients = clients
            .into_iter()
            .map(|client| (client.client_id.clone(), Arc::new(client)));
        let users = users
            .into_iter()
            .map(|user| (user.username.clone(), Arc::new(user)));
        Self::indexed(clients.collect(), users.collect())
    }

    /// Replaces some objects by their current state in the store; `None` if the store has removed the object.
    #[must_use]
    pub fn updated(
        &self,
        clients: impl IntoIterator<Item = (ClientId, Option<Client>)>,
        users: impl IntoIterator<Item = (Username, Option<User>)>,
    ) -> Self {
        let (mut all_clients, mut all_users) = (self.clients.clone(), self.users.clone());
        for (client_id, client) in clients {
            match client {
                Some(client) => all_clients.insert(client_id, Arc::new(client)),
                None => all_clients.remove(&client_id),
            };
        }
        for (username, user) in users {
            match user {
                Some(user) => all_users.insert(username, Arc::new(user)),
                None => all_users.remove(&username),
            };
        }
        Self::indexed(all_clients, all_users).with_legacy_instances(self.legacy_instances.clone())
    }

    fn indexed(
        clients: HashMap<ClientId, Arc<Client>>,
        users: HashMap<Username, Arc<User>>,
    ) -> Self {
        let app_uris = || {
            clients
                .values()
                .filter(|client| client.enabled)
                .filter(|client| matches!(client.integration, IntegrationType::Installed { .. }))
                .flat_map(|client| client.redirect_uris())
        };
        let mut single_sign_on: HashMap<String, Vec<Username>> = HashMap::new();
        for user in users.values() {
            if let (true, true, Some(email)) = (user.enabled, user.single_sign_on, &user.email) {
                let named = single_sign_on.entry(email.to_lowercase()).or_default();
                named.push(user.username.clone());
            }
        }
        let hashes = users
            .values()
            .filter_map(|user| user.password_hash.as_deref());
        Self {
            password_schemes: password_hash::schemes(hashes).into(),
            app_origins: app_uris()
                .filter_map(RedirectUriPattern::web_origin)
                .collect(),
            app_loopbacks: app_uris()
                .filter(|uri| uri.is_any_port())
                .cloned()
                .collect(),
            scopes: clients
                .values()
                .filter(|client| client.enabled)
                .flat_map(|client| client.scopes.tokens())
                .map(str::to_owned)
                .collect(),
            clients,
            users,
            single_sign_on,
            legacy_instances: Vec::new(),
            version: None,
        }
    }

    /// Sets the version, which is the store's position in the sequence of changes.
    #[must_use]
    pub fn with_version(self, version: u64) -> Self {
        Self {
            version: Some(version),
            ..self
        }
    }

    /// The store's position in the sequence of changes at the time of reading; `None` if the registry is not from a
    /// store.
    #[must_use]
    pub const fn version(&self) -> Option<u64> {
        self.version
    }

    #[must_use]
    pub fn with_legacy_instances(self, legacy_instances: Vec<LegacyInstance>) -> Self {
        Self {
            legacy_instances,
            ..self
        }
    }

    /// The distinct schemes of the registered password hashes: see [`password_hash::schemes`].
    #[must_use]
    pub fn password_schemes(&self) -> Arc<[String]> {
        Arc::clone(&self.password_schemes)
    }

    /// The hosts of the legacy flow, sorted by name.
    #[must_use]
    pub fn legacy_instances(&self) -> &[LegacyInstance] {
        &self.legacy_instances
    }

    /// The instance whose host is in the `Host` header `host`. Ignores the port.
    #[must_use]
    pub fn legacy_instance(&self, host: &str) -> Option<&LegacyInstance> {
        self.legacy_instances
            .iter()
            .find(|instance| instance.is_at(host))
    }

    /// The instances whose authorization server is in the `Host` header `host`. Several instances may share one
    /// authorization server. Ignores the port.
    pub fn legacy_auth_servers<'a>(
        &'a self,
        host: &'a str,
    ) -> impl Iterator<Item = &'a LegacyInstance> {
        self.legacy_instances
            .iter()
            .filter(move |instance| instance.has_auth_server_at(host))
    }

    /// Every scope that an enabled client is registered for, in alphabetical order.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(String::as_str)
    }

    /// The enabled client of the current flows with this id. Ignores legacy clients.
    #[must_use]
    pub fn client(&self, client_id: &str) -> Option<&Arc<Client>> {
        self.clients
            .get(&ClientId::parse(client_id)?)
            .filter(|client| {
                client.enabled && !matches!(client.integration, IntegrationType::Legacy { .. })
            })
    }

    /// The enabled client with this id, of the current flows or the legacy flow.
    #[must_use]
    pub fn client_of_any_flow(&self, client_id: &str) -> Option<&Arc<Client>> {
        self.clients
            .get(&ClientId::parse(client_id)?)
            .filter(|client| client.enabled)
    }

    /// The enabled legacy client with this id, on this instance (protocol.md §4.5).
    #[must_use]
    pub fn legacy_client(&self, client_id: &str, instance: &str) -> Option<&Arc<Client>> {
        self.clients
            .get(&ClientId::parse(client_id)?)
            .filter(|client| match &client.integration {
                IntegrationType::Legacy { hostname, .. } => {
                    client.enabled && hostname.as_deref().is_none_or(|only| only == instance)
                }
                _ => false,
            })
    }

    /// The enabled single-sign-on users with this e-mail address. Ignores case (protocol.md §4.5).
    #[must_use]
    pub fn single_sign_on_users(&self, email: &str) -> &[Username] {
        self.single_sign_on
            .get(&email.to_lowercase())
            .map_or(&[], Vec::as_slice)
    }

    /// The enabled user with this username.
    #[must_use]
    pub fn user(&self, username: &str) -> Option<&Arc<User>> {
        self.users
            .get(&Username::parse(username)?)
            .filter(|user| user.enabled)
    }

    /// True if a page of this origin may call the token endpoint, because an enabled public client has a redirect URI
    /// with this origin (D-12, D-20).
    #[must_use]
    pub fn allows_origin(&self, origin: &str) -> bool {
        self.app_origins.contains(origin)
            || self
                .app_loopbacks
                .iter()
                .any(|uri| uri.allows_origin(origin))
    }

    /// The client with this id, of any type, enabled or not.
    #[must_use]
    pub fn any_client(&self, client_id: &ClientId) -> Option<&Arc<Client>> {
        self.clients.get(client_id)
    }

    /// The user with this name, enabled or not.
    #[must_use]
    pub fn any_user(&self, username: &Username) -> Option<&Arc<User>> {
        self.users.get(username)
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
