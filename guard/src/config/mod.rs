//! The plugin's configuration: JSON, read strictly, every problem named with its path.

mod issuers;
mod reader;

use std::collections::BTreeSet;

use claims::Algorithm;
use claims::json::JsonError;
use serde_json::Value;

use crate::authorization::is_token_byte;
use crate::discovery::Discovery;
use crate::forward::{ForwardedHeader, ListForm};
use crate::introspection::IntrospectionSource;
use crate::keys::KeySet;
use crate::profile::Profile;
use crate::rules::{Access, PathPattern, Rule};
pub use crate::source::{Endpoint, WhenStale};
use reader::Object;

/// Everything that is configured.
#[derive(Debug)]
pub struct Config {
    /// Whose tokens are accepted.
    pub issuers: Vec<IssuerConfig>,
    /// What each path needs; a path without a rule is denied (D-23).
    pub rules: Vec<Rule>,
    /// Headers that carry claims to the resource server.
    pub forward: Vec<ForwardedHeader>,
    /// The header that carries the whole payload to the resource server, as base64url.
    pub forward_payload: Option<String>,
    /// Whether the resource server sees the token itself.
    pub forward_authorization: bool,
    /// Tolerated difference between the clocks, in seconds, for `exp`, `nbf` and `iat`.
    pub clock_skew_seconds: u64,
    /// Verified tokens that are remembered at most, in each VM.
    pub token_cache_entries: usize,
    /// Bytes that they take at most, in each VM.
    pub token_cache_bytes: usize,
    /// `realm` of the challenges.
    pub realm: String,
    /// Protected resource metadata (RFC 9728), answered by the filter itself.
    pub protected_resource: Option<ProtectedResource>,
    /// Whether the gateway's access log may read who a request was from, and what became of it.
    pub access_log_state: bool,
    /// Lets every request through, and counts and logs what it would have refused.
    pub report_only: bool,
}

/// One issuer.
#[derive(Debug)]
pub struct IssuerConfig {
    /// `iss`, compared exactly.
    pub issuer: String,
    /// Audiences: a token for any of them is accepted.
    pub audiences: Vec<String>,
    /// Where its keys come from.
    pub keys: KeySource,
    /// Where its revocations come from; without it and introspection, tokens are good until they expire.
    pub revocations: Option<RevocationSource>,
    /// How it is asked about each token instead (RFC 7662).
    pub introspection: Option<IntrospectionSource>,
    /// What its access tokens look like.
    pub profile: Profile,
    /// Algorithms that its tokens may use.
    pub algorithms: BTreeSet<Algorithm>,
    /// Whether clients find its metadata at its name (RFC 8414), so that the metadata of the resource may name it.
    pub authorization_server: bool,
}

/// Where keys come from.
#[derive(Debug)]
pub enum KeySource {
    /// They are in the configuration.
    Inline(KeySet),
    /// They are fetched.
    Fetched {
        /// From where.
        endpoint: Endpoint,
        /// How often, in seconds.
        refresh_seconds: u64,
    },
    /// They are fetched from where the issuer's metadata says.
    Discovered(Discovery),
}

/// Where revocations come from.
#[derive(Debug)]
pub struct RevocationSource {
    /// From where.
    pub endpoint: Endpoint,
    /// How often, in seconds, where the service does not hold requests.
    pub poll_seconds: u64,
    /// Age beyond which the list is stale, in seconds.
    pub max_staleness_seconds: u64,
    /// What happens then.
    pub when_stale: WhenStale,
    /// Entries that each VM holds at most.
    pub max_entries: usize,
}

/// What RFC 9728 has clients learn about the resource server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedResource {
    /// The resource identifier: a URL of origin and path. The path is one that a request can have, so that the metadata can
    /// be reached.
    pub resource: String,
    /// Scopes that clients may need.
    pub scopes_supported: Vec<String>,
}

const DEFAULT_SKEW_SECONDS: u64 = 5;
const DEFAULT_CACHE_ENTRIES: u64 = 10_000;
const MAX_CACHE_ENTRIES: u64 = 1_000_000;
const DEFAULT_CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// A quarter of what a VM can address.
const MAX_CACHE_BYTES: u64 = 1024 * 1024 * 1024;

impl Config {
    /// The gateway's names for the upstreams that are fetched from.
    #[must_use]
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

    /// Reads the configuration.
    ///
    /// # Errors
    /// Every problem, as `path: what is wrong`.
    pub fn parse(text: &[u8]) -> Result<Self, Vec<String>> {
        let object = claims::json::parse_object(text)
            .map_err(|error| vec![format!("the configuration: {}", slip(text, error))])?;
        let mut problems = Vec::new();
        let mut root = Object::root(object, &mut problems);
        let config = Self {
            issuers: issuers::read(&mut root),
            rules: rules(&mut root),
            forward: forward(&mut root),
            forward_payload: header_name(&mut root, "forward_payload"),
            forward_authorization: root.flag("forward_authorization").unwrap_or(true),
            clock_skew_seconds: root
                .number("clock_skew_seconds", 0..=300)
                .unwrap_or(DEFAULT_SKEW_SECONDS),
            token_cache_entries: root
                .number("token_cache_entries", 0..=MAX_CACHE_ENTRIES)
                .unwrap_or(DEFAULT_CACHE_ENTRIES) as usize,
            token_cache_bytes: root
                .number("token_cache_bytes", 0..=MAX_CACHE_BYTES)
                .unwrap_or(DEFAULT_CACHE_BYTES) as usize,
            realm: realm(&mut root),
            protected_resource: protected_resource(&mut root),
            access_log_state: root.flag("access_log_state").unwrap_or(false),
            report_only: root.flag("report_only").unwrap_or(false),
        };
        check_headers(&mut root, &config);
        root.finish();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(problems)
        }
    }
}

/// What is wrong with a text that is not a strict JSON object, with line and column where JSON has them. It quotes nothing
/// of the text but the name of a member.
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

fn rules(root: &mut Object<'_>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    root.require("rules");
    let is_empty = root.objects("rules", |mut object| {
        let pattern = match (object.text("path"), object.text("path_prefix")) {
            (Some(path), None) => Some(PathPattern::Exact(path)),
            (None, Some(prefix)) => Some(PathPattern::Prefix(prefix)),
            _ => {
                object.problem("path", "or path_prefix is needed, and only one of the two");
                None
            }
        };
        if let Some(pattern) = &pattern
            && let Err(why) = pattern.check()
        {
            object.problem(pattern.key(), why);
        }
        let methods = object.texts("methods");
        if methods.as_ref().is_some_and(Vec::is_empty) {
            object.problem("methods", "needs at least one method, or leave it out");
        }
        for method in methods.iter().flatten() {
            if let Err(why) = check_method(method) {
                object.problem("methods", &why);
            }
        }
        let scopes = object.texts("scopes").unwrap_or_default();
        if !scopes.iter().all(|scope| is_scope(scope)) {
            object.problem("scopes", "has something that is no scope token");
        }
        let access = match object.text("access").as_deref() {
            None | Some("token") => Access::Token { scopes },
            Some("anonymous") => {
                if !scopes.is_empty() {
                    object.problem("scopes", "means nothing on an anonymous path");
                }
                Access::Anonymous
            }
            Some(_) => {
                object.problem("access", "is token or anonymous");
                Access::Token { scopes }
            }
        };
        if let Some(pattern) = pattern {
            let rule = Rule {
                pattern,
                methods: methods.unwrap_or_default(),
                access,
            };
            if rules.iter().any(|other| other.collides_with(&rule)) {
                object.problem(rule.pattern.key(), "has another rule for the same method");
            }
            rules.push(rule);
        }
        object.finish();
    });
    if is_empty {
        root.problem(
            "rules",
            "needs at least one rule: without one, all is denied",
        );
    }
    rules
}

/// Methods are compared byte for byte (RFC 9110 §9.1), and a rule whose method no request has leaves those requests to
/// another rule: a typing error must not open a path.
fn check_method(method: &str) -> Result<(), String> {
    if method.is_empty() || !method.bytes().all(is_token_byte) {
        let trimmed = method.trim().to_ascii_uppercase();
        let hint = match !trimmed.is_empty() && trimmed.bytes().all(is_token_byte) {
            true => format!("; did you mean \"{trimmed}\"?"),
            false => String::new(),
        };
        return Err(format!("{method:?} is no HTTP method{hint}"));
    }
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        let upper = method.to_ascii_uppercase();
        return Err(format!(
            "{method:?} is not in upper case, and methods are case-sensitive; did you mean {upper:?}?"
        ));
    }
    Ok(())
}

fn forward(root: &mut Object<'_>) -> Vec<ForwardedHeader> {
    let mut headers = Vec::new();
    root.object("forward", |object| {
        for name in object.keys() {
            if let Err(why) = check_header_name(&name) {
                object.problem(&name, why);
            }
            let form = match object.take(&name) {
                Some(value @ (Value::String(_) | Value::Array(_))) => {
                    claim_names(object, &name, value).map(|claims| (claims, ListForm::Comma))
                }
                Some(Value::Object(members)) => object.within(&name, members, |object| {
                    object.require("claim");
                    let claims = object
                        .take("claim")
                        .and_then(|value| claim_names(object, "claim", value));
                    let form = match object.text("lists").as_deref() {
                        None | Some("comma") => ListForm::Comma,
                        Some("json") => ListForm::Json,
                        Some(_) => {
                            object.problem("lists", "is comma or json");
                            ListForm::Comma
                        }
                    };
                    claims.map(|claims| (claims, form))
                }),
                _ => {
                    object.problem(
                        &name,
                        "is the name of a claim, a list of names, or an object with claim and lists",
                    );
                    None
                }
            };
            headers.extend(form.map(|(claims, lists)| ForwardedHeader {
                name,
                claims,
                lists,
            }));
        }
    });
    headers
}

/// The name of one claim, or a list of names of which the first present claim counts.
fn claim_names(object: &mut Object<'_>, key: &str, value: Value) -> Option<Vec<String>> {
    let names = match value {
        Value::Array(names) => names,
        name => vec![name],
    };
    let names: Option<Vec<String>> = names
        .into_iter()
        .map(|name| {
            name.as_str()
                .filter(|name| !name.is_empty())
                .map(ToOwned::to_owned)
        })
        .collect();
    let names = names.filter(|names| !names.is_empty());
    if names.is_none() {
        object.problem(
            key,
            "is the name of a claim, or a list of at least one name",
        );
    }
    names
}

/// Headers that a claim must never replace: the gateway or the filter itself gives them meaning.
const RESERVED_HEADERS: [&str; 12] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "forwarded",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-request-id",
];

fn check_header_name(name: &str) -> Result<(), &'static str> {
    let token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(token) {
        return Err("is not a header name in lower case");
    }
    if RESERVED_HEADERS.contains(&name) || name.starts_with("x-envoy-") {
        return Err("is a header with a meaning of its own");
    }
    Ok(())
}

fn header_name(root: &mut Object<'_>, key: &str) -> Option<String> {
    let name = root.text(key)?;
    if let Err(why) = check_header_name(&name) {
        root.problem(key, why);
    }
    Some(name)
}

fn realm(root: &mut Object<'_>) -> String {
    let realm = root.text("realm").unwrap_or_else(|| "api".to_owned());
    let quotable = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\';
    if !realm.bytes().all(quotable) {
        root.problem(
            "realm",
            "must be printable ASCII without quotes and backslashes",
        );
    }
    realm
}

fn protected_resource(root: &mut Object<'_>) -> Option<ProtectedResource> {
    root.object("protected_resource", |object| {
        let resource = object.required_text("resource")?;
        if let Err(why) = check_resource(&resource) {
            object.problem("resource", why);
        }
        let scopes_supported = object.texts("scopes_supported").unwrap_or_default();
        if !scopes_supported.iter().all(|scope| is_scope(scope)) {
            object.problem("scopes_supported", "has something that is no scope token");
        }
        Some(ProtectedResource {
            resource,
            scopes_supported,
        })
    })
    .flatten()
}

/// RFC 9728 §3.1 derives the address of the metadata from the identifier: a request can only have that address if the
/// identifier's path is one that a rule could name.
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

/// Two headers that differ only in `-` and `_` are one to many servers, and the same is stripped for both.
fn check_headers(root: &mut Object<'_>, config: &Config) {
    if let Some(payload) = &config.forward_payload
        && config.forward.iter().any(|header| header.name == *payload)
    {
        root.problem("forward_payload", "is also in forward");
    }
}

/// RFC 6749 §3.3, `scope-token`.
fn is_scope(text: &str) -> bool {
    let legal = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.bytes().all(legal)
}

#[cfg(test)]
mod tests;
