//! Which legacy instance a request is for: it is chosen by host name.

use crate::config::{Config, LegacyInstance};

impl Config {
    /// The instance whose host a `Host` header names; its port does not count.
    #[must_use]
    pub fn legacy_instance(&self, host: &str) -> Option<&LegacyInstance> {
        self.legacy_instances
            .iter()
            .find(|instance| same_host(&instance.hostname, host))
    }

    /// The instance whose authorization server a `Host` header names.
    #[must_use]
    pub fn legacy_auth_server(&self, host: &str) -> Option<&LegacyInstance> {
        self.legacy_instances
            .iter()
            .find(|instance| same_host(&instance.auth_server_hostname, host))
    }
}

/// Compares names alone: a configured value may carry a scheme and a port (D-26), and proxies move ports.
fn same_host(configured: &str, sent: &str) -> bool {
    let configured = configured
        .split_once("://")
        .map_or(configured, |(_, rest)| rest);
    let configured = configured.split('/').next().unwrap_or_default();
    name_of(configured).eq_ignore_ascii_case(name_of(sent))
}

fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
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
