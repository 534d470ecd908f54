//! `[[identity_providers]]`.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use document::{Located, Place, Section};
use keys::algorithm::Algorithm;
use keys::discovery::{self, Discovery, Document, KeyHost};
use keys::endpoint::Endpoint;
use protocol::identity_provider::IdentityProvider;
use url::{Host, Url};

use super::listen::is_loopback;
use super::paths::absolute;
use super::site_labels::label;

const KEY: &str = "identity_providers";

/// Interval between fetches of a provider's metadata and keys, in seconds.
pub(crate) const REFRESH_SECONDS: u64 = 300;

/// How the service reaches an [`IdentityProvider`], the one at the same index of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderConnection {
    pub keys: ProviderKeySource,
    /// CA certificates in PEM that the service trusts for this provider; `None` for the system's.
    pub ca_file: Option<PathBuf>,
    pub credential: Option<ProviderCredential>,
}

/// Where a provider's keys and endpoints come from. The cluster of an [`Endpoint`] is an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderKeySource {
    Discovery(Discovery),
    Configured {
        keys: ProviderKeyPlace,
        /// Authorization endpoint and token endpoint, if people sign in with the provider.
        endpoints: Option<(Url, Url)>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderKeyPlace {
    Uri(Url),
    File(PathBuf),
}

/// How the service authenticates itself at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderCredential {
    SecretFile(PathBuf),
    /// A private key in PEM.
    KeyFile(PathBuf),
}

impl ProviderCredential {
    /// The key of the configuration, and the file.
    pub(crate) const fn file(&self) -> (&'static str, &PathBuf) {
        match self {
            Self::SecretFile(path) => ("client_secret_file", path),
            Self::KeyFile(path) => ("client_key_file", path),
        }
    }
}

/// Values that only one provider may have, with the provider that has them.
#[derive(Default)]
struct Taken(HashMap<(&'static str, String), Place>);

impl Taken {
    fn take(&mut self, section: &Section<'_>, key: &'static str, value: &Located<String>) {
        let earlier = self
            .0
            .insert((key, value.value.clone()), value.place.clone());
        if earlier.is_some() {
            let message = format!("{key}: another identity provider has {} too", value.value);
            section.report(&value.place, message);
        }
    }
}

/// `own`: the issuer of this service.
pub(super) fn read(
    root: &mut Section<'_>,
    own: &str,
    allow_insecure_http: bool,
) -> Vec<(IdentityProvider, ProviderConnection)> {
    let mut taken = Taken::default();
    let mut providers = Vec::new();
    for mut section in root.each(KEY) {
        let provider = one(&mut section, own, allow_insecure_http, &mut taken);
        section.finish();
        providers.extend(provider);
    }
    providers
}

fn one(
    section: &mut Section<'_>,
    own: &str,
    allow_insecure_http: bool,
    taken: &mut Taken,
) -> Option<(IdentityProvider, ProviderConnection)> {
    let transport = Transport {
        allow_insecure_http,
    };
    let [id, issuer, name] = names(section, own, transport, taken);
    // ID tokens would have the audience of an assertion.
    let client_id = section.parsed("client_id", |text| match text == own {
        true => Err("is the issuer of this service: register the service under another Client ID"),
        false => Ok(text.to_owned()),
    });
    let client_id = client_id.map(|id| id.value);
    let credential = credential(section, client_id.is_some());
    let algorithms = algorithms(section);
    let email_domains = email_domains(section, taken);
    let link_by_email = link_by_email(section, client_id.is_some(), !email_domains.is_empty());
    let ca_file = section.path("ca_file").map(absolute);
    let keys = match is_configured(section) {
        true => configured(section, client_id.is_some(), transport),
        false => discovered(section, issuer.as_deref()),
    };
    let id = id?;
    Some((
        IdentityProvider {
            name: name.unwrap_or_else(|| id.clone()),
            id,
            issuer: issuer?,
            algorithms,
            email_domains,
            link_by_email,
            client_id,
        },
        ProviderConnection {
            keys: keys?,
            ca_file,
            credential,
        },
    ))
}

/// The id, the issuer and the name, which no other provider may have.
fn names(
    section: &mut Section<'_>,
    own: &str,
    transport: Transport,
    taken: &mut Taken,
) -> [Option<String>; 3] {
    section.required("id");
    section.required("issuer");
    let id = section.parsed("id", id);
    let is_configured = is_configured(section);
    let issuer = section.parsed("issuer", |text| {
        let printable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !printable {
            return Err("must be printable ASCII without spaces");
        }
        if text == own {
            return Err("is this service itself");
        }
        if !is_configured {
            discovery::document_of(text, Document::OpenIdConfiguration).map_err(|_| {
                "expected an https URL without user, query and fragment, or jwks_uri or jwks_file in place of discovery"
            })?;
        }
        transport.check(text).map(|()| text.to_owned())
    });
    let mut unique = |section: &Section<'_>, key, value: Option<Located<String>>| {
        let value = value?;
        taken.take(section, key, &value);
        Some(value.value)
    };
    let id = unique(section, "id", id);
    let issuer = unique(section, "issuer", issuer);
    let name = section.parsed("name", label);
    [id, issuer, unique(section, "name", name)]
}

/// True if the configuration has the keys, in place of discovery.
fn is_configured(section: &Section<'_>) -> bool {
    section.has("jwks_uri") || section.has("jwks_file")
}

fn link_by_email(section: &mut Section<'_>, has_client_id: bool, has_domains: bool) -> bool {
    let Some(link) = section.flag("link_by_email").filter(|link| link.value) else {
        return false;
    };
    if !has_client_id {
        section.report(
            &link.place,
            "link_by_email: means nothing without client_id",
        );
    } else if !has_domains {
        section.report(
            &link.place,
            "link_by_email: needs email_domains, the domains whose people the provider may name",
        );
    }
    true
}

/// How the service may reach providers.
#[derive(Clone, Copy)]
struct Transport {
    allow_insecure_http: bool,
}

impl Transport {
    fn check(self, url: &str) -> Result<(), &'static str> {
        let is_safe = self.allow_insecure_http || !url.starts_with("http:") || is_loopback(url);
        is_safe.then_some(()).ok_or(PLAIN)
    }

    fn url(self, text: &str) -> Result<Url, &'static str> {
        let url = Url::parse(text).ok().filter(|url| {
            matches!(url.scheme(), "https" | "http")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.fragment().is_none()
        });
        let url = url.ok_or("expected an https URL without user and fragment")?;
        self.check(text).map(|()| url)
    }
}

const PLAIN: &str = "plain http beyond this machine; use https, or set allow_insecure_http = true for a test on a trusted network";

fn id(text: &str) -> Result<String, &'static str> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match (1..=32).contains(&text.len()) && text.bytes().all(legal) {
        true => Ok(text.to_owned()),
        false => Err("expected up to 32 lower-case letters, digits and hyphens"),
    }
}

fn credential(section: &mut Section<'_>, has_client_id: bool) -> Option<ProviderCredential> {
    let is_both = section.has("client_secret_file") && section.has("client_key_file");
    let secret = section.path("client_secret_file").map(absolute);
    let key = section.path("client_key_file").map(absolute);
    if is_both {
        section.problem(
            "client_key_file",
            "cannot be combined with client_secret_file",
        );
    }
    let credential = match (secret, key) {
        (Some(secret), _) => Some(ProviderCredential::SecretFile(secret)),
        (None, key) => key.map(ProviderCredential::KeyFile),
    };
    match (&credential, has_client_id) {
        (Some(credential), false) => {
            section.problem(credential.file().0, "means nothing without client_id");
        }
        (None, true) => section.problem("client_id", "needs client_secret_file or client_key_file"),
        _ => {}
    }
    credential
}

fn algorithms(section: &mut Section<'_>) -> BTreeSet<Algorithm> {
    let Some(names) = section.texts("algorithms") else {
        return [Algorithm::Rs256].into();
    };
    let mut algorithms = BTreeSet::new();
    for name in &names {
        match Algorithm::from_name(&name.value) {
            Some(algorithm) => {
                algorithms.insert(algorithm);
            }
            None => {
                let known: Vec<_> = Algorithm::ALL.iter().map(|known| known.name()).collect();
                let message = format!("algorithms: expected some of {}", known.join(", "));
                section.report(&name.place, message);
            }
        }
    }
    if names.is_empty() {
        section.problem("algorithms", "needs at least one algorithm");
    }
    algorithms
}

fn email_domains(section: &mut Section<'_>, taken: &mut Taken) -> Vec<String> {
    const KEY: &str = "email_domains";
    let mut domains = Vec::new();
    for domain in section.texts(KEY).unwrap_or_default() {
        let lower = domain.value.to_lowercase();
        let is_domain = Host::parse(&lower)
            .is_ok_and(|host| matches!(&host, Host::Domain(name) if *name == lower));
        if !is_domain {
            let message =
                "email_domains: expected domains such as example.com, international ones as xn--";
            section.report(&domain.place, message);
            continue;
        }
        let domain = Located {
            value: lower,
            place: domain.place,
        };
        taken.take(section, KEY, &domain);
        domains.push(domain.value);
    }
    domains
}

/// Keys and endpoints in the configuration, in place of discovery.
fn configured(
    section: &mut Section<'_>,
    has_client_id: bool,
    transport: Transport,
) -> Option<ProviderKeySource> {
    let url = |text: &str| transport.url(text);
    if section.has("jwks_uri") && section.has("jwks_file") {
        section.problem("jwks_file", "cannot be combined with jwks_uri");
    }
    section.refuse("hosts", "means nothing without discovery");
    let uri = section.parsed("jwks_uri", url);
    let file = section.path("jwks_file").map(absolute);
    let [authorization, token] = ["authorization_endpoint", "token_endpoint"].map(|key| {
        if has_client_id {
            section.required(key);
        } else {
            section.refuse(key, "means nothing without client_id");
        }
        section.parsed(key, url).map(|url| url.value)
    });
    let keys = match (uri, file) {
        (Some(uri), _) => ProviderKeyPlace::Uri(uri.value),
        (None, file) => ProviderKeyPlace::File(file?),
    };
    Some(ProviderKeySource::Configured {
        keys,
        endpoints: authorization.zip(token),
    })
}

fn discovered(section: &mut Section<'_>, issuer: Option<&str>) -> Option<ProviderKeySource> {
    for key in ["authorization_endpoint", "token_endpoint"] {
        section.refuse(
            key,
            "comes from discovery; set it only with jwks_uri or jwks_file",
        );
    }
    let mut authorities = Vec::new();
    for host in section.texts("hosts").unwrap_or_default() {
        let url = Url::parse(&format!("https://{}", host.value));
        let is_authority = url.is_ok_and(|url| {
            let rest = url.as_str().strip_prefix("https://");
            rest.and_then(|rest| rest.strip_suffix('/')) == Some(&*host.value)
        });
        if is_authority {
            authorities.push(host.value);
        } else {
            let message = "hosts: expected a host in lower case, with its port unless that is 443, such as keys.example.com";
            section.report(&host.place, message);
        }
    }
    let issuer = issuer?;
    let (path, authority) = discovery::document_of(issuer, Document::OpenIdConfiguration).ok()?;
    let (scheme, _) = issuer.split_once("://")?;
    let origin = |authority: &str| format!("{scheme}://{authority}");
    Some(ProviderKeySource::Discovery(Discovery {
        jwks_hosts: authorities
            .into_iter()
            .map(|authority| KeyHost {
                cluster: origin(&authority),
                authority,
            })
            .collect(),
        endpoint: Endpoint {
            cluster: origin(&authority),
            authority,
            path,
        },
        refresh_seconds: REFRESH_SECONDS,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load;

    const SSO: &str =
        "[[identity_providers]]\nid = 'sso'\nissuer = 'https://sso.example.com/realms/a'\n";

    fn providers(text: &str) -> Vec<(IdentityProvider, ProviderConnection)> {
        let config = load(text, &[]).unwrap();
        let settings = config.protocol.identity_providers.iter().cloned();
        settings.zip(config.identity_providers).collect()
    }

    #[test]
    fn an_entry_has_defaults() {
        assert_eq!(providers(""), []);
        let (provider, connection) = providers(SSO).remove(0);
        assert_eq!((provider.name.as_str(), provider.client_id), ("sso", None));
        assert_eq!(provider.algorithms, [Algorithm::Rs256].into());
        assert!(!provider.link_by_email && provider.email_domains.is_empty());
        let ProviderKeySource::Discovery(discovery) = connection.keys else {
            panic!("{connection:?}");
        };
        let expected = Endpoint {
            cluster: "https://sso.example.com".to_owned(),
            authority: "sso.example.com".to_owned(),
            path: "/realms/a/.well-known/openid-configuration".to_owned(),
        };
        assert_eq!(discovery.endpoint, expected);
        assert_eq!((connection.credential, connection.ca_file), (None, None));
    }

    #[test]
    fn keys_may_stand_in_place_of_discovery() {
        let text = "[[identity_providers]]\nid = 'k8s'\nissuer = 'kubernetes/serviceaccount'\njwks_file = 'jwks.json'\n\
                    [[identity_providers]]\nid = 'sso'\nissuer = 'https://sso.example.com'\nname = 'Contoso'\n\
                    client_id = 'c'\nclient_key_file = 'key.pem'\njwks_uri = 'https://keys.example.com/'\n\
                    authorization_endpoint = 'https://sso.example.com/a'\ntoken_endpoint = 'https://sso.example.com/t'\n\
                    algorithms = ['ES256', 'PS256']\nemail_domains = ['Contoso.com']\nlink_by_email = true\n";
        let mut providers = providers(text);
        let (sso, connection) = providers.remove(1);
        assert_eq!(sso.algorithms, [Algorithm::Es256, Algorithm::Ps256].into());
        assert!(sso.link_by_email && sso.has_email("ada@CONTOSO.com"));
        assert!(matches!(
            connection.credential,
            Some(ProviderCredential::KeyFile(path)) if path.ends_with("key.pem")
        ));
        let url = |text: &str| text.parse::<Url>().unwrap();
        let expected = ProviderKeySource::Configured {
            keys: ProviderKeyPlace::Uri(url("https://keys.example.com/")),
            endpoints: Some((
                url("https://sso.example.com/a"),
                url("https://sso.example.com/t"),
            )),
        };
        assert_eq!(connection.keys, expected);
        assert!(matches!(
            &providers[0].1.keys,
            ProviderKeySource::Configured { keys: ProviderKeyPlace::File(path), endpoints: None } if path.ends_with("jwks.json")
        ));
    }

    #[test]
    fn variables_set_an_entry() {
        let variables = [
            ("TOKEN_SERVICE__IDENTITY_PROVIDERS__0__ID", "sso"),
            (
                "TOKEN_SERVICE__IDENTITY_PROVIDERS__0__ISSUER",
                "https://sso.example.com",
            ),
            (
                "TOKEN_SERVICE__IDENTITY_PROVIDERS__0__HOSTS",
                "a.example,b.example:8443",
            ),
            (
                "TOKEN_SERVICE__IDENTITY_PROVIDERS__0__LINK_BY_EMAIL",
                "false",
            ),
        ];
        let config = load("", &variables).unwrap();
        let ProviderKeySource::Discovery(discovery) = &config.identity_providers[0].keys else {
            panic!("{config:?}");
        };
        let clusters: Vec<&str> = discovery
            .jwks_hosts
            .iter()
            .map(|host| &*host.cluster)
            .collect();
        assert_eq!(clusters, ["https://a.example", "https://b.example:8443"]);
    }

    #[test]
    fn every_problem_names_its_line() {
        for (more, problem) in [
            ("ids = 'a'", "4: ids: unknown key; did you mean id?"),
            (
                "algorithms = ['RS256', 'HS256']",
                "4: algorithms: expected some of EdDSA, ES256, ES384, RS256, RS384, RS512, PS256",
            ),
            (
                "algorithms = []",
                "4: algorithms: needs at least one algorithm",
            ),
            (
                "client_id = 'c'",
                "4: client_id: needs client_secret_file or client_key_file",
            ),
            (
                "client_secret_file = 's'",
                "4: client_secret_file: means nothing without client_id",
            ),
            (
                "client_id = 'c'\nclient_secret_file = 's'\nclient_key_file = 'k'",
                "6: client_key_file: cannot be combined with client_secret_file",
            ),
            (
                "link_by_email = true",
                "4: link_by_email: means nothing without client_id",
            ),
            (
                "client_id = 'c'\nclient_secret_file = 's'\nlink_by_email = true",
                "6: link_by_email: needs email_domains, the domains whose people the provider may name",
            ),
            (
                "email_domains = ['@example.com']",
                "4: email_domains: expected domains such as example.com, international ones as xn--",
            ),
            (
                "email_domains = ['a.example', 'A.example']",
                "4: email_domains: another identity provider has a.example too",
            ),
            (
                "hosts = ['https://a.example']",
                "4: hosts: expected a host in lower case, with its port unless that is 443, such as keys.example.com",
            ),
            (
                "token_endpoint = 'https://a.example/t'",
                "4: token_endpoint: comes from discovery; set it only with jwks_uri or jwks_file",
            ),
            (
                "jwks_uri = 'https://a.example/k'\njwks_file = 'f'",
                "5: jwks_file: cannot be combined with jwks_uri",
            ),
            (
                "jwks_uri = 'http://a.example/k'",
                &format!("4: jwks_uri: {PLAIN}"),
            ),
            (
                "jwks_uri = 'https://u@a.example/k'",
                "4: jwks_uri: expected an https URL without user and fragment",
            ),
            (
                "jwks_file = 'f'\ntoken_endpoint = 'https://a.example/t'",
                "5: token_endpoint: means nothing without client_id",
            ),
            (
                "jwks_file = 'f'\nhosts = ['a.example']",
                "5: hosts: means nothing without discovery",
            ),
            (
                "[[identity_providers]]\nid = 'sso'\nissuer = 'https://b.example'",
                "5: id: another identity provider has sso too",
            ),
            (
                "name = 'Contoso'\n[[identity_providers]]\nid = 'b'\nissuer = 'https://b.example'\nname = 'Contoso'",
                "8: name: another identity provider has Contoso too",
            ),
            (
                "name = ' '",
                "4: name: has other white space than single spaces between words: correct it",
            ),
            (
                "[[identity_providers]]\nid = 'b'\nissuer = 'https://sso.example.com/realms/a'",
                "6: issuer: another identity provider has https://sso.example.com/realms/a too",
            ),
            (
                "[[identity_providers]]\nid = 'b'\nissuer = 'http://127.0.0.1:8081'",
                "6: issuer: is this service itself",
            ),
            (
                "[[identity_providers]]\nid = 'b'\nissuer = 'http://sso.example.com'",
                &format!("6: issuer: {PLAIN}"),
            ),
            (
                "[[identity_providers]]\nid = 'B'\nissuer = 'https://b.example'",
                "5: id: expected up to 32 lower-case letters, digits and hyphens",
            ),
            (
                "[[identity_providers]]\nid = 'b'\nissuer = 'kubernetes/serviceaccount'",
                "6: issuer: expected an https URL without user, query and fragment, or jwks_uri or jwks_file in place of discovery",
            ),
        ] {
            let problems = load(&format!("{SSO}{more}\n"), &[]).unwrap_err();
            assert_eq!(problems, [format!("config.toml:{problem}")], "{more}");
        }
        let missing = load("[[identity_providers]]\nname = 'n'\n", &[]).unwrap_err();
        assert_eq!(
            missing,
            [
                "config.toml:1: id is missing",
                "config.toml:1: issuer is missing"
            ]
        );
        let plain = "[[identity_providers]]\nid = 'b'\nissuer = 'http://127.0.0.1:9000'\n";
        assert!(load(plain, &[]).is_ok());
        let plain = "allow_insecure_http = true\n[[identity_providers]]\nid = 'b'\nissuer = 'http://sso.example.com'\n";
        assert!(load(plain, &[]).is_ok());
    }
}
