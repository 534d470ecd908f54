//! `[mutual_tls]`.

use std::net::SocketAddr;

use actix_web::http::header::HeaderName;
use document::{Located, Section};
use ipnet::IpNet;
use url::Url;

use super::trusted_proxies::{Widest, read_list};
use super::{issuer, listen};

/// The listener for clients that authenticate their connection with a certificate (RFC 8705). A gateway ends TLS and hands the
/// certificate over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutualTls {
    pub listen: SocketAddr,
    /// The base address under which clients know the listener, without a trailing slash: `mtls_endpoint_aliases`.
    pub url: String,
    /// The addresses that may hand over a certificate.
    pub gateways: Vec<IpNet>,
    /// The header in which they hand it over.
    pub certificate_header: HeaderName,
}

/// The key of the address.
pub const LISTEN: &str = "mutual_tls.listen";

/// One subnet of one host or node: thumbprints are no secrets, so anybody at such an address can act as any client (D-51).
const GATEWAYS: Widest = Widest {
    v4: 24,
    v6: 64,
    example: "10.1.2.0/24",
    reason: "covers others than the gateway, who could then name any client by its certificate; name the addresses of \
             your gateways, or networks of /24 at most, in IPv6 /64",
};

const CERTIFICATE_HEADER: HeaderName =
    HeaderName::from_static("x-token-service-client-certificate");

/// Returns the address of the listener with its place too. `None` without the table.
pub(super) fn read(
    root: &mut Section<'_>,
    issuer: &Located<String>,
) -> Option<(MutualTls, Located<SocketAddr>)> {
    root.optional("mutual_tls", |section| {
        section.required("listen");
        section.required("url");
        section.required("gateways");
        let listen = section.parsed("listen", listen::parse);
        let url = section.parsed("url", |text| base_url(text, &issuer.value));
        let header = section.parsed("certificate_header", |text| {
            HeaderName::try_from(text).map_err(|_| "expected the name of a header")
        });
        let gateways = read_list(section, "gateways", &GATEWAYS);
        let (listen, url, gateways) = (listen?, url?, gateways?);
        let mutual_tls = MutualTls {
            listen: listen.value,
            url: url.value,
            gateways,
            certificate_header: header.map_or(CERTIFICATE_HEADER, |header| header.value),
        };
        Some((mutual_tls, listen))
    })
}

/// RFC 8705 §5. Clients compare the URL in DPoP proofs as text too, so the form is that of an issuer.
fn base_url(text: &str, issuer: &str) -> Result<String, String> {
    let url = issuer::base_url(text)?;
    let is_https = Url::parse(&url).is_ok_and(|url| url.scheme() == "https");
    if !is_https {
        return Err("must be an https URL: clients authenticate in TLS".to_owned());
    }
    if url == issuer {
        return Err(
            "must differ from issuer: the gateway asks for certificates at another address"
                .to_owned(),
        );
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load;

    #[test]
    fn the_table_is_optional_and_says_where_clients_find_the_listener() {
        assert_eq!(load("", &[]).unwrap().mutual_tls, None);
        let text = "[mutual_tls]\nlisten = '127.0.0.1:9086'\nurl = 'https://mtls.example.com'\n\
                    gateways = ['10.1.2.3', '::ffff:10.1.3.0/120', 'fd00:1::/64', '::1']\n";
        let expected = MutualTls {
            listen: "127.0.0.1:9086".parse().unwrap(),
            url: "https://mtls.example.com".to_owned(),
            gateways: ["10.1.2.3/32", "10.1.3.0/24", "fd00:1::/64", "::1/128"]
                .map(|network| network.parse().unwrap())
                .to_vec(),
            certificate_header: CERTIFICATE_HEADER,
        };
        assert_eq!(load(text, &[]).unwrap().mutual_tls, Some(expected.clone()));
        let header = (
            "TOKEN_SERVICE__MUTUAL_TLS__CERTIFICATE_HEADER",
            "X-Forwarded-Tls-Client-Cert",
        );
        let renamed = MutualTls {
            certificate_header: HeaderName::from_static("x-forwarded-tls-client-cert"),
            ..expected
        };
        assert_eq!(load(text, &[header]).unwrap().mutual_tls, Some(renamed));
    }

    #[test]
    fn every_wrong_value_is_told() {
        let text = "issuer = 'https://lobby.example.com'\n[mutual_tls]\nlisten = '127.0.0.1:9080'\n\
                    url = 'https://lobby.example.com'\ncertificate_header = 'a b'\ngateways = '::1'\n";
        assert_eq!(
            load(text, &[]).unwrap_err(),
            [
                "config.toml:4: url: must differ from issuer: the gateway asks for certificates at another address",
                "config.toml:5: certificate_header: expected the name of a header",
                "config.toml:6: gateways: expected a list of strings, found a string",
            ]
        );
        for (url, problem) in [
            (
                "http://mtls.example.com",
                "must be an https URL: clients authenticate in TLS",
            ),
            ("https://mtls.example.com/", "must not end with a slash"),
        ] {
            let text = format!(
                "[mutual_tls]\nlisten = '127.0.0.1:9086'\nurl = '{url}'\ngateways = ['::1']\n"
            );
            let expected = format!("config.toml:3: url: {problem}");
            assert_eq!(load(&text, &[]).unwrap_err(), [expected]);
        }
        let missing = load("[mutual_tls]\n", &[]).unwrap_err();
        assert_eq!(
            missing,
            [
                "config.toml:1: gateways is missing",
                "config.toml:1: listen is missing",
                "config.toml:1: url is missing"
            ]
        );
    }

    /// D-51. What `trusted_proxies` takes is too wide for certificates, and is not taken from there.
    #[test]
    fn a_gateway_is_an_address_or_a_small_network() {
        for (wide, problem) in [
            ("127.0.0.0/8", GATEWAYS.reason),
            ("10.1.2.0/23", GATEWAYS.reason),
            ("fd00::/63", GATEWAYS.reason),
            ("::ffff:10.1.2.0/119", GATEWAYS.reason),
            (
                "envoy",
                "is neither an address nor a network such as 10.1.2.0/24",
            ),
        ] {
            let text = format!(
                "trusted_proxies = ['10.0.0.0/8']\n[mutual_tls]\nlisten = '127.0.0.1:9086'\n\
                 url = 'https://mtls.example.com'\ngateways = ['{wide}']\n"
            );
            let expected = format!("config.toml:5: gateways: {wide} {problem}");
            assert_eq!(load(&text, &[]).unwrap_err(), [expected]);
        }
    }
}
