//! The guard's configuration: a JSON object. Every problem is reported with its path.

mod dpop;
mod headers;
mod issuers;
mod rules;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use claims::json::JsonError;
use document::{Problems, Section, Table};
use keys::KeySet;
use keys::algorithm::Algorithm;
use keys::discovery::Discovery;
use keys::endpoint::Endpoint;
use keys::signature::HostVerifier;
use serde_json::Value;

pub use self::dpop::DpopConfig;
use crate::forward::ForwardedHeader;
use crate::profile::Profile;
use crate::rules::{PathPattern, Rules};
use crate::source::{IntrospectionSource, WhenStale};

/// Everything that is configured.
#[derive(Debug)]
pub struct Config {
    /// Issuers whose tokens the guard accepts.
    pub issuers: Vec<IssuerConfig>,
    /// What a request needs, by path and method. The guard denies a path without a rule (D-23).
    pub rules: Rules,
    /// Headers that carry claims to the resource server.
    pub forward: Vec<ForwardedHeader>,
    /// Header that carries the whole payload to the resource server, as base64url.
    pub forward_payload: Option<String>,
    /// What the resource server receives of the token itself.
    pub forward_authorization: ForwardAuthorization,
    /// How clients prove the possession of keys. Without it, no token that is bound to a key is accepted.
    pub dpop: Option<DpopConfig>,
    /// Tolerated difference between the clocks for `exp`, `nbf` and `iat`, in seconds.
    pub clock_skew_seconds: u64,
    /// Most verified tokens that each VM remembers.
    pub token_cache_entries: usize,
    /// Most bytes that the remembered tokens take in each VM.
    pub token_cache_bytes: usize,
    /// `realm` of the challenges.
    pub realm: String,
    /// Protected resource metadata (RFC 9728), which the guard answers itself.
    pub protected_resource: Option<ProtectedResource>,
    /// True if the gateway's access log receives subject, client and decision of each request.
    pub access_log_state: bool,
    /// Lets every request pass, and counts and logs the requests that the guard would have refused.
    pub report_only: bool,
}

/// An issuer whose tokens the guard accepts.
#[derive(Debug)]
pub struct IssuerConfig {
    /// `iss`, compared exactly.
    pub issuer: String,
    /// A token must have at least one of these audiences.
    pub audiences: Vec<String>,
    /// Source of the issuer's keys.
    pub keys: KeySource,
    /// Source of the issuer's revocations. Without revocations and introspection, tokens are valid until they expire.
    pub revocations: Option<RevocationSource>,
    /// Endpoint that the guard asks about each token (RFC 7662), in place of revocations.
    pub introspection: Option<IntrospectionSource>,
    /// What the issuer's access tokens look like.
    pub profile: Profile,
    /// Algorithms that the issuer's tokens may use.
    pub algorithms: BTreeSet<Algorithm>,
    /// True if the metadata of the resource names this issuer, because clients find the issuer's metadata at its name
    /// (RFC 8414).
    pub authorization_server: bool,
    /// True if the guard accepts only tokens with `cnf`.
    pub sender_constrained: bool,
    /// True if every proof for a token of this issuer needs a nonce.
    pub requires_nonce: bool,
}

/// What the resource server receives of `Authorization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardAuthorization {
    AsSent,
    Withheld,
    /// With the scheme Bearer in place of DPoP, and without the proof. The resource server cannot check the binding then.
    AsBearer,
}

/// Source of an issuer's keys.
#[derive(Debug)]
pub enum KeySource {
    /// The configuration holds the keys.
    Inline(KeySet),
    /// The guard fetches the keys from a configured address.
    Fetched {
        /// Address of the JWK set.
        endpoint: Endpoint,
        /// Time between two fetches, in seconds.
        refresh_seconds: u64,
    },
    /// The guard fetches the keys from the address in the issuer's metadata.
    Discovered(Discovery),
}

/// Source of an issuer's revocations.
#[derive(Debug)]
pub struct RevocationSource {
    /// Address of the revocation feed.
    pub endpoint: Endpoint,
    /// Time between two fetches, in seconds, if the service does not hold requests until there is news.
    pub poll_seconds: u64,
    /// Age beyond which the revocations are stale, in seconds.
    pub max_staleness_seconds: u64,
    /// What the guard does while the revocations are stale.
    pub when_stale: WhenStale,
    /// Most entries that each VM holds.
    pub max_entries: usize,
}

/// Metadata of the resource server (RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedResource {
    /// The resource identifier: a URL of origin and path. A request can have this path, so clients can reach the
    /// metadata.
    pub resource: String,
    /// Scopes that clients may need.
    pub scopes_supported: Vec<String>,
    /// True if the gateway asks clients for certificates, so that tokens can be bound to them (RFC 8705 §3.3).
    pub certificate_bound_access_tokens: bool,
}

const DEFAULT_SKEW_SECONDS: u64 = 5;
const DEFAULT_CACHE_ENTRIES: u64 = 10_000;
const MAX_CACHE_ENTRIES: u64 = 1_000_000;
const DEFAULT_CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// A quarter of the address space of a VM, in bytes.
const MAX_CACHE_BYTES: u64 = 1024 * 1024 * 1024;

impl Config {
    /// Names of the gateway's clusters that the guard sends requests to.
    pub fn clusters(&self) -> BTreeSet<&str> {
        let mut clusters = BTreeSet::new();
        for issuer in &self.issuers {
            match &issuer.keys {
                KeySource::Inline(_) => {}
                KeySource::Fetched { endpoint, .. } => {
                    clusters.insert(endpoint.cluster.as_str());
                }
                KeySource::Discovered(discovery) => {
                    let hosts = discovery.jwks_hosts.iter();
                    clusters.insert(discovery.endpoint.cluster.as_str());
                    clusters.extend(hosts.map(|host| host.cluster.as_str()));
                }
            }
            let feed = issuer.revocations.as_ref().map(|source| &source.endpoint);
            let asked = issuer.introspection.as_ref().map(|source| &source.endpoint);
            let endpoints = feed.into_iter().chain(asked);
            clusters.extend(endpoints.map(|endpoint| endpoint.cluster.as_str()));
        }
        clusters
    }

    /// Reads the configuration of a guard that runs on `host`.
    ///
    /// # Errors
    /// All problems, each as `path: message`. An algorithm that this host cannot verify is a problem.
    pub fn parse(text: &[u8], host: &dyn HostVerifier) -> Result<Self, Vec<String>> {
        let object = claims::json::parse_file(text)
            .map_err(|error| vec![format!("the configuration: {}", slip(text, error))])?;
        let problems = Problems::default();
        let config = Self::read(Table::from_strict_json(object), host, &problems);
        let problems = problems.into_found();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(problems.iter().map(ToString::to_string).collect())
        }
    }

    fn read(table: Table, host: &dyn HostVerifier, problems: &Problems) -> Self {
        let mut root = Section::root(table, problems);
        let dpop = dpop::read(&mut root);
        let has_nonces = dpop.as_ref().is_some_and(|dpop| dpop.nonce_key.is_some());
        let config = Self {
            dpop,
            issuers: issuers::read(&mut root, host, has_nonces),
            rules: rules::read(&mut root),
            forward: headers::read(&mut root),
            forward_payload: headers::name(&mut root, "forward_payload"),
            forward_authorization: forward_authorization(&mut root),
            clock_skew_seconds: number(
                &mut root,
                "clock_skew_seconds",
                0..=300,
                DEFAULT_SKEW_SECONDS,
            ),
            token_cache_entries: number(
                &mut root,
                "token_cache_entries",
                0..=MAX_CACHE_ENTRIES,
                DEFAULT_CACHE_ENTRIES,
            ) as usize,
            token_cache_bytes: number(
                &mut root,
                "token_cache_bytes",
                0..=MAX_CACHE_BYTES,
                DEFAULT_CACHE_BYTES,
            ) as usize,
            realm: realm(&mut root),
            protected_resource: protected_resource(&mut root),
            access_log_state: flag(&mut root, "access_log_state", false),
            report_only: flag(&mut root, "report_only", false),
        };
        headers::check(&root, &config);
        root.finish();
        config
    }
}

/// Why `text` is not a strict JSON object, with line and column for a syntax error. The message repeats no value of the
/// configuration, which may be a secret.
fn slip(text: &[u8], error: JsonError) -> String {
    if error != JsonError::NotAnObject {
        return error.to_string();
    }
    let Ok(text) = str::from_utf8(text) else {
        return "not JSON: it is not UTF-8".to_owned();
    };
    let first = text.bytes().find(|byte| !byte.is_ascii_whitespace());
    match serde_json::from_str::<Value>(text) {
        _ if first.is_none() => "is empty; it must be a JSON object".to_owned(),
        Err(error) if first == Some(b'{') => format!("not JSON: {error}"),
        Err(error) => {
            format!("not JSON: {error}; in Envoy, a StringValue must carry it as JSON text")
        }
        Ok(_) => "is JSON, but not an object: it must start with {".to_owned(),
    }
}

fn text(object: &mut Section<'_>, key: &'static str) -> Option<String> {
    object.text(key).map(|text| text.value)
}

fn required_text(object: &mut Section<'_>, key: &'static str) -> Option<String> {
    object.required(key);
    text(object, key)
}

/// Returns the value of the text at `key`, which must be one of `names`; `default` if the text is absent or wrong.
fn one_of<T: Copy, const N: usize>(
    object: &mut Section<'_>,
    key: &'static str,
    names: [(&str, T); N],
    default: T,
) -> T {
    let index = object.choice(key, &names.map(|(name, _)| name));
    let named = index.and_then(|index| names.get(index));
    named.map_or(default, |(_, value)| *value)
}

/// Returns `values` if they are texts, at least one, and no text is empty.
fn texts_of(values: &[Value]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    for value in values {
        let text = value.as_str().filter(|text| !text.is_empty())?;
        texts.push(text.to_owned());
    }
    Some(texts).filter(|texts| !texts.is_empty())
}

fn flag(object: &mut Section<'_>, key: &'static str, default: bool) -> bool {
    object.flag(key).map_or(default, |flag| flag.value)
}

fn number(
    object: &mut Section<'_>,
    key: &'static str,
    range: RangeInclusive<u64>,
    default: u64,
) -> u64 {
    object
        .number(key, range)
        .map_or(default, |number| number.value)
}

fn forward_authorization(root: &mut Section<'_>) -> ForwardAuthorization {
    let bearer = ("bearer", ForwardAuthorization::AsBearer);
    let forwards = root.flag_or("forward_authorization", bearer, |forwards| match forwards {
        true => ForwardAuthorization::AsSent,
        false => ForwardAuthorization::Withheld,
    });
    forwards.unwrap_or(ForwardAuthorization::AsSent)
}

fn realm(root: &mut Section<'_>) -> String {
    let realm = text(root, "realm").unwrap_or_else(|| "api".to_owned());
    let quotable = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\';
    if !realm.bytes().all(quotable) {
        root.problem(
            "realm",
            "must be printable ASCII without quotes and backslashes",
        );
    }
    realm
}

fn protected_resource(root: &mut Section<'_>) -> Option<ProtectedResource> {
    root.optional("protected_resource", |object| {
        let resource = required_text(object, "resource")?;
        if let Err(why) = check_resource(&resource) {
            object.problem("resource", why);
        }
        let scopes_supported = object.values("scopes_supported").unwrap_or_default();
        if !scopes_supported.iter().all(|scope| is_scope(scope)) {
            object.problem("scopes_supported", "has something that is no scope token");
        }
        let certificates = "tls_client_certificate_bound_access_tokens";
        let certificate_bound_access_tokens = flag(object, certificates, false);
        Some(ProtectedResource {
            resource,
            scopes_supported,
            certificate_bound_access_tokens,
        })
    })
}

/// RFC 9728 §3.1 derives the address of the metadata from the identifier. Clients can reach that address only if a rule
/// could name the identifier's path.
fn check_resource(resource: &str) -> Result<(), &'static str> {
    let rest = resource
        .strip_prefix("https://")
        .or_else(|| resource.strip_prefix("http://"))
        .ok_or("must be a URL that starts with https:// or http://")?;
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(format!("/{path}"))),
        None => (rest, None),
    };
    let legal = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']')
    };
    if authority.is_empty() || !authority.bytes().all(legal) {
        return Err(
            "must be a URL with a host, and an optional port and path: no user, query or fragment",
        );
    }
    path.map_or(Ok(()), |path| PathPattern::Exact(path).check())
}

/// `scope-token` of RFC 6749 §3.3.
fn is_scope(text: &str) -> bool {
    let legal = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.bytes().all(legal)
}

#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;
