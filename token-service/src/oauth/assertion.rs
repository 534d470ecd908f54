//! User assertions: the signed statement of a non-interactive client about a user (spec §2.3, D-10, RFC 7523).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::json::numeric_date;
use claims::jws::MAX_TOKEN_BYTES;
use claims::token::ASSERTION_TYPE;
use claims::{Algorithm, CompactJws, JoseHeader};
use jwt_simple::prelude::{
    NoCustomClaims, RSAPublicKeyLike as _, UnixTimeStamp, VerificationOptions,
};
use serde_json::{Map, Value};

use super::account_selection::NamedAccount;
use crate::clock::Timestamp;
use crate::config::Config;
use crate::registry::{Certificate, ClientId};

/// The longest `jti`, in characters.
const MAX_JTI_CHARACTERS: usize = 255;

/// Why an assertion is refused. All are `invalid_grant`; the description is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssertionError {
    /// Not three parts of base64url joined by dots, or a part is not a strict JSON object.
    Malformed,
    /// The header asks for an extension that is not understood.
    Critical,
    /// `typ` is absent; some integrators send `type` instead (D-22).
    TypMissing,
    /// `typ` is not `JWT`.
    TypWrong,
    /// `alg` is not `RS256`.
    Algorithm,
    /// Neither `x5t` nor `kid`.
    NoKeyNamed,
    /// `x5t` names none of the client's certificates.
    UnknownThumbprint,
    /// `kid` is the alias of none of the client's certificates.
    UnknownAlias,
    /// `x5t` and `kid` name two certificates.
    KeysDiffer,
    /// The certificate is not valid now.
    CertificateNotValid,
    /// A required claim is absent.
    Missing(&'static str),
    /// A claim has the wrong type or form.
    WrongType(&'static str),
    /// `iss` is not the client.
    Issuer,
    /// `aud` is not the identity service.
    Audience,
    /// `exp` has passed.
    Expired,
    /// `exp` is too far ahead.
    TooLong,
    /// `iat` is in the future.
    IssuedInFuture,
    /// `nbf` has not come.
    NotYetValid,
    /// The signature is not the certificate's.
    Signature,
    /// No enabled user has the username in `sub`, or the client may not name that user (D-19).
    Subject,
    /// The `jti` was used before.
    Replayed,
}

impl AssertionError {
    /// What the integrator should change.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Malformed => {
                "The assertion is not a JWT: three parts of base64url without padding, joined by dots"
            }
            Self::Critical => "The assertion header has a crit extension that is not understood",
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
            Self::Missing(claim) => missing(claim),
            Self::WrongType(claim) => wrong_type(claim),
            Self::Issuer => "Issuer validation failed: iss must be the Client ID",
            Self::Audience => "Audience validation failed",
            Self::Expired => "The assertion has expired",
            Self::TooLong => "exp of the assertion is too far ahead",
            Self::IssuedInFuture => "iat of the assertion is in the future",
            Self::NotYetValid => "nbf of the assertion is in the future",
            Self::Signature => "Signature validation failed",
            Self::Subject => "The user in sub is unknown or not available to this client",
            Self::Replayed => "jti of the assertion was used before",
        }
    }
}

const fn missing(claim: &'static str) -> &'static str {
    match claim.as_bytes() {
        b"iss" => "iss is missing in the assertion",
        b"sub" => "sub is missing in the assertion",
        b"aud" => "aud is missing in the assertion",
        b"exp" => "exp is missing in the assertion",
        b"iat" => "iat is missing in the assertion",
        b"jti" => "jti is missing in the assertion",
        _ => "A claim is missing in the assertion",
    }
}

const fn wrong_type(claim: &'static str) -> &'static str {
    match claim.as_bytes() {
        b"iss" => "iss in the assertion must be a string",
        b"sub" => "sub in the assertion must be a string",
        b"exp" => "exp in the assertion must be a number of seconds since 1970",
        b"iat" => "iat in the assertion must be a number of seconds since 1970",
        b"nbf" => "nbf in the assertion must be a number of seconds since 1970",
        b"jti" => "jti in the assertion must be a string of 1 to 255 characters",
        b"user_id" => "user_id in the assertion must be a string",
        b"user_site" => "user_site in the assertion must be a string",
        _ => "A claim in the assertion has the wrong type",
    }
}

/// A verified assertion. Only [`verify`] makes one; its `jti` is not claimed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// Username of the user.
    pub subject: String,
    /// The id that may be used once.
    pub jti: String,
    /// When it expires, and its `jti` may be forgotten.
    pub expires_at: Timestamp,
    /// `user_id`, if given.
    pub user_id: Option<String>,
    /// `user_site`, if given.
    pub user_site: Option<String>,
}

impl Assertion {
    /// The linked account that the assertion names, if any.
    #[must_use]
    pub fn named_account(&self) -> NamedAccount<'_> {
        NamedAccount {
            user_id: self.user_id.as_deref(),
            user_site: self.user_site.as_deref(),
        }
    }
}

/// Verifies an assertion that the authenticated client `client_id` sent, against its `certificates`.
///
/// Edges: refused at `exp` itself; accepted up to `assertion_max` ahead; `iat` and `nbf` may lie `clock_skew`
/// ahead; the certificate is valid in its last second. Structure comes first, then key, claims and
/// signature; the key is only ever one that was uploaded (RFC 8725 §3.10).
///
/// # Errors
/// The first [`AssertionError`].
pub fn verify(
    assertion: &str,
    client_id: &ClientId,
    certificates: &[Certificate],
    config: &Config,
    now: Timestamp,
) -> Result<Assertion, AssertionError> {
    let jws = CompactJws::parse(assertion).map_err(|error| match error {
        claims::JwsError::Critical => AssertionError::Critical,
        _ => AssertionError::Malformed,
    })?;
    check_type(&jws.header)?;
    let certificate = find_certificate(&jws.header, certificates)?;
    if now < certificate.not_before || now > certificate.not_after {
        return Err(AssertionError::CertificateNotValid);
    }
    let claims = jws.claims().map_err(|_| AssertionError::Malformed)?;
    let verified = check_claims(&claims, client_id, config, now)?;
    check_signature(assertion, certificate)?;
    Ok(verified)
}

fn check_type(header: &JoseHeader) -> Result<(), AssertionError> {
    match header.typ.as_deref() {
        None => return Err(AssertionError::TypMissing),
        Some(ASSERTION_TYPE) => {}
        Some(_) => return Err(AssertionError::TypWrong),
    }
    match header.alg.as_deref() {
        Some(alg) if alg == Algorithm::Rs256.name() => Ok(()),
        _ => Err(AssertionError::Algorithm),
    }
}

/// The certificate that the header names; never "whichever fits" (spec §2.3).
fn find_certificate<'a>(
    header: &JoseHeader,
    certificates: &'a [Certificate],
) -> Result<&'a Certificate, AssertionError> {
    let by_thumbprint = header
        .x5t
        .as_deref()
        .map(|x5t| {
            let thumbprint = URL_SAFE_NO_PAD
                .decode(x5t.trim_end_matches('='))
                .unwrap_or_default();
            certificates
                .iter()
                .find(|certificate| certificate.sha1_thumbprint == thumbprint.as_slice())
                .ok_or(AssertionError::UnknownThumbprint)
        })
        .transpose()?;
    let by_alias = header
        .kid
        .as_deref()
        .map(|kid| {
            certificates
                .iter()
                .find(|certificate| certificate.alias == kid)
                .ok_or(AssertionError::UnknownAlias)
        })
        .transpose()?;
    match (by_thumbprint, by_alias) {
        (Some(one), Some(other)) if one != other => Err(AssertionError::KeysDiffer),
        (Some(certificate), _) | (None, Some(certificate)) => Ok(certificate),
        (None, None) => Err(AssertionError::NoKeyNamed),
    }
}

fn check_claims(
    claims: &Map<String, Value>,
    client_id: &ClientId,
    config: &Config,
    now: Timestamp,
) -> Result<Assertion, AssertionError> {
    let lifetimes = &config.lifetimes;
    if text(claims, "iss")?.ok_or(AssertionError::Missing("iss"))? != client_id.as_str() {
        return Err(AssertionError::Issuer);
    }
    let subject = text(claims, "sub")?.ok_or(AssertionError::Missing("sub"))?;
    check_audience(claims, &config.identity_audience)?;
    let expires_at = date(claims, "exp")?.ok_or(AssertionError::Missing("exp"))?;
    if expires_at <= now {
        return Err(AssertionError::Expired);
    }
    if expires_at > now + lifetimes.assertion_max {
        return Err(AssertionError::TooLong);
    }
    if date(claims, "iat")?.ok_or(AssertionError::Missing("iat"))? > now + lifetimes.clock_skew {
        return Err(AssertionError::IssuedInFuture);
    }
    if date(claims, "nbf")?.is_some_and(|not_before| not_before > now + lifetimes.clock_skew) {
        return Err(AssertionError::NotYetValid);
    }
    let jti = text(claims, "jti")?.ok_or(AssertionError::Missing("jti"))?;
    if jti.is_empty() || jti.chars().count() > MAX_JTI_CHARACTERS {
        return Err(AssertionError::WrongType("jti"));
    }
    Ok(Assertion {
        subject: subject.to_owned(),
        jti: jti.to_owned(),
        expires_at,
        user_id: text(claims, "user_id")?.map(str::to_owned),
        user_site: text(claims, "user_site")?.map(str::to_owned),
    })
}

/// One string, or a list of one string; compared byte for byte (D-10).
fn check_audience(claims: &Map<String, Value>, expected: &str) -> Result<(), AssertionError> {
    let audience = match claims.get("aud").ok_or(AssertionError::Missing("aud"))? {
        Value::String(audience) => audience,
        Value::Array(audiences) => match audiences.as_slice() {
            [Value::String(audience)] => audience,
            _ => return Err(AssertionError::Audience),
        },
        _ => return Err(AssertionError::Audience),
    };
    if audience == expected {
        Ok(())
    } else {
        Err(AssertionError::Audience)
    }
}

fn text<'a>(
    claims: &'a Map<String, Value>,
    name: &'static str,
) -> Result<Option<&'a str>, AssertionError> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::String(value)) => Ok(Some(value)),
        Some(_) => Err(AssertionError::WrongType(name)),
    }
}

fn date(
    claims: &Map<String, Value>,
    name: &'static str,
) -> Result<Option<Timestamp>, AssertionError> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => numeric_date(value)
            .map(|seconds| Some(Timestamp::from_seconds(seconds)))
            .ok_or(AssertionError::WrongType(name)),
    }
}

/// The signature alone: names, claims and times were compared before, so the library gets a time at which
/// it finds nothing to object to.
fn check_signature(assertion: &str, certificate: &Certificate) -> Result<(), AssertionError> {
    let options = VerificationOptions {
        accept_future: true,
        artificial_time: Some(UnixTimeStamp::from_secs(0)),
        time_tolerance: None,
        max_header_length: Some(MAX_TOKEN_BYTES),
        ..VerificationOptions::default()
    };
    let key = certificate.public_key().ok_or(AssertionError::Signature)?;
    key.verify_token::<NoCustomClaims>(assertion, Some(options))
        .map(|_| ())
        .map_err(|_| AssertionError::Signature)
}
