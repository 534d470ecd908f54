//! `trusted_proxies`.

use std::net::IpAddr;

use document::{Located, Section};
use ipnet::IpNet;

pub(super) fn read(root: &mut Section<'_>) -> Option<Vec<IpNet>> {
    let mut networks = Vec::new();
    for Located { value, place } in root.texts("trusted_proxies")? {
        let network = value
            .parse()
            .or_else(|_| value.parse::<IpAddr>().map(IpNet::from));
        match network {
            // Such a network contains clients, which could then claim any address.
            Ok(network) if is_wide(network) => {
                let message = format!(
                    "trusted_proxies: {value} covers addresses of clients, who could then claim any address; name \
                     the addresses of your gateways"
                );
                root.report(&place, message);
            }
            Ok(network) => networks.push(network),
            Err(_) => {
                let message = format!(
                    "trusted_proxies: {value} is neither an address nor a network such as 10.0.0.0/8"
                );
                root.report(&place, message);
            }
        }
    }
    Some(networks)
}

/// True for networks wider than the widest private ones: 10.0.0.0/8 (RFC 1918) and fc00::/7 (RFC 4193).
fn is_wide(network: IpNet) -> bool {
    match network {
        IpNet::V4(network) => network.prefix_len() < 8,
        IpNet::V6(network) => network.prefix_len() < 7,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::load;

    #[test]
    fn networks_of_clients_are_no_trusted_proxies() {
        for wide in ["0.0.0.0/0", "128.0.0.0/1", "::/0", "2000::/3"] {
            let problems = load(&format!("trusted_proxies = [\"{wide}\"]"), &[]).unwrap_err();
            let expected = format!(
                "config.toml:1: trusted_proxies: {wide} covers addresses of clients, who could then claim any \
                 address; name the addresses of your gateways"
            );
            assert_eq!(problems, [expected]);
        }
        for private in ["10.0.0.0/8", "fc00::/7", "192.168.1.0/24", "::1"] {
            load(&format!("trusted_proxies = [\"{private}\"]"), &[]).unwrap();
        }
    }
}
