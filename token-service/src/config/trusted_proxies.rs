//! `trusted_proxies`, and lists of networks in general.

use std::net::IpAddr;

use document::{Located, Section};
use ipnet::IpNet;

/// The widest networks that a key takes, as lengths of prefixes.
pub(super) struct Widest {
    pub v4: u8,
    pub v6: u8,
    pub example: &'static str,
    /// What is wrong with wider ones, and what to do.
    pub reason: &'static str,
}

impl Widest {
    const fn admits(&self, network: IpNet) -> bool {
        match network {
            IpNet::V4(network) => network.prefix_len() >= self.v4,
            IpNet::V6(network) => network.prefix_len() >= self.v6,
        }
    }
}

pub(super) fn read(root: &mut Section<'_>) -> Option<Vec<IpNet>> {
    // The widest private ones (RFC 1918, RFC 4193).
    let widest = Widest {
        v4: 8,
        v6: 7,
        example: "10.0.0.0/8",
        reason: "covers addresses of clients, who could then claim any address; name the addresses of your gateways",
    };
    networks(root, "trusted_proxies", &widest)
}

/// Takes the list of addresses and networks at `key`.
pub(super) fn networks(
    section: &mut Section<'_>,
    key: &'static str,
    widest: &Widest,
) -> Option<Vec<IpNet>> {
    let mut networks = Vec::new();
    for Located { value, place } in section.texts(key)? {
        let network = value
            .parse()
            .or_else(|_| value.parse::<IpAddr>().map(IpNet::from));
        let problem = match network {
            Ok(network) if widest.admits(network) => {
                networks.push(network);
                continue;
            }
            Ok(_) => widest.reason.to_owned(),
            Err(_) => format!(
                "is neither an address nor a network such as {}",
                widest.example
            ),
        };
        section.report(&place, format!("{key}: {value} {problem}"));
    }
    Some(networks)
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
