//! `issuers`: the issuers whose tokens the guard accepts, and how to recognise their access tokens.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use claims::media_type;
use document::Section;
use keys::KeySet;
use keys::algorithm::Algorithm;
use keys::discovery::{self, Discovery, Document, HttpUrl, KeyHost};
use keys::signature::HostVerifier;
use serde_json::Value;

use super::{
    Endpoint, IssuerConfig, KeySource, RevocationSource, WhenStale, flag, number, one_of,
    required_text, text,
};
use crate::profile::{Profile, Required};
use crate::secret::Secret;
use crate::source::IntrospectionSource;

const DEFAULT_REFRESH_SECONDS: u64 = 300;
const DEFAULT_POLL_SECONDS: u64 = 2;
const DEFAULT_STALENESS_SECONDS: u64 = 60;
const DEFAULT_REVOCATION_ENTRIES: u64 = 1_000_000;
const REVOCATION_ENTRIES: std::ops::RangeInclusive<u64> = 1_000..=20_000_000;
const DEFAULT_CACHE_SECONDS: u64 = 30;
const DEFAULT_CONCURRENT: u64 = 64;
const DAY: u64 = 24 * 60 * 60;

pub(super) fn read(
    root: &mut Section<'_>,
    host: &dyn HostVerifier,
    has_nonces: bool,
) -> Vec<IssuerConfig> {
    let mut seen = BTreeSet::new();
    let mut issuers = Vec::new();
    for mut object in root.required_sections("issuers", "needs at least one issuer") {
        let issuer = required_text(&mut object, "issuer");
        if let Some(issuer) = &issuer
            && !seen.insert(issuer.clone())
        {
            object.problem("issuer", "is given twice");
        }
        let audiences = object.values("audiences");
        let no_audience = audiences.as_ref().is_none_or(Vec::is_empty);
        if no_audience || audiences.iter().flatten().any(String::is_empty) {
            object.problem(
                "audiences",
                "needs at least one audience, and none that is empty",
            );
        }
        let algorithms = algorithms(&mut object, host);
        let keys = key_source(&mut object, issuer.as_deref(), &algorithms);
        let revocations = object.optional("revocations", revocations);
        let introspection = object.optional("introspection", introspection);
        if revocations.is_some() && introspection.is_some() {
            object.problem("introspection", "cannot be combined with revocations");
        }
        let profile = profile(&mut object, revocations.is_some());
        let authorization_server = flag(&mut object, "authorization_server", true);
        let needs = [("optional", false), ("required", true)];
        let sender_constrained = one_of(&mut object, "sender_constrained", needs, false);
        let requires_nonce = one_of(&mut object, "dpop_nonce", needs, false);
        if requires_nonce && !has_nonces {
            object.problem("dpop_nonce", "needs dpop.nonce_key");
        }
        object.finish();
        if let (Some(issuer), Some(keys)) = (issuer, keys) {
            issuers.push(IssuerConfig {
                issuer,
                audiences: audiences.unwrap_or_default(),
                keys,
                revocations,
                introspection,
                profile,
                algorithms,
                authorization_server,
                sender_constrained,
                requires_nonce,
            });
        }
    }
    issuers
}

/// The profile with the configured name, with the configured changes.
fn profile(object: &mut Section<'_>, has_revocations: bool) -> Profile {
    let name = text(object, "profile");
    let named = Profile::named(name.as_deref().unwrap_or(Profile::NAMES[0]));
    let mut profile = named.unwrap_or_else(|| {
        let known = Profile::NAMES.join(", ");
        object.problem("profile", &format!("must be one of {known}"));
        Profile::default()
    });
    if let Some(types) = object.take("types") {
        match token_types(&types.value) {
            Some(types) => profile.types = types,
            None => object.problem(
                "types",
                "must be a list of at least one value of typ; null stands for tokens without typ",
            ),
        }
    }
    if let Some(claim) = text(object, "client_id_claim") {
        profile.client_id_claim = claim;
    }
    if let Some(claim) = text(object, "audience_claim") {
        profile.audience_claim = Some(claim);
    }
    if let Some(names) = object.values("optional_claims") {
        profile.optional_claims.clear();
        for name in &names {
            match name.parse() {
                Ok(claim) => profile.optional_claims.push(claim),
                Err(_) => object.problem("optional_claims", "knows sub, client_id, jti and iat"),
            }
        }
    }
    object.optional("access_token_claims", |claims| {
        profile.access_token_claims.clear();
        while let Some((name, value)) = claims.take_any() {
            let expected = match value {
                Value::Bool(true) => Required::Present,
                Value::String(text) if !text.is_empty() => Required::Text(text),
                _ => {
                    claims.problem(&name, "must be true, if any value will do, or a string");
                    continue;
                }
            };
            profile.access_token_claims.push((name, expected));
        }
        Some(())
    });
    if !profile.is_marked() && profile.access_token_claims.is_empty() {
        object.problem(
            "access_token_claims",
            "is needed where types accepts more than at+jwt: name a claim that ID tokens of this issuer do not have",
        );
    }
    // The feed names tokens by these claims, so a token without one of them could not be revoked.
    if has_revocations && !profile.optional_claims.is_empty() {
        object.problem(
            "optional_claims",
            "must be empty if revocations is set, because revocations name tokens by these claims",
        );
    }
    profile
}

fn token_types(list: &Value) -> Option<Vec<Option<String>>> {
    let mut types = Vec::new();
    for value in list.as_array()? {
        let text = value.as_str().unwrap_or_default();
        types.push(match value {
            Value::Null => None,
            _ if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                return None;
            }
            _ => Some(media_type::short(text).to_owned()),
        });
    }
    Some(types).filter(|types| !types.is_empty())
}

fn algorithms(object: &mut Section<'_>, host: &dyn HostVerifier) -> BTreeSet<Algorithm> {
    let Some(names) = object.values("algorithms") else {
        return Algorithm::DEFAULT.into();
    };
    let verifiable = || {
        let all = Algorithm::ALL.iter().copied();
        let names: Vec<_> = all
            .filter(|algorithm| host.suffices_for(*algorithm))
            .map(Algorithm::name)
            .collect();
        names.join(", ")
    };
    let mut algorithms = BTreeSet::new();
    for name in &names {
        match Algorithm::from_name(name) {
            Some(algorithm) if host.suffices_for(algorithm) => drop(algorithms.insert(algorithm)),
            Some(_) => {
                let what = format!(
                    "{name} is for hosts that verify it themselves, and this host does not; here it can be {}",
                    verifiable()
                );
                object.problem("algorithms", &what);
            }
            None => {
                let what = format!("knows {}", verifiable());
                object.problem("algorithms", &what);
            }
        }
    }
    if names.is_empty() {
        object.problem("algorithms", "needs at least one algorithm");
    }
    algorithms
}

fn key_source(
    object: &mut Section<'_>,
    issuer: Option<&str>,
    algorithms: &BTreeSet<Algorithm>,
) -> Option<KeySource> {
    match (object.has("jwks"), object.has("discovery")) {
        (true, false) => keys(object, algorithms),
        (false, true) => object
            .optional("discovery", |object| discovery(object, issuer?))
            .map(KeySource::Discovered),
        (is_both, _) => {
            if is_both {
                object.problem("discovery", "cannot be combined with jwks");
            } else {
                object.problem(
                    "jwks",
                    "is missing, and discovery, which can take its place",
                );
            }
            object.skip("jwks");
            object.skip("discovery");
            None
        }
    }
}

fn discovery(object: &mut Section<'_>, issuer: &str) -> Option<Discovery> {
    let documents = [Document::OpenIdConfiguration, Document::AuthorizationServer];
    let documents = documents.map(|document| (document.name(), document));
    let document = one_of(object, "document", documents, Document::OpenIdConfiguration);
    let place = discovery::document_of(issuer, document);
    if let Err(why) = &place {
        object.problem("document", why);
    }
    let refresh_seconds = refresh_seconds(object);
    let mut jwks_hosts = Vec::new();
    for mut host in object.sections("jwks_hosts") {
        host.required("authority");
        let authority = authority(&mut host);
        let cluster = required_text(&mut host, "cluster");
        host.finish();
        if let (Some(authority), Some(cluster)) = (authority, cluster) {
            jwks_hosts.push(KeyHost { authority, cluster });
        }
    }
    let authority = authority(object);
    let cluster = required_text(object, "cluster");
    let (path, own) = place.ok()?;
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

/// `:authority` of requests.
fn authority(object: &mut Section<'_>) -> Option<String> {
    let authority = text(object, "authority")?;
    let url = format!("https://{authority}");
    if HttpUrl::parse(&url).is_none_or(|url| !url.target.is_empty()) {
        let why = "must be a host, with a port if the address has one";
        object.problem("authority", why);
    }
    Some(authority)
}

fn refresh_seconds(object: &mut Section<'_>) -> u64 {
    number(object, "refresh_seconds", 1..=DAY, DEFAULT_REFRESH_SECONDS)
}

fn introspection(object: &mut Section<'_>) -> Option<IntrospectionSource> {
    let cache_seconds = number(object, "cache_seconds", 1..=3600, DEFAULT_CACHE_SECONDS);
    let max_concurrent = number(object, "max_concurrent", 1..=256, DEFAULT_CONCURRENT) as usize;
    let when_unavailable = deny_or_allow(object, "when_unavailable");
    let (id, secret) = (text(object, "client_id"), text(object, "client_secret"));
    let authorization = match (id, secret, text(object, "bearer")) {
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

/// Basic credentials (RFC 6749 §2.3.1). Id and secret are form-encoded, so a colon in the id does not end the id.
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

fn deny_or_allow(object: &mut Section<'_>, key: &'static str) -> WhenStale {
    let names = [("deny", WhenStale::Deny), ("allow", WhenStale::Allow)];
    one_of(object, key, names, WhenStale::Deny)
}

fn keys(object: &mut Section<'_>, algorithms: &BTreeSet<Algorithm>) -> Option<KeySource> {
    object.optional("jwks", |jwks| {
        if let Some(list) = jwks.take("keys") {
            let (keys, skipped) = KeySet::of_values(&list.value, algorithms, &KeySet::default());
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
}

fn endpoint(object: &mut Section<'_>) -> Option<Endpoint> {
    let cluster = required_text(object, "cluster");
    let authority = authority(object);
    let path = required_text(object, "path");
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

fn revocations(object: &mut Section<'_>) -> Option<RevocationSource> {
    let poll_seconds = number(object, "poll_seconds", 1..=DAY, DEFAULT_POLL_SECONDS);
    let max_staleness_seconds = number(
        object,
        "max_staleness_seconds",
        1..=DAY,
        DEFAULT_STALENESS_SECONDS,
    );
    let when_stale = deny_or_allow(object, "when_stale");
    let max_entries = number(
        object,
        "max_entries",
        REVOCATION_ENTRIES,
        DEFAULT_REVOCATION_ENTRIES,
    ) as usize;
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
