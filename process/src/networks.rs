//! The networks of the peers that a server believes.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// Reads an address or a network, such as `10.1.2.3` or `10.1.2.0/24`; `None` if the text is neither. IPv4 addresses that are
/// mapped to IPv6 (`::ffff:10.1.2.3`, RFC 4291 §2.5.5.2) become IPv4 addresses, as [`contain`] compares them.
pub fn parse(text: &str) -> Option<IpNet> {
    let address = || text.parse().map(|address: IpAddr| address.into());
    let network = text.parse().or_else(|_| address()).ok()?;
    let IpNet::V6(v6) = network else {
        return Some(network);
    };
    let Some(mapped) = v6.addr().to_ipv4_mapped() else {
        return Some(network);
    };
    let length = v6.prefix_len().checked_sub(96)?;
    Ipv4Net::new(mapped, length).ok().map(IpNet::V4)
}

/// True if the address is in one of the networks. A listener for both versions of IP names its IPv4 peers by mapped addresses.
pub fn contain(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        for (text, network) in [
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.1.2.0/24", "10.1.2.0/24"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
            ("::ffff:10.1.2.0/120", "10.1.2.0/24"),
            ("::FFFF:a01:203/128", "10.1.2.3/32"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::1", "::1/128"),
            ("fd00:1::/64", "fd00:1::/64"),
        ] {
            assert_eq!(parse(text), network.parse().ok(), "{text}");
        }
        // Wider than all of IPv4.
        for text in ["::ffff:10.1.2.3/95", "envoy", "10.1.2.3/33", ""] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_peer_is_found_in_either_spelling() {
        for network in ["10.1.2.0/24", "::ffff:10.1.2.0/120"] {
            let networks = [parse(network).unwrap()];
            for (peer, expected) in [
                ("10.1.2.3", true),
                ("::ffff:10.1.2.3", true),
                ("10.1.3.3", false),
                ("::ffff:10.1.3.3", false),
                ("::a01:203", false),
            ] {
                let found = contain(&networks, peer.parse().unwrap());
                assert_eq!(found, expected, "{peer} in {network}");
            }
        }
    }
}
