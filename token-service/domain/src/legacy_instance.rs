//! Hosts of the legacy flow. The host name of a request selects the instance (protocol.md §4.4 to §4.7).

use serde::{Deserialize, Serialize};
use url::Url;

use crate::Revoked;
use crate::ended_by::Before;
use crate::managed::Managed;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyInstance {
    /// {hostname}.
    pub hostname: String,
    /// {auth_server_hostname}.
    pub auth_server_hostname: String,
    pub enabled: bool,
    /// The file that defines the instance; `None` if commands define the instance (D-27).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Managed>,
}

impl LegacyInstance {
    /// True if a `Host` header names this instance. Ignores the port.
    pub fn is_at(&self, host: &str) -> bool {
        same_host(&self.hostname, host)
    }

    /// True if a `Host` header names the authorization server of this instance. Ignores the port.
    pub fn has_auth_server_at(&self, host: &str) -> bool {
        same_host(&self.auth_server_hostname, host)
    }
}

/// What ends if `after` replaces the instance `before`: the tokens of an instance that is disabled.
pub fn ended_by(before: &Before<LegacyInstance>, after: &LegacyInstance) -> Option<Revoked> {
    let ends = !after.enabled && before.may_be(|before| before.enabled);
    ends.then(|| Revoked::Issuer(issuer(&after.hostname)))
}

/// The claim `iss` of the legacy tokens of the instance at `hostname`.
pub fn issuer(hostname: &str) -> String {
    format!("https://{hostname}")
}

/// True if `text` is a host in the normal form that `Host` headers are compared in.
pub fn is_host(text: &str) -> bool {
    let url = Url::parse(&format!("https://{text}/"));
    url.is_ok_and(|url| {
        url.as_str() == format!("https://{text}/") && !text.contains(['/', '@', '?', '#'])
    })
}

/// Compares host names only: a configured value may contain a scheme and a port (D-26), and proxies change ports.
fn same_host(configured: &str, sent: &str) -> bool {
    let configured = configured
        .split_once("://")
        .map_or(configured, |(_, rest)| rest);
    let configured = configured.split('/').next().unwrap_or_default();
    name_of(configured).eq_ignore_ascii_case(name_of(sent))
}

/// True if requests for the two hosts reach the same instance, although the hosts differ.
pub fn differ_in_port(one: &str, other: &str) -> bool {
    one != other && name_of(one) == name_of(other)
}

/// The name without its port, and without the dot that makes a name absolute (RFC 1034 §3.1).
fn name_of(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_by_name() {
        for (configured, sent, same) in [
            ("us1.example", "us1.example", true),
            ("us1.example", "US1.example:8083", true),
            ("us1.example:8083", "us1.example", true),
            ("us1.example", "us1.example.:8083", true),
            ("us1.example", "us1.example..", false),
            ("https://sso-us1.example:8443/", "sso-us1.example", true),
            ("us1.example", "us2.example", false),
            ("us1.example", "us1.example.evil", false),
            ("us1.example", "", false),
            ("[::1]:80", "[::1]:81", true),
        ] {
            assert_eq!(same_host(configured, sent), same, "{configured} {sent}");
        }
    }
}
