//! The metadata of the resource (RFC 9728), which the guard answers itself.

use serde_json::json;

use super::Answer;
use crate::config::{Config, ProtectedResource};

/// Path prefix of the metadata (RFC 9728).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Splits the resource identifier into origin and path. The path is empty for an origin, with or without a
/// final slash.
fn origin_and_path(resource: &str) -> (&str, &str) {
    let authority = resource.find("://").map_or(0, |scheme| scheme + 3);
    let path = resource
        .get(authority..)
        .and_then(|rest| rest.find('/'))
        .map_or(resource.len(), |path| authority + path);
    let (origin, path) = resource.split_at_checked(path).unwrap_or((resource, ""));
    (origin, if path == "/" { "" } else { path })
}

/// The URL of the metadata. RFC 9728 §3.1 puts the well-known part between host and path.
pub(super) fn metadata_url(config: &Config) -> Option<String> {
    let resource = &config.protected_resource.as_ref()?.resource;
    let (origin, path) = origin_and_path(resource);
    Some(format!("{origin}{WELL_KNOWN}{path}"))
}

/// Returns the answer to a GET or HEAD request for the metadata (RFC 9728 §3.2); `None` for any other request.
/// The host leaves out the body for HEAD. A final slash is ignored, because clients treat the final slash of
/// the identifier differently.
pub fn metadata(config: &Config, method: &[u8], target: &[u8]) -> Option<Answer> {
    let resource = config.protected_resource.as_ref()?;
    let rest = target.strip_prefix(WELL_KNOWN.as_bytes())?;
    document(config, resource, method, rest)
}

/// `rest`: the target after [`WELL_KNOWN`].
#[cold]
fn document(
    config: &Config,
    resource: &ProtectedResource,
    method: &[u8],
    rest: &[u8],
) -> Option<Answer> {
    let (_, path) = origin_and_path(&resource.resource);
    let rest = rest.split(|byte| *byte == b'?').next()?;
    let without_slash = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
    if !matches!(method, b"GET" | b"HEAD") || without_slash(rest) != without_slash(path.as_bytes())
    {
        return None;
    }
    // A client cannot continue with an authorization server whose metadata it cannot find.
    let servers: Vec<&str> = config
        .issuers
        .iter()
        .filter(|issuer| issuer.authorization_server)
        .map(|issuer| issuer.issuer.as_str())
        .collect();
    let mut body = json!({
        "resource": resource.resource,
        "bearer_methods_supported": ["header"],
    });
    let algorithms = config.dpop.iter().flat_map(|dpop| &dpop.algorithms);
    let algorithms: Vec<&str> = algorithms.map(|algorithm| algorithm.name()).collect();
    let certificates = resource.certificate_bound_access_tokens;
    let always_bound = config
        .issuers
        .iter()
        .all(|issuer| issuer.sender_constrained);
    let always_dpop = config.dpop.is_some() && always_bound && !certificates;
    // RFC 9728 §3.2: empty members are left out, and false is what an absent flag means (§2).
    let others = [
        ("authorization_servers", json!(servers)),
        ("scopes_supported", json!(resource.scopes_supported)),
        ("dpop_signing_alg_values_supported", json!(algorithms)),
        ("dpop_bound_access_tokens_required", json!(always_dpop)),
        (
            "tls_client_certificate_bound_access_tokens",
            json!(certificates),
        ),
    ];
    for (name, value) in others {
        if let Some(members) = body.as_object_mut()
            && value != json!([])
            && value != json!(false)
        {
            members.insert(name.to_owned(), value);
        }
    }
    Some(Answer {
        status: 200,
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("cache-control", "public, max-age=300".to_owned()),
        ],
        body: body.to_string(),
    })
}
