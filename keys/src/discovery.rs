//! Discovery of an issuer's keys by its metadata (RFC 8414, OpenID Connect Discovery 1.0).
//!
//! The metadata contains the address of the keys. The guard fetches keys only from hosts that the configuration
//! names. Otherwise an attacker who can change the metadata could choose the keys that verify tokens.

use serde_json::{Map, Value};

use crate::endpoint::Endpoint;

/// Longest metadata document that is read, in bytes.
pub const MAX_METADATA_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// `/.well-known/oauth-authorization-server` (RFC 8414 §3.1).
    AuthorizationServer,
    /// `/.well-known/openid-configuration` (OpenID Connect Discovery 1.0 §4).
    OpenIdConfiguration,
}

impl Document {
    /// The name of the document in the configuration and in the URL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AuthorizationServer => "oauth-authorization-server",
            Self::OpenIdConfiguration => "openid-configuration",
        }
    }

    /// The path of the document. RFC 8414 puts the well-known part before the issuer's path, OpenID Connect
    /// after it.
    fn path(self, issuer_path: &str) -> String {
        let own = issuer_path.strip_suffix('/').unwrap_or(issuer_path);
        match self {
            Self::AuthorizationServer => format!("/.well-known/{}{own}", self.name()),
            Self::OpenIdConfiguration => format!("{own}/.well-known/{}", self.name()),
        }
    }
}

/// A host from which keys may be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHost {
    /// Host, with the port if it is not the default one of the scheme.
    pub authority: String,
    pub cluster: String,
}

/// The address of an issuer's metadata, and the hosts that the metadata may point to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    pub endpoint: Endpoint,
    /// Hosts for keys, in addition to the hosts of the issuer and of the document.
    pub jwks_hosts: Vec<KeyHost>,
    /// Interval between fetches of the document and the keys, in seconds.
    pub refresh_seconds: u64,
}

/// The parts of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpUrl<'a> {
    scheme: &'a str,
    /// Host, with the port if there is one.
    pub authority: &'a str,
    /// Path and query: empty, or starting with a slash.
    pub target: &'a str,
}

impl<'a> HttpUrl<'a> {
    /// Parses an absolute http or https URL. `None` if it has a user, a fragment, or bytes that a request
    /// cannot contain.
    pub fn parse(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(end)?;
        let in_authority = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']')
        };
        let in_target = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        let is_good = matches!(scheme, "https" | "http")
            && !authority.is_empty()
            && authority.bytes().all(in_authority)
            && (target.is_empty() || target.starts_with('/'))
            && target.bytes().all(in_target);
        is_good.then_some(Self {
            scheme,
            authority,
            target,
        })
    }

    /// True if the URL has this host and port. A port that is left out is the default port of the scheme (RFC 6454 §4).
    fn is_at(&self, authority: &str) -> bool {
        let default = match self.scheme {
            "https" => ":443",
            _ => ":80",
        };
        let [own, other] = [self.authority, authority]
            .map(|authority| authority.strip_suffix(default).unwrap_or(authority));
        own.eq_ignore_ascii_case(other)
    }
}

/// Returns the path of the issuer's document, and the issuer's authority.
///
/// # Errors
/// The issuer's name is not a URL that can have such a document.
pub fn document_of(issuer: &str, document: Document) -> Result<(String, String), &'static str> {
    let url = HttpUrl::parse(issuer).filter(|url| !url.target.contains('?'));
    let url = url.ok_or("needs an issuer that is a URL without user, query and fragment")?;
    Ok((document.path(url.target), url.authority.to_owned()))
}

impl Discovery {
    /// Returns the address of the keys of `issuer` from its metadata.
    ///
    /// # Errors
    /// What is wrong with the metadata, for the log.
    pub fn keys_of(&self, issuer: &str, metadata: &[u8]) -> Result<Endpoint, String> {
        let metadata = read(issuer, metadata)?;
        self.endpoint_of(issuer, &metadata, "jwks_uri", "jwks_hosts")
    }

    /// Returns the address that `metadata` of `issuer` has at `name`. `hosts` is the key of the configuration that names further
    /// hosts, for the error.
    ///
    /// # Errors
    /// There is no such address, or it is at a host that the configuration does not name.
    pub fn endpoint_of(
        &self,
        issuer: &str,
        metadata: &Map<String, Value>,
        name: &str,
        hosts: &str,
    ) -> Result<Endpoint, String> {
        let address = metadata.get(name).and_then(Value::as_str);
        let address = address.ok_or_else(|| format!("it has no {name}"))?;
        let url = HttpUrl::parse(address)
            .filter(|url| !url.target.is_empty())
            .ok_or_else(|| format!("its {name} is no http or https URL with a path"))?;
        let path = url.target.to_owned();
        let own = HttpUrl::parse(issuer);
        let is_own = own.is_some_and(|own| own.scheme == url.scheme && url.is_at(own.authority));
        if is_own || url.is_at(&self.endpoint.authority) {
            return Ok(Endpoint {
                path,
                ..self.endpoint.clone()
            });
        }
        match self
            .jwks_hosts
            .iter()
            .find(|host| url.is_at(&host.authority))
        {
            Some(host) => Ok(Endpoint {
                cluster: host.cluster.clone(),
                authority: host.authority.clone(),
                path,
            }),
            None => Err(format!(
                "its {name} is at {}://{}, which is neither the origin of the issuer nor in {hosts}",
                url.scheme, url.authority
            )),
        }
    }
}

/// Reads the metadata of `issuer`, which must contain this issuer (RFC 8414 §3.3).
///
/// # Errors
/// What is wrong with the metadata, for the log.
pub fn read(issuer: &str, metadata: &[u8]) -> Result<Map<String, Value>, String> {
    if metadata.len() > MAX_METADATA_BYTES {
        return Err(format!("larger than {MAX_METADATA_BYTES} bytes"));
    }
    let metadata = claims::json::parse_file(metadata).map_err(|error| error.to_string())?;
    match metadata.get("issuer").and_then(Value::as_str) {
        Some(found) if found == issuer => Ok(metadata),
        found => {
            let found: String = found.unwrap_or("absent").chars().take(200).collect();
            Err(format!(
                "its issuer is not the configured one, but {found:?}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://sso.example.com/realms/a";

    fn discovery() -> Discovery {
        Discovery {
            endpoint: Endpoint {
                cluster: "sso".to_owned(),
                authority: "sso.internal:8443".to_owned(),
                path: "/realms/a/.well-known/openid-configuration".to_owned(),
            },
            jwks_hosts: [
                ("keys.example.com", "keys"),
                ("plain.example.com:80", "plain"),
            ]
            .map(|(authority, cluster)| KeyHost {
                authority: authority.to_owned(),
                cluster: cluster.to_owned(),
            })
            .to_vec(),
            refresh_seconds: 300,
        }
    }

    fn keys_at(jwks_uri: &str) -> Result<(String, String, String), String> {
        let metadata = json!({"issuer": ISSUER, "jwks_uri": jwks_uri, "more": [1]}).to_string();
        let endpoint = discovery().keys_of(ISSUER, metadata.as_bytes())?;
        Ok((endpoint.cluster, endpoint.authority, endpoint.path))
    }

    /// The examples of RFC 8414 §3.1 and OpenID Connect Discovery 1.0 §4.1.
    #[test]
    fn rfc8414_s3_1_the_document_is_where_its_standard_puts_it() {
        for (issuer, oauth, openid) in [
            (
                "https://example.com",
                "/.well-known/oauth-authorization-server",
                "/.well-known/openid-configuration",
            ),
            (
                "https://example.com/",
                "/.well-known/oauth-authorization-server",
                "/.well-known/openid-configuration",
            ),
            (
                "https://example.com/issuer1",
                "/.well-known/oauth-authorization-server/issuer1",
                "/issuer1/.well-known/openid-configuration",
            ),
            (
                "http://example.com:8080/a/b/",
                "/.well-known/oauth-authorization-server/a/b",
                "/a/b/.well-known/openid-configuration",
            ),
        ] {
            let path = |document| document_of(issuer, document).unwrap().0;
            assert_eq!(path(Document::AuthorizationServer), oauth, "{issuer}");
            assert_eq!(path(Document::OpenIdConfiguration), openid, "{issuer}");
        }
        for issuer in [
            "example.com",
            "https://a?b",
            "https://a#b",
            "https://u@a",
            "https://",
            "ldap://a",
            "kubernetes/serviceaccount",
        ] {
            assert!(
                document_of(issuer, Document::OpenIdConfiguration).is_err(),
                "{issuer}"
            );
        }
    }

    #[test]
    fn keys_are_fetched_from_hosts_that_are_configured() {
        let at = |cluster: &str, authority: &str, path: &str| {
            Ok((cluster.to_owned(), authority.to_owned(), path.to_owned()))
        };
        let own = at("sso", "sso.internal:8443", "/realms/a/certs?x=1");
        assert_eq!(keys_at("https://sso.example.com/realms/a/certs?x=1"), own);
        assert_eq!(keys_at("https://SSO.example.com/realms/a/certs?x=1"), own);
        assert_eq!(keys_at("http://sso.internal:8443/realms/a/certs?x=1"), own);
        let listed = at("keys", "keys.example.com", "/v1");
        assert_eq!(keys_at("https://keys.example.com/v1"), listed);
        let plain = at("plain", "plain.example.com:80", "/v1");
        assert_eq!(keys_at("http://plain.example.com:80/v1"), plain);
    }

    /// RFC 6454 §4. Kubernetes on Azure names the port of https in `jwks_uri`.
    #[test]
    fn rfc6454_s4_the_default_port_is_the_same_origin() {
        let cluster = |jwks_uri: &str| keys_at(jwks_uri).map(|(cluster, ..)| cluster).ok();
        for (jwks_uri, expected) in [
            ("https://sso.example.com:443/certs", Some("sso")),
            ("https://keys.example.com:443/v1", Some("keys")),
            ("http://keys.example.com:80/v1", Some("keys")),
            ("http://plain.example.com/v1", Some("plain")),
            ("https://sso.example.com:80/certs", None),
            ("https://keys.example.com:80/v1", None),
            ("https://plain.example.com/v1", None),
            ("https://sso.example.com:4430/certs", None),
            ("https://sso.example.com:443:443/certs", None),
        ] {
            assert_eq!(cluster(jwks_uri).as_deref(), expected, "{jwks_uri}");
        }
        for (issuer, jwks_uri, is_own) in [
            ("https://a.example:443", "https://a.example/c", true),
            ("http://a.example", "http://a.example:80/c", true),
            ("http://a.example", "http://a.example:443/c", false),
            ("https://a.example:443", "https://a.example:8443/c", false),
        ] {
            let metadata = json!({"issuer": issuer, "jwks_uri": jwks_uri}).to_string();
            let keys = discovery().keys_of(issuer, metadata.as_bytes());
            assert_eq!(keys.is_ok(), is_own, "{issuer} {jwks_uri}");
        }
    }

    #[test]
    fn no_other_host_is_followed() {
        for jwks_uri in [
            "https://evil.example/certs",
            "http://sso.example.com/certs",
            "https://sso.example.com:8443/certs",
            "https://sso.example.com.evil.example/certs",
            "https://sso.example.com@evil.example/certs",
            "https://evil.example\\@sso.example.com/certs",
            "https://keys.example.com:8443/v1",
            "https://evil.example/#sso.example.com/",
        ] {
            assert!(keys_at(jwks_uri).is_err(), "{jwks_uri}");
        }
        let why = keys_at("https://evil.example/certs").unwrap_err();
        assert!(
            why.contains("https://evil.example, which is neither"),
            "{why}"
        );
        for jwks_uri in [
            "",
            "/certs",
            "//sso.example.com/certs",
            "https://sso.example.com",
            "https://sso.example.com?x",
            "https://sso.example.com/a b",
            "https://sso.example.com/a\r\nx: y",
            "https://sso.example.com/a#b",
            "ftp://sso.example.com/a",
        ] {
            let why = keys_at(jwks_uri).unwrap_err();
            assert!(
                why.starts_with("its jwks_uri is no http"),
                "{jwks_uri}: {why}"
            );
        }
    }

    /// RFC 8414 §3.3: metadata of another issuer is not used, however similar its name.
    #[test]
    fn rfc8414_s3_3_the_issuer_is_compared_exactly() {
        for issuer in [
            json!("https://sso.example.com/realms/a/"),
            json!("https://SSO.example.com/realms/a"),
            json!("https://sso.example.com/realms/b"),
            json!([ISSUER]),
            json!(null),
        ] {
            let metadata = json!({"issuer": issuer, "jwks_uri": "https://sso.example.com/certs"});
            let read = discovery().keys_of(ISSUER, metadata.to_string().as_bytes());
            assert!(read.is_err(), "{issuer}");
        }
        let twice = format!(
            r#"{{"issuer":"x","issuer":"{ISSUER}","jwks_uri":"https://sso.example.com/c"}}"#
        );
        for text in [&twice, "", "[]", "{}", "<html>"] {
            assert!(
                discovery().keys_of(ISSUER, text.as_bytes()).is_err(),
                "{text}"
            );
        }
        let long = vec![b' '; MAX_METADATA_BYTES + 1];
        assert!(
            discovery()
                .keys_of(ISSUER, &long)
                .unwrap_err()
                .contains("larger")
        );
    }

    proptest! {
        /// For every address, the guard sends requests only to configured hosts.
        #[test]
        fn every_address_leads_to_a_configured_cluster(
            scheme in "https?|HTTPS|javascript",
            before in "[a-z@:/\\\\#?%.]{0,12}",
            host in "sso\\.example\\.com|keys\\.example\\.com|sso\\.internal:8443|evil\\.example",
            after in "[ -~]{0,20}",
        ) {
            if let Ok((cluster, authority, path)) = keys_at(&format!("{scheme}://{before}{host}{after}")) {
                prop_assert!(["sso", "keys"].contains(&cluster.as_str()));
                prop_assert!(["sso.internal:8443", "keys.example.com"].contains(&authority.as_str()));
                prop_assert!(path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }

        #[test]
        fn no_metadata_makes_the_reader_panic(text in "\\PC{0,200}") {
            prop_assert!(discovery().keys_of(ISSUER, text.as_bytes()).is_err());
        }
    }
}
