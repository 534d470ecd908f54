//! Whose tokens are accepted, and how they are told from other tokens.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use claims::Algorithm;
use serde_json::Value;

use super::reader::Object;
use super::{Endpoint, IssuerConfig, KeySource, RevocationSource, WhenStale};
use crate::discovery::{self, Discovery, Document, HttpUrl, KeyHost};
use crate::introspection::IntrospectionSource;
use crate::keys::KeySet;
use crate::profile::{Expected, OptionalClaim, Profile, short_type};
use crate::secret::Secret;

const DEFAULT_REFRESH_SECONDS: u64 = 300;
const DEFAULT_POLL_SECONDS: u64 = 2;
const DEFAULT_STALENESS_SECONDS: u64 = 60;
const DEFAULT_REVOCATION_ENTRIES: u64 = 1_000_000;
const REVOCATION_ENTRIES: std::ops::RangeInclusive<u64> = 1_000..=20_000_000;
const DEFAULT_CACHE_SECONDS: u64 = 30;
const DEFAULT_CONCURRENT: u64 = 16;
const DAY: u64 = 24 * 60 * 60;

/// The member `issuers`.
pub(super) fn read(root: &mut Object<'_>) -> Vec<IssuerConfig> {
    let mut seen = BTreeSet::new();
    let mut issuers = Vec::new();
    root.require("issuers");
    let is_empty = root.objects("issuers", |mut object| {
        let issuer = object.required_text("issuer");
        if let Some(issuer) = &issuer
            && !seen.insert(issuer.clone())
        {
            object.problem("issuer", "is there twice");
        }
        let audiences = object.texts("audiences");
        let no_audience = audiences.as_ref().is_none_or(Vec::is_empty);
        if no_audience || audiences.iter().flatten().any(String::is_empty) {
            object.problem(
                "audiences",
                "needs at least one audience, and none that is empty",
            );
        }
        let algorithms = algorithms(&mut object);
        let keys = key_source(&mut object, issuer.as_deref(), &algorithms);
        let revocations = object.object("revocations", revocations).flatten();
        let introspection = object.object("introspection", introspection).flatten();
        if revocations.is_some() && introspection.is_some() {
            object.problem("introspection", "means nothing beside revocations");
        }
        let profile = profile(&mut object, revocations.is_some());
        let authorization_server = object.flag("authorization_server").unwrap_or(true);
        object.finish();
        issuers.extend(issuer.zip(keys).map(|(issuer, keys)| IssuerConfig {
            issuer,
            audiences: audiences.unwrap_or_default(),
            keys,
            revocations,
            introspection,
            profile,
            algorithms,
            authorization_server,
        }));
    });
    if is_empty {
        root.problem("issuers", "needs at least one issuer");
    }
    issuers
}

/// The issuer's profile: a named one, and what the configuration changes of it.
fn profile(object: &mut Object<'_>, has_revocations: bool) -> Profile {
    let name = object.text("profile");
    let named = Profile::named(name.as_deref().unwrap_or(Profile::NAMES[0]));
    let mut profile = named.unwrap_or_else(|| {
        let known = Profile::NAMES.join(", ");
        object.problem("profile", &format!("must be one of {known}"));
        Profile::default()
    });
    if let Some(types) = object.take("types") {
        match token_types(&types) {
            Some(types) => profile.types = types,
            None => object.problem(
                "types",
                "must be a list of at least one value of typ; null stands for tokens without typ",
            ),
        }
    }
    if let Some(claim) = object.text("client_id_claim") {
        profile.client_id_claim = claim;
    }
    if let Some(names) = object.texts("optional_claims") {
        profile.optional_claims.clear();
        for name in &names {
            let known = OptionalClaim::ALL
                .into_iter()
                .find(|claim| claim.name() == name);
            match known {
                Some(claim) => profile.optional_claims.push(claim),
                None => object.problem("optional_claims", "knows sub, client_id, jti and iat"),
            }
        }
    }
    object.object("access_token_claims", |claims| {
        profile.access_token_claims.clear();
        for name in claims.keys() {
            let expected = match claims.take(&name) {
                Some(Value::Bool(true)) => Expected::Present,
                Some(Value::String(text)) if !text.is_empty() => Expected::Text(text),
                _ => {
                    claims.problem(&name, "must be true, if any value will do, or a string");
                    continue;
                }
            };
            profile.access_token_claims.push((name, expected));
        }
    });
    if !profile.is_marked() && profile.access_token_claims.is_empty() {
        object.problem(
            "access_token_claims",
            "is needed where types accepts more than at+jwt: name a claim that ID tokens of this issuer do not have",
        );
    }
    // What the feed cannot name, it cannot revoke.
    if has_revocations && !profile.optional_claims.is_empty() {
        object.problem(
            "optional_claims",
            "must be empty beside revocations, which name tokens by these claims",
        );
    }
    profile
}

fn token_types(list: &Value) -> Option<Vec<Option<String>>> {
    let is_type =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let types: Option<Vec<_>> = list
        .as_array()?
        .iter()
        .map(|value| match value {
            Value::Null => Some(None),
            value => Some(Some(short_type(value.as_str().filter(is_type)?).to_owned())),
        })
        .collect();
    types.filter(|types| !types.is_empty())
}

fn algorithms(object: &mut Object<'_>) -> BTreeSet<Algorithm> {
    let Some(names) = object.texts("algorithms") else {
        return Algorithm::ALL.into();
    };
    let mut algorithms = BTreeSet::new();
    for name in &names {
        match Algorithm::from_name(name) {
            Some(algorithm) => drop(algorithms.insert(algorithm)),
            None => object.problem("algorithms", "knows EdDSA, ES256 and RS256"),
        }
    }
    if names.is_empty() {
        object.problem("algorithms", "needs at least one algorithm");
    }
    algorithms
}

/// `jwks` or `discovery`.
fn key_source(
    object: &mut Object<'_>,
    issuer: Option<&str>,
    algorithms: &BTreeSet<Algorithm>,
) -> Option<KeySource> {
    match (object.has("jwks"), object.has("discovery")) {
        (true, false) => keys(object, algorithms),
        (false, true) => object
            .object("discovery", |object| discovery(object, issuer?))
            .flatten()
            .map(KeySource::Discovered),
        (false, false) => {
            object.problem(
                "jwks",
                "is missing, and discovery, which can take its place",
            );
            None
        }
        (true, true) => {
            object.problem("discovery", "cannot stand beside jwks");
            object.take("jwks");
            object.take("discovery");
            None
        }
    }
}

fn discovery(object: &mut Object<'_>, issuer: &str) -> Option<Discovery> {
    let name = object.text("document");
    let document = match &name {
        None => Some(Document::OpenIdConfiguration),
        Some(name) => Document::ALL
            .into_iter()
            .find(|document| document.name() == name),
    };
    if document.is_none() {
        let known = Document::ALL.map(Document::name).join(" or ");
        object.problem("document", &format!("is {known}"));
    }
    let place = document.map(|document| discovery::document_of(issuer, document));
    if let Some(Err(why)) = &place {
        object.problem("document", why);
    }
    let refresh_seconds = refresh_seconds(object);
    let mut jwks_hosts = Vec::new();
    object.objects("jwks_hosts", |mut host| {
        let authority = host.required_text("authority");
        if let Some(authority) = &authority
            && !is_authority(authority)
        {
            host.problem(
                "authority",
                "must be a host, with a port if the address has one",
            );
        }
        let cluster = host.required_text("cluster");
        host.finish();
        jwks_hosts.extend(
            authority
                .zip(cluster)
                .map(|(authority, cluster)| KeyHost { authority, cluster }),
        );
    });
    let authority = object.text("authority");
    let cluster = object.required_text("cluster");
    let (path, own) = place?.ok()?;
    Some(Discovery {
        endpoint: Endpoint {
            cluster: cluster?,
            authority: authority.unwrap_or(own),
            path,
        },
        jwks_hosts,
        refresh_seconds,
    })
}

fn is_authority(text: &str) -> bool {
    let url = format!("https://{text}");
    HttpUrl::parse(&url).is_some_and(|url| url.target.is_empty())
}

fn refresh_seconds(object: &mut Object<'_>) -> u64 {
    object
        .number("refresh_seconds", 1..=DAY)
        .unwrap_or(DEFAULT_REFRESH_SECONDS)
}

fn introspection(object: &mut Object<'_>) -> Option<IntrospectionSource> {
    let cache_seconds = object
        .number("cache_seconds", 1..=3600)
        .unwrap_or(DEFAULT_CACHE_SECONDS);
    let max_concurrent = object
        .number("max_concurrent", 1..=256)
        .unwrap_or(DEFAULT_CONCURRENT) as usize;
    let when_unavailable = deny_or_allow(object, "when_unavailable");
    let (id, secret) = (object.text("client_id"), object.text("client_secret"));
    let authorization = match (id, secret, object.text("bearer")) {
        (Some(id), Some(secret), None) => Some(basic(&id, &secret)),
        (None, None, Some(bearer)) if bearer.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Some(format!("Bearer {bearer}"))
        }
        (None, None, Some(_)) => {
            object.problem("bearer", "must be printable ASCII without spaces");
            None
        }
        _ => {
            object.problem(
                "client_id",
                "and client_secret are needed, or bearer: what the gateway shows to the endpoint",
            );
            None
        }
    };
    Some(IntrospectionSource {
        endpoint: endpoint(object)?,
        authorization: Secret::new(authorization?),
        cache_seconds,
        max_concurrent,
        when_unavailable,
    })
}

/// RFC 6749 §2.3.1: both are encoded as in a form, so that a colon in the id does not end it.
fn basic(id: &str, secret: &str) -> String {
    let mut credentials = String::new();
    for (part, end) in [(id, ":"), (secret, "")] {
        for byte in part.bytes() {
            match byte {
                b'*' | b'-' | b'.' | b'_' => credentials.push(char::from(byte)),
                _ if byte.is_ascii_alphanumeric() => credentials.push(char::from(byte)),
                _ => credentials.push_str(&format!("%{byte:02X}")),
            }
        }
        credentials.push_str(end);
    }
    format!("Basic {}", STANDARD.encode(credentials))
}

fn deny_or_allow(object: &mut Object<'_>, key: &str) -> WhenStale {
    match object.text(key).as_deref() {
        None | Some("deny") => WhenStale::Deny,
        Some("allow") => WhenStale::Allow,
        Some(_) => {
            object.problem(key, "is deny or allow");
            WhenStale::Deny
        }
    }
}

fn keys(object: &mut Object<'_>, algorithms: &BTreeSet<Algorithm>) -> Option<KeySource> {
    object
        .object("jwks", |jwks| {
            if jwks.has("keys") {
                let list = jwks.take("keys")?;
                let (keys, skipped) = KeySet::of_values(&list, algorithms, &KeySet::default());
                if skipped.count > 0 {
                    jwks.problem("keys", &skipped.line());
                }
                if keys.is_empty() {
                    jwks.problem("keys", "holds no usable key");
                }
                return Some(KeySource::Inline(keys));
            }
            let refresh_seconds = refresh_seconds(jwks);
            endpoint(jwks).map(|endpoint| KeySource::Fetched {
                endpoint,
                refresh_seconds,
            })
        })
        .flatten()
}

fn endpoint(object: &mut Object<'_>) -> Option<Endpoint> {
    let cluster = object.required_text("cluster");
    let authority = object.text("authority");
    let path = object.required_text("path");
    let legal = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if let Some(path) = &path {
        if !path.starts_with('/') {
            object.problem("path", "must start with a slash");
        } else if !path.bytes().all(legal) {
            object.problem(
                "path",
                "must be printable ASCII without spaces and fragment",
            );
        }
    }
    let cluster = cluster?;
    Some(Endpoint {
        authority: authority.unwrap_or_else(|| cluster.clone()),
        cluster,
        path: path?,
    })
}

fn revocations(object: &mut Object<'_>) -> Option<RevocationSource> {
    let poll_seconds = object
        .number("poll_seconds", 1..=DAY)
        .unwrap_or(DEFAULT_POLL_SECONDS);
    let max_staleness_seconds = object
        .number("max_staleness_seconds", 1..=DAY)
        .unwrap_or(DEFAULT_STALENESS_SECONDS);
    let when_stale = deny_or_allow(object, "when_stale");
    let max_entries = object
        .number("max_entries", REVOCATION_ENTRIES)
        .unwrap_or(DEFAULT_REVOCATION_ENTRIES) as usize;
    if max_staleness_seconds < poll_seconds {
        object.problem("max_staleness_seconds", "must not be below poll_seconds");
    }
    Some(RevocationSource {
        endpoint: endpoint(object)?,
        poll_seconds,
        max_staleness_seconds,
        when_stale,
        max_entries,
    })
}
