//! Changes of what is registered.

use crate::{Client, ClientId, LegacyInstance, ObjectName, Remembered, User, Username};

/// Changes of the registry, made together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryChange {
    /// Clients to add or replace, by client id.
    pub put_clients: Vec<Client>,
    /// Clients to remove; their grants are revoked in the same transaction.
    pub remove_clients: Vec<ClientId>,
    /// Users to add or replace, by username.
    pub put_users: Vec<User>,
    /// Users to remove; their grants are revoked and their sessions end in the same transaction.
    pub remove_users: Vec<Username>,
    /// Legacy instances to add or replace, by hostname.
    pub put_legacy_instances: Vec<LegacyInstance>,
    /// Hostnames of legacy instances to remove.
    pub remove_legacy_instances: Vec<String>,
    /// What to remember of files that are applied, in the place of what was remembered of the same objects (D-27).
    pub remember: Vec<Remembered>,
    /// Objects of which to forget what files said.
    pub forget: Vec<ObjectName>,
    /// The version of the registry that the change was planned on: it is made on no other one. `None`: on any.
    pub planned_on: Option<u64>,
}

/// The outcome of changing the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryOutcome {
    /// The change is made.
    Changed,
    /// Nothing was changed: the registry has moved on since the change was planned.
    Overtaken,
}
