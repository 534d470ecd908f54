//! Tasks of operators: registration, keys, audit, backup, starting and stopping.

mod audit;
mod backup;
mod broken_connections;
mod clients;
mod copy;
mod encryption_key;
mod explain;
mod forgotten_passwords;
mod guesses;
mod identity_providers;
pub(crate) mod import;
mod internal_listener;
mod keys;
mod legacy_instances;
mod life_cycle;
mod metrics;
mod names;
mod openapi;
mod own_page;
mod password_links;
mod passwords;
mod requests;
mod secrets;
mod stalled_readers;
mod telemetry;
mod users;
