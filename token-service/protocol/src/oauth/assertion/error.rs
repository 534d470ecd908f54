use std::borrow::Cow;
use std::time::Duration;

use claims::json::{JsonError, MAX_DEPTH};
use claims::jws::MAX_TOKEN_BYTES;
use claims::{Algorithm, JwsError};

use super::claim::Claim;
use crate::oauth::message::printable;
use domain::clock::Timestamp;

/// Reason why an assertion is refused. The code is `invalid_grant` for a user assertion and `invalid_client` for a client
/// assertion; the description is exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssertionError {
    /// The assertion is not three parts of base64url joined by dots, a part is not a strict JSON object, or the header
    /// is malformed.
    Malformed(JwsError),
    /// `typ` is absent; some integrators send `type` instead (D-22).
    TypMissing,
    /// `typ` is not `JWT`.
    TypWrong,
    /// `alg` is not `RS256`.
    Algorithm,
    /// Neither `x5t` nor `kid`.
    NoKeyNamed,
    /// The client has no certificate with the thumbprint in `x5t`.
    UnknownThumbprint,
    /// `x5t` is in hexadecimal digits. Contains the correct value.
    ThumbprintInHex(String),
    /// The client has no certificate with the alias in `kid`.
    UnknownAlias,
    /// `kid` is the thumbprint of a certificate in hexadecimal digits, and not its alias. Contains `kid`.
    ThumbprintAsAlias(String),
    /// `x5t` and `kid` name different certificates.
    KeysDiffer,
    CertificateNotValid,
    Missing(Claim),
    WrongType(Claim),
    /// `iss` is not the Client ID.
    Issuer(String),
    /// `aud` is not the audience of the identity service.
    Audience {
        /// `aud` as sent; `None` if `aud` is neither a string nor a list of one string.
        received: Option<String>,
        /// The audience of the identity service.
        expected: String,
    },
    /// `exp` has passed.
    Expired {
        at: Timestamp,
        now: Timestamp,
    },
    /// `exp` is too far ahead.
    TooLong {
        at: Timestamp,
        now: Timestamp,
        /// Maximum time until `exp`.
        most: Duration,
    },
    /// The claim (`iat` or `nbf`) is later than the server's clock plus the tolerated clock skew.
    InFuture(Claim, Timestamp, Timestamp),
    /// The certificate does not verify the signature.
    Signature,
    /// No enabled user has the username in `sub`, or the client may not name that user (D-19).
    Subject,
    /// The `jti` was used before.
    Replayed,
    /// No client with keys has the Client ID in `sub` of a client assertion.
    UnknownClient,
    /// `sub` of a client assertion is not `iss`.
    SubjectDiffers(String),
    /// The parameter `client_id` is not `sub` of the client assertion.
    ClientIdDiffers,
    /// `typ` of a client assertion is neither `JWT` nor `client-authentication+jwt`.
    ClientTypWrong,
    /// The client has no key with the `kid` of the client assertion.
    UnknownKid,
    /// A client assertion without `kid`, of a client with several keys.
    NoKid,
    /// `alg` of a client assertion is not the algorithm of the key.
    KeyAlgorithm(Algorithm),
}

impl AssertionError {
    /// Tells the integrator what to change.
    pub fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Malformed(error) => return malformed(error),
            Self::ThumbprintInHex(expected) => {
                return format!(
                    "x5t in the assertion header is in hexadecimal digits; it must be base64url, here {expected}"
                )
                .into();
            }
            Self::ThumbprintAsAlias(kid) => {
                let kid = printable(kid);
                return format!(
                    "kid in the assertion header is the thumbprint of the certificate; it must be its alias: register the \
                     certificate under the alias {kid}"
                )
                .into();
            }
            Self::Issuer(received) => {
                let received = printable(received);
                return format!(
                    "Issuer validation failed: iss must be the Client ID, but is {received}"
                )
                .into();
            }
            Self::Audience { received, expected } => {
                let received = received
                    .as_deref()
                    .map_or_else(|| "not one string".to_owned(), printable);
                let expected = printable(expected);
                return format!(
                    "Audience validation failed: aud is {received}; expected {expected}"
                )
                .into();
            }
            Self::Expired { at, now } => {
                let (ago, at, now) = (now.since(*at).as_secs(), at.rfc3339(), now.rfc3339());
                return format!(
                    "The assertion has expired {ago} s ago: exp is {at}, the time of the server {now}"
                )
                .into();
            }
            Self::TooLong { at, now, most } => {
                let (ahead, now, most) = (at.since(*now).as_secs(), now.rfc3339(), most.as_secs());
                return format!(
                    "exp of the assertion is {ahead} s ahead of the time of the server, {now}; at most {most} s are \
                     allowed"
                )
                .into();
            }
            Self::InFuture(claim, at, now) => {
                let (ahead, now) = (at.since(*now).as_secs(), now.rfc3339());
                return format!(
                    "{} of the assertion is {ahead} s ahead of the time of the server, {now}",
                    claim.name()
                )
                .into();
            }
            Self::TypMissing => "The assertion header lacks typ; it must be JWT",
            Self::TypWrong => "typ in the assertion header must be JWT",
            Self::Algorithm => "alg in the assertion header must be RS256",
            Self::NoKeyNamed => "The assertion header needs x5t or kid",
            Self::UnknownThumbprint => "x5t names no certificate of this client",
            Self::UnknownAlias => "kid is not the alias of a certificate of this client",
            Self::KeysDiffer => "x5t and kid in the assertion header name different certificates",
            Self::CertificateNotValid => {
                "The certificate of the assertion has expired or is not valid yet"
            }
            Self::Missing(claim) => {
                return format!("{} is missing in the assertion", claim.name()).into();
            }
            Self::WrongType(claim) => {
                let (claim, form) = (claim.name(), claim.form());
                return format!("{claim} in the assertion must be {form}").into();
            }
            Self::Signature => "Signature validation failed",
            Self::Subject => "The user in sub is unknown or not available to this client",
            Self::Replayed => "jti of the assertion was used before",
            Self::SubjectDiffers(received) => {
                let received = printable(received);
                return format!(
                    "sub of the assertion must be the Client ID, as iss is, but is {received}"
                )
                .into();
            }
            Self::KeyAlgorithm(expected) => {
                let expected = expected.name();
                return format!("alg in the assertion header must be {expected}, the algorithm of the registered key")
                    .into();
            }
            Self::UnknownClient => {
                "iss of the assertion must be the Client ID of a client that is registered with keys"
            }
            Self::ClientIdDiffers => "client_id differs from sub of the assertion",
            Self::ClientTypWrong => {
                "typ in the assertion header must be client-authentication+jwt or JWT, or be absent"
            }
            Self::UnknownKid => "kid is not the kid of a key of this client",
            Self::NoKid => "The assertion header needs kid, because this client has several keys",
        })
    }
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
