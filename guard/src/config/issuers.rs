//! Whose tokens are accepted, and how they are told from other tokens.

use std::collections::BTreeSet;

use claims::Algorithm;
use serde_json::Value;

use super::reader::Object;
use super::{Endpoint, IssuerConfig, KeySource, RevocationSource, WhenStale};
use crate::keys::KeySet;
use crate::profile::{Expected, OptionalClaim, Profile, short_type};

const DEFAULT_REFRESH_SECONDS: u64 = 300;
const DEFAULT_POLL_SECONDS: u64 = 2;
const DEFAULT_STALENESS_SECONDS: u64 = 60;
const DEFAULT_REVOCATION_ENTRIES: u64 = 1_000_000;
const REVOCATION_ENTRIES: std::ops::RangeInclusive<u64> = 1_000..=20_000_000;
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
        let keys = keys(&mut object, &algorithms);
        let revocations = object.object("revocations", revocations).flatten();
        let profile = profile(&mut object, revocations.is_some());
        let authorization_server = object.flag("authorization_server").unwrap_or(true);
        object.finish();
        issuers.extend(issuer.zip(keys).map(|(issuer, keys)| IssuerConfig {
            issuer,
            audiences: audiences.unwrap_or_default(),
            keys,
            revocations,
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

fn keys(object: &mut Object<'_>, algorithms: &BTreeSet<Algorithm>) -> Option<KeySource> {
    object.require("jwks");
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
            let refresh_seconds = jwks
                .number("refresh_seconds", 1..=DAY)
                .unwrap_or(DEFAULT_REFRESH_SECONDS);
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
    let when_stale = match object.text("when_stale").as_deref() {
        None | Some("deny") => WhenStale::Deny,
        Some("allow") => WhenStale::Allow,
        Some(_) => {
            object.problem("when_stale", "is deny or allow");
            WhenStale::Deny
        }
    };
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
