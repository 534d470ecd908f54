//! `trusted_proxies`, and lists of networks in general.

use document::{Located, Section};
use ipnet::IpNet;
use process::networks;

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
    read_list(root, "trusted_proxies", &widest)
}

/// Takes the list of addresses and networks at `key`.
pub(super) fn read_list(
    section: &mut Section<'_>,
    key: &'static str,
    widest: &Widest,
) -> Option<Vec<IpNet>> {
    let mut list = Vec::new();
    for Located { value, place } in section.texts(key)? {
        let problem = match networks::parse(&value) {
            Some(network) if widest.admits(network) => {
                list.push(network);
                continue;
            }
            Some(_) => widest.reason.to_owned(),
            None => format!(
                "is neither an address nor a network such as {}",
                widest.example
            ),
        };
        section.report(&place, format!("{key}: {value} {problem}"));
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use crate::config::tests::load;

    #[test]
    fn networks_of_clients_are_no_trusted_proxies() {
        for wide in [
            "0.0.0.0/0",
            "128.0.0.0/1",
            "::/0",
            "2000::/3",
            "::ffff:0:0/96",
        ] {
            let problems = load(&format!("trusted_proxies = [\"{wide}\"]"), &[]).unwrap_err();
            let expected = format!(
                "config.toml:1: trusted_proxies: {wide} covers addresses of clients, who could then claim any \
                 address; name the addresses of your gateways"
            );
            assert_eq!(problems, [expected]);
        }
        for (private, network) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("fc00::/7", "fc00::/7"),
            ("::1", "::1/128"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ] {
            let config = load(&format!("trusted_proxies = [\"{private}\"]"), &[]).unwrap();
            assert_eq!(config.trusted_proxies, [network.parse().unwrap()]);
        }
    }
}
