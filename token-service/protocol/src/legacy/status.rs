//! The status operation (protocol.md §4.4).

use serde::Serialize;
use utoipa::ToSchema;

use super::{STATUS, wrong_host};
use domain::RegistrySummary;

/// Whether OAuth2 is enabled at a host of the legacy flow, and the host of its authorization server.
#[derive(Debug, Serialize, ToSchema)]
pub struct Status<'a> {
    enabled: bool,
    /// The host of the authorization server, as it is registered.
    uri: &'a str,
}

/// The status of the instance at `host`.
///
/// # Errors
/// A hint at the right host.
pub fn answer<'a>(summary: &'a RegistrySummary, host: &str) -> Result<Status<'a>, String> {
    match summary.legacy_instance(host) {
        Some(instance) => Ok(Status {
            enabled: instance.enabled,
            uri: &instance.auth_server_hostname,
        }),
        None => Err(wrong_host(STATUS, host, summary)),
    }
}
