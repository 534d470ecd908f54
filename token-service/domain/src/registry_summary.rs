//! What the registrations say together.

use std::sync::Arc;

use crate::legacy_instance::LegacyInstance;

/// What all registrations say together, small however many they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrySummary {
    /// The store's position in the sequence of changes.
    pub version: u64,
    /// Every scope that an enabled client is registered for, in alphabetical order.
    pub scopes: Vec<String>,
    /// The distinct schemes of the registered password hashes: see
    /// [`password_hash::schemes`](crate::password_hash::schemes).
    pub password_schemes: Arc<[String]>,
    /// Length of the longest User ID of a linked account, in bytes of JSON without the quotes.
    pub longest_user_id: usize,
    /// The hosts of the legacy flow, sorted by name.
    pub legacy_instances: Vec<LegacyInstance>,
}
