//! What the registrations say together.

use std::sync::Arc;

use crate::client::ClientId;
use crate::clock::Timestamp;
use crate::legacy_instance::LegacyInstance;
use crate::password_scheme::UsedScheme;

/// What all registrations say together, small however many they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrySummary {
    /// The store's position in the sequence of changes.
    pub version: u64,
    /// Every scope that an enabled client is registered for, in alphabetical order.
    pub scopes: Vec<String>,
    /// The [most used](crate::password_scheme::most_used) schemes of the registered password hashes.
    pub password_schemes: Arc<[UsedScheme]>,
    /// The hosts of the legacy flow, sorted by name.
    pub legacy_instances: Vec<LegacyInstance>,
}

impl RegistrySummary {
    /// The instance whose host is in the `Host` header `host`. Ignores the port.
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
}

/// Until when a client's certificate is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateExpiry {
    pub client_id: ClientId,
    pub alias: String,
    pub not_after: Timestamp,
}
