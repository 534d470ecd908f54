//! The responses to refused requests (RFC 6750 §3): status, challenge, and a body as in protocol.md §2.4. They
//! contain no value from the request.

use std::borrow::Cow;

use serde_json::json;
use strum::{IntoStaticStr, VariantArray as _, VariantNames};

use crate::authorization::MalformedCredentials;
use crate::config::Config;
use crate::verify::Refusal;

/// Value of `Retry-After`, in seconds.
const RETRY_AFTER: &str = "1";

#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Denial {
    /// Servers could read the path in different ways.
    Path,
    /// No rule allows the path and method (D-23).
    NoRule,
    /// The path needs a token.
    NoToken,
    /// The `Authorization` header cannot be read.
    Credentials(MalformedCredentials),
    /// The request has a token in the header and another in the query (RFC 6750 §2).
    TwoTokens,
    Token(Refusal),
    /// The token lacks scopes. Contains all scopes that the rule requires.
    Scope(Vec<String>),
    /// A claim of the token lacks a value that the rule requires, such as a role.
    ClaimValue,
    /// The issuer's keys are not known yet.
    KeysUnavailable,
    /// The guard cannot know whether the token is revoked.
    RevocationsUnavailable,
    /// Too many requests wait.
    Busy,
    /// The host did not return, remove or add headers.
    Host,
}

impl Denial {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Credentials(malformed) => malformed.into(),
            Self::Token(refusal) => refusal.into(),
            other => other.into(),
        }
    }

    /// All values of [`Denial::name`].
    pub fn names() -> impl Iterator<Item = &'static str> {
        let own = Self::VARIANTS.iter();
        own.filter(|name| !["credentials", "token"].contains(name))
            .chain(MalformedCredentials::VARIANTS)
            .copied()
            .chain(Refusal::VARIANTS.iter().map(Into::into))
    }

    const fn status(&self) -> u32 {
        match self {
            Self::Path | Self::Credentials(_) | Self::TwoTokens => 400,
            Self::NoToken | Self::Token(_) => 401,
            Self::NoRule | Self::Scope(_) | Self::ClaimValue => 403,
            Self::KeysUnavailable | Self::RevocationsUnavailable | Self::Busy | Self::Host => 503,
        }
    }

    /// `error` in the body, and in the challenge if there is one.
    const fn error(&self) -> &'static str {
        match self {
            Self::Path | Self::NoToken | Self::Credentials(_) | Self::TwoTokens => {
                "invalid_request"
            }
            Self::Token(_) => "invalid_token",
            // RFC 6750 §3.1 has this one code for privileges that the token does not give.
            Self::Scope(_) | Self::ClaimValue => "insufficient_scope",
            Self::NoRule => "access_denied",
            Self::KeysUnavailable | Self::RevocationsUnavailable | Self::Busy | Self::Host => {
                "temporarily_unavailable"
            }
        }
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Path => "The path can be read in more than one way",
            Self::NoRule => "No rule allows this method at this path",
            Self::NoToken => "An access token is needed: send Authorization: Bearer",
            Self::Credentials(MalformedCredentials::Several) => {
                "There is more than one Authorization header"
            }
            Self::Credentials(MalformedCredentials::Token) => {
                "The Authorization header must be Bearer, a space, and one access token"
            }
            Self::TwoTokens => "Send the access token in the Authorization header alone",
            Self::Token(refusal) => refusal.description(),
            Self::Scope(scopes) => {
                let scopes = scopes.join(" ");
                return format!("The access token lacks a scope; needed here: {scopes}").into();
            }
            Self::ClaimValue => {
                "The access token lacks a role or another value that is needed here"
            }
            Self::KeysUnavailable => {
                "The gateway has not read the keys of the issuer yet; try again"
            }
            Self::RevocationsUnavailable => {
                "The gateway cannot tell now whether the access token is revoked; try again"
            }
            Self::Busy => "The gateway has too many waiting requests; try again",
            Self::Host => "The gateway could not prepare the request; try again",
        })
    }

    /// The value of `WWW-Authenticate`. RFC 6750 §3.1: for a request without credentials, the challenge has no
    /// error code.
    fn challenge(&self, config: &Config) -> Option<String> {
        let mut challenge = format!("Bearer realm=\"{}\"", config.realm);
        match self {
            Self::NoToken => {}
            Self::Credentials(_)
            | Self::TwoTokens
            | Self::Token(_)
            | Self::Scope(_)
            | Self::ClaimValue => {
                let (error, description) = (self.error(), self.description());
                challenge.push_str(&format!(
                    ", error=\"{error}\", error_description=\"{description}\""
                ));
            }
            Self::Path
            | Self::NoRule
            | Self::KeysUnavailable
            | Self::RevocationsUnavailable
            | Self::Busy
            | Self::Host => return None,
        }
        if let Self::Scope(scopes) = self {
            challenge.push_str(&format!(", scope=\"{}\"", scopes.join(" ")));
        }
        if let Some(url) = metadata_url(config) {
            challenge.push_str(&format!(", resource_metadata=\"{url}\""));
        }
        Some(challenge)
    }

    pub fn answer(&self, config: &Config) -> Answer {
        let status = self.status();
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("cache-control", "no-store".to_owned()),
        ];
        headers.extend(
            self.challenge(config)
                .map(|challenge| ("www-authenticate", challenge)),
        );
        if status == 503 {
            headers.push(("retry-after", RETRY_AFTER.to_owned()));
        }
        let body = json!({"error": self.error(), "error_description": self.description()});
        Answer {
            status,
            headers,
            body: body.to_string(),
        }
    }
}

/// A response that the filter sends itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u32,
    /// Names are in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: String,
}

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
fn metadata_url(config: &Config) -> Option<String> {
    let resource = &config.protected_resource.as_ref()?.resource;
    let (origin, path) = origin_and_path(resource);
    Some(format!("{origin}{WELL_KNOWN}{path}"))
}

/// Returns the answer to a GET or HEAD request for the metadata (RFC 9728 §3.2); `None` for any other request.
/// The host leaves out the body for HEAD. A final slash is ignored, because clients treat the final slash of
/// the identifier differently.
pub fn metadata(config: &Config, method: &[u8], target: &[u8]) -> Option<Answer> {
    let resource = config.protected_resource.as_ref()?;
    let (_, path) = origin_and_path(&resource.resource);
    let asked = target.split(|byte| *byte == b'?').next()?;
    let rest = asked.strip_prefix(WELL_KNOWN.as_bytes())?;
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
    // RFC 9728 §3.2: empty members are left out.
    let lists = [
        ("authorization_servers", json!(servers)),
        ("scopes_supported", json!(resource.scopes_supported)),
    ];
    for (name, list) in lists {
        if let Some(members) = body.as_object_mut()
            && list != json!([])
        {
            members.insert(name.to_owned(), list);
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
