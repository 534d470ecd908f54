//! The responses to refused requests (RFC 6750 §3): status, challenge, and a body as in protocol.md §2.4. They
//! contain no value from the request, with one exception: `htu` of a proof, next to the expected URL.

mod metadata;

use std::borrow::Cow;

use claims::dpop::{NONCE_HEADER, NonceKey, ProofRefusal};
use serde_json::json;

pub use self::metadata::metadata;

use crate::authorization::{MalformedCredentials, Scheme};
use crate::config::Config;
use crate::rules::SignIn;
use crate::verdict::Denial;

/// Value of `Retry-After`, in seconds.
const RETRY_AFTER: &str = "1";

impl Denial {
    pub(crate) const fn status(&self, config: &Config) -> u32 {
        match self {
            Self::Path | Self::Credentials(_) | Self::TwoTokens => 400,
            Self::Proof(refused)
                if matches!(refused.refusal, ProofRefusal::Busy) && nonce_key(config).is_none() =>
            {
                503
            }
            Self::NoToken
            | Self::DpopNotConfigured
            | Self::Token(_)
            | Self::Proof(_)
            | Self::SignIn(_) => 401,
            Self::NoRule | Self::Scope(_) | Self::ClaimValue => 403,
            Self::KeysUnavailable | Self::RevocationsUnavailable | Self::Busy | Self::Host => 503,
        }
    }

    /// `error` in the body, and in the challenge if there is one.
    const fn error(&self, config: &Config) -> &'static str {
        match self {
            Self::Path
            | Self::NoToken
            | Self::DpopNotConfigured
            | Self::Credentials(_)
            | Self::TwoTokens => "invalid_request",
            Self::Token(_) => "invalid_token",
            // RFC 9449 §7.1: the proof may be good for another token.
            Self::Proof(refused) if matches!(refused.refusal, ProofRefusal::Binding) => {
                "invalid_token"
            }
            Self::Proof(refused) if !refused.refusal.wants_nonce() => "invalid_dpop_proof",
            Self::Proof(_) if nonce_key(config).is_some() => "use_dpop_nonce",
            // RFC 6750 §3.1 has this one code for privileges that the token does not give.
            Self::Scope(_) | Self::ClaimValue => "insufficient_scope",
            // RFC 9470 §3.
            Self::SignIn(_) => "insufficient_user_authentication",
            Self::NoRule => "access_denied",
            Self::Proof(_)
            | Self::KeysUnavailable
            | Self::RevocationsUnavailable
            | Self::Busy
            | Self::Host => "temporarily_unavailable",
        }
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Path => "The path or the method can be read in more than one way",
            Self::NoRule => "No rule allows this method at this path",
            Self::NoToken => "An access token is needed: send Authorization: Bearer",
            Self::Credentials(MalformedCredentials::Several) => {
                "There is more than one Authorization header"
            }
            Self::Credentials(MalformedCredentials::Token) => {
                "The Authorization header must be a scheme, a space, and one access token"
            }
            Self::TwoTokens => "Send the access token only in the Authorization header",
            Self::DpopNotConfigured => "DPoP is not accepted here: send Authorization: Bearer",
            Self::Token(refusal) => refusal.description(),
            Self::Proof(refused) => return refused.description.clone(),
            Self::Scope(scopes) => {
                let scopes = scopes.join(" ");
                return format!("The access token lacks a scope; needed here: {scopes}").into();
            }
            Self::ClaimValue => {
                "The access token lacks a role or another value that is needed here"
            }
            Self::SignIn(_) => {
                "The person must sign in again, or with another method; then send the new access token"
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

    /// True if the answer has challenges: credentials, other ones, could change the decision.
    const fn is_challenged(&self) -> bool {
        match self {
            Self::NoToken
            | Self::Credentials(_)
            | Self::TwoTokens
            | Self::DpopNotConfigured
            | Self::Token(_)
            | Self::Proof(_)
            | Self::Scope(_)
            | Self::ClaimValue
            | Self::SignIn(_) => true,
            Self::Path
            | Self::NoRule
            | Self::KeysUnavailable
            | Self::RevocationsUnavailable
            | Self::Busy
            | Self::Host => false,
        }
    }

    /// The value of `WWW-Authenticate`: a challenge for each scheme, first that of `scheme`, with which the client sent the
    /// token (RFC 6750 §3, RFC 9449 §7.1). RFC 6750 §3.1: for a request without credentials, no challenge has an error code.
    fn challenges(&self, config: &Config, scheme: Scheme, scopes: &[String]) -> String {
        let mut first = format!("realm=\"{}\"", config.realm);
        let mut second = first.clone();
        if !matches!(self, Self::NoToken | Self::DpopNotConfigured) {
            let (error, description) = (self.error(config), self.description());
            first.push_str(&format!(
                ", error=\"{error}\", error_description=\"{description}\""
            ));
        }
        let scopes = match self {
            Self::Scope(scopes) => scopes,
            _ => scopes,
        };
        if !scopes.is_empty() {
            let scopes = format!(", scope=\"{}\"", scopes.join(" "));
            first.push_str(&scopes);
            second.push_str(&scopes);
        }
        if let Self::SignIn(sign_in) = self {
            first.push_str(&step_up(sign_in));
        }
        let metadata = match metadata::metadata_url(config) {
            Some(url) => format!(", resource_metadata=\"{url}\""),
            None => String::new(),
        };
        let bearer = |parameters: &str| format!("Bearer {parameters}{metadata}");
        let Some(dpop) = &config.dpop else {
            return bearer(&first);
        };
        let algs = dpop.algs();
        let dpop = |parameters: &str| format!("DPoP algs=\"{algs}\", {parameters}{metadata}");
        match scheme {
            Scheme::Bearer => format!("{}, {}", bearer(&first), dpop(&second)),
            Scheme::Dpop => format!("{}, {}", dpop(&first), bearer(&second)),
        }
    }

    /// `scheme`: that with which the client sent the token. `scopes`: those that the rule requires, for a request that has no
    /// usable token. `now` is in seconds since 1970.
    pub fn answer(&self, config: &Config, scheme: Scheme, scopes: &[String], now: u64) -> Answer {
        let status = self.status(config);
        let mut answer = Answer::error(status, self.error(config), &self.description());
        if status != 503 && self.is_challenged() {
            let challenges = self.challenges(config, scheme, scopes);
            answer.headers.push(("www-authenticate", challenges));
        }
        // RFC 9449 §8.2: a client that gets the nonce early needs no second attempt later.
        if scheme == Scheme::Dpop
            && let Some(key) = nonce_key(config)
        {
            answer.headers.push((NONCE_HEADER, key.nonce(now)));
        }
        answer
    }
}

/// What the client must request of the authorization server (RFC 9470 §3).
fn step_up(sign_in: &SignIn) -> String {
    let claims = sign_in.claims.iter();
    let acr = claims.filter(|required| required.claim == "acr");
    let acr: Vec<&str> = acr.map(|required| &*required.value).collect();
    let mut parameters = String::new();
    if !acr.is_empty() {
        parameters.push_str(&format!(", acr_values=\"{}\"", acr.join(" ")));
    }
    if let Some(max_age) = sign_in.max_age {
        parameters.push_str(&format!(", max_age=\"{max_age}\""));
    }
    parameters
}

const fn nonce_key(config: &Config) -> Option<&NonceKey> {
    match &config.dpop {
        Some(dpop) => dpop.nonce_key.as_ref(),
        None => None,
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

impl Answer {
    /// An error as in protocol.md §2.4.
    pub fn error(status: u32, error: &str, description: &str) -> Self {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("cache-control", "no-store".to_owned()),
        ];
        if status == 503 {
            headers.push(("retry-after", RETRY_AFTER.to_owned()));
        }
        Self {
            status,
            headers,
            body: json!({"error": error, "error_description": description}).to_string(),
        }
    }
}
