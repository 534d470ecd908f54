use std::borrow::Cow;
use std::time::Duration;

use claims::json::{JsonError, MAX_DEPTH};
use claims::jws::MAX_TOKEN_BYTES;
use claims::{Algorithm, JwsError};

use super::claim::Claim;
use crate::oauth::message::printable;
use domain::Scope;
use domain::clock::Timestamp;

/// Reason why an assertion is refused. The code is `invalid_grant` for a user assertion and `invalid_client` for a client
/// assertion; the description is exact, and tells the integrator what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssertionError {
    /// The assertion is not three parts of base64url joined by dots, a part is not a strict JSON object, or the header
    /// is malformed.
    #[error("{}", malformed(.0))]
    Malformed(JwsError),
    /// `typ` is absent; some integrators send `type` instead (D-22).
    #[error("The assertion header lacks typ; it must be JWT")]
    TypMissing,
    #[error("typ in the assertion header must be JWT")]
    TypWrong,
    #[error("alg in the assertion header must be RS256")]
    Algorithm,
    #[error("The assertion header needs x5t or kid")]
    NoKeyNamed,
    #[error("x5t names no certificate of this client")]
    UnknownThumbprint,
    /// `x5t` is in hexadecimal digits. Contains the correct value.
    #[error("x5t in the assertion header is in hexadecimal digits; it must be base64url, here {0}")]
    ThumbprintInHex(String),
    #[error("kid is not the alias of a certificate of this client")]
    UnknownAlias,
    /// `kid` is the thumbprint of a certificate in hexadecimal digits, and not its alias. Contains `kid`.
    #[error(
        "kid in the assertion header is the thumbprint of the certificate; it must be its alias: register the certificate \
         under the alias {}",
        printable(.0)
    )]
    ThumbprintAsAlias(String),
    #[error("x5t, x5t#S256 and kid in the assertion header name different certificates")]
    KeysDiffer,
    #[error("The certificate of the assertion has expired or is not valid yet")]
    CertificateNotValid,
    #[error("{} is missing in the assertion", .0.name())]
    Missing(Claim),
    #[error("{} in the assertion must be {}", .0.name(), .0.form())]
    WrongType(Claim),
    #[error("Issuer validation failed: iss must be {}, but is {}", printable(.accepted), printable(.received))]
    Issuer {
        received: String,
        /// Every issuer that would do, joined by "or".
        accepted: String,
    },
    /// `aud` is not the one expected audience, or one of several.
    #[error(
        "Audience validation failed: aud is {}; expected {}",
        .received.as_deref().map_or_else(|| "not one string".to_owned(), printable),
        printable(.expected)
    )]
    Audience {
        /// `aud` as sent; `None` if `aud` is neither a string nor a list of one string.
        received: Option<String>,
        /// Every audience that would do, joined by "or".
        expected: String,
    },
    #[error(
        "The assertion has expired {} s ago: exp is {}, the time of the server {}",
        .now.since(*.at).as_secs(), .at.rfc3339(), .now.rfc3339()
    )]
    Expired { at: Timestamp, now: Timestamp },
    #[error(
        "exp of the assertion is {} s ahead of the time of the server, {}; at most {} s are allowed",
        .at.since(*.now).as_secs(), .now.rfc3339(), .most.as_secs()
    )]
    TooLong {
        at: Timestamp,
        now: Timestamp,
        /// Maximum time until `exp`.
        most: Duration,
    },
    /// The claim (`iat` or `nbf`) is later than the server's clock plus the tolerated clock skew.
    #[error(
        "{} of the assertion is {} s ahead of the time of the server, {}",
        .0.name(), .1.since(*.2).as_secs(), .2.rfc3339()
    )]
    InFuture(Claim, Timestamp, Timestamp),
    #[error("Signature validation failed")]
    Signature,
    /// No enabled user has the username in `sub`, or the client may not name that user (D-19).
    #[error("The user in sub is unknown or not available to this client")]
    Subject,
    /// No enabled user is linked to the person of the provider, or the client may not name that user (D-19).
    #[error("No user is linked to the person in sub, or this client may not act for that user")]
    Unlinked,
    #[error("jti of the assertion was used before")]
    Replayed,
    #[error("iss of the assertion must be the Client ID of a client that is registered with keys")]
    UnknownClient,
    #[error("sub of the assertion must be the Client ID, as iss is, but is {}", printable(.0))]
    SubjectDiffers(String),
    #[error("client_id differs from sub of the assertion")]
    ClientIdDiffers,
    #[error("typ in the assertion header must be client-authentication+jwt or JWT, or be absent")]
    ClientTypWrong,
    #[error("kid is not the kid of a key of this client")]
    UnknownKid,
    #[error("The assertion header needs kid, because this client has several keys")]
    NoKid,
    #[error("alg in the assertion header must be {}, the algorithm of the registered key", .0.name())]
    KeyAlgorithm(Algorithm),
    #[error("typ in the assertion header must be JWT or oauth-id-jag+jwt, but is {}", printable(.0))]
    ProviderTypWrong(String),
    #[error(
        "alg in the assertion header must be {}, but is {}",
        .allowed.join(" or "), .received.as_deref().map_or_else(|| "absent".to_owned(), printable)
    )]
    ProviderAlgorithm {
        received: Option<String>,
        /// The algorithms of the provider.
        allowed: Vec<&'static str>,
    },
    #[error("The assertion header needs kid, the name of a key of the identity provider")]
    NoProviderKeyNamed,
    #[error(
        "kid {} names no {algorithm} key of the identity provider; send a kid of its JWK set",
        printable(.kid)
    )]
    UnknownProviderKey {
        kid: String,
        algorithm: &'static str,
    },
    /// A claim that only other tokens of providers have.
    #[error("The assertion has {0}: ID tokens, access tokens and logout tokens are no assertions")]
    OtherToken(&'static str),
    #[error("client_id of the assertion is {}; expected {}", printable(.received), printable(.expected))]
    OtherClient { received: String, expected: String },
    /// `resource` does not name the API.
    #[error("resource of the assertion is {}; it must name {}", printable(.received), printable(.expected))]
    Resource { received: String, expected: String },
    /// A claim that limits the assertion in a way that the service cannot carry out.
    #[error("{0} in the assertion is not supported")]
    Unsupported(&'static str),
    /// The claim `scope` has nothing that the client is registered for.
    #[error(
        "scope of the assertion is {}; the client is registered for {}",
        printable(.claimed.as_str()), printable(.registered.as_str())
    )]
    ScopeNotRegistered { claimed: Scope, registered: Scope },
    /// The requested scope exceeds the claim `scope` by this.
    #[error("scope exceeds what the assertion allows: {}", printable(.0.as_str()))]
    ScopeExceeded(Scope),
}

fn malformed(error: &JwsError) -> Cow<'static, str> {
    match error {
        JwsError::TooLong => format!("The assertion is longer than {MAX_TOKEN_BYTES} bytes").into(),
        JwsError::Parts => {
            "The assertion is not a JWT: three parts of base64url without padding, joined by dots"
                .into()
        }
        JwsError::Base64(part) => {
            format!("The {part} of the assertion is not base64url without padding").into()
        }
        JwsError::Json(part, JsonError::NotAnObject) => {
            format!("The {part} of the assertion is not a JSON object").into()
        }
        JwsError::Json(part, JsonError::Duplicate(name)) => {
            let name = printable(name);
            format!("{name} occurs twice in the {part} of the assertion").into()
        }
        JwsError::Json(part, JsonError::TooDeep) => {
            format!("The {part} of the assertion is nested deeper than {MAX_DEPTH} levels").into()
        }
        JwsError::HeaderType(name) => {
            format!("{name} in the assertion header must be a string").into()
        }
        JwsError::Critical => {
            "The assertion header has a crit extension that is not understood".into()
        }
    }
}
