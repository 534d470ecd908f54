//! The checks of an assertion, one function each.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::json::numeric_date;
use claims::token::ASSERTION_TYPE;
use claims::{Algorithm, CompactJws, JoseHeader};
use data_encoding::HEXLOWER_PERMISSIVE;
use serde_json::{Map, Value};

use super::claim::Claim;
use super::error::AssertionError;
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{Certificate, ClientId};

/// Maximum length of `jti`, in characters.
const MAX_JTI_CHARACTERS: usize = 255;

pub(super) fn parse(assertion: &str) -> Result<CompactJws<'_>, AssertionError> {
    CompactJws::parse(assertion).map_err(AssertionError::Malformed)
}

pub(super) fn check_type(header: &JoseHeader) -> Result<(), AssertionError> {
    match header.typ.as_deref() {
        None => Err(AssertionError::TypMissing),
        Some(ASSERTION_TYPE) => Ok(()),
        Some(_) => Err(AssertionError::TypWrong),
    }
}

pub(super) fn check_algorithm(header: &JoseHeader) -> Result<(), AssertionError> {
    match header.alg.as_deref() {
        Some(alg) if alg == Algorithm::Rs256.name() => Ok(()),
        _ => Err(AssertionError::Algorithm),
    }
}

pub(super) fn check_certificate(
    certificate: &Certificate,
    now: Timestamp,
) -> Result<(), AssertionError> {
    let is_valid = certificate.is_valid_at(now);
    is_valid
        .then_some(())
        .ok_or(AssertionError::CertificateNotValid)
}

/// The certificate that the header names; never any certificate that happens to fit (protocol.md §2.3).
pub(super) fn find_certificate<'a>(
    header: &JoseHeader,
    certificates: &'a [Certificate],
) -> Result<&'a Certificate, AssertionError> {
    let with_thumbprint = |x5t: &str| {
        let thumbprint = URL_SAFE_NO_PAD.decode(x5t.trim_end_matches('='));
        let thumbprint = thumbprint.unwrap_or_default();
        let mut certificates = certificates.iter();
        certificates
            .find(|certificate| certificate.sha1_thumbprint == thumbprint.as_slice())
            .ok_or_else(|| unknown_thumbprint(x5t))
    };
    let with_alias = |kid: &str| {
        let found = certificates.iter().find(|one| one.alias == kid);
        found.ok_or_else(|| unknown_alias(kid, certificates))
    };
    let by_thumbprint = header.x5t.as_deref().map(with_thumbprint).transpose()?;
    let by_alias = header.kid.as_deref().map(with_alias).transpose()?;
    match (by_thumbprint, by_alias) {
        (Some(one), Some(other)) if one != other => Err(AssertionError::KeysDiffer),
        (Some(certificate), _) | (None, Some(certificate)) => Ok(certificate),
        (None, None) => Err(AssertionError::NoKeyNamed),
    }
}

/// Reads a SHA-1 thumbprint in hexadecimal digits, as printed by tools such as `openssl x509 -fingerprint`.
fn hexadecimal_thumbprint(text: &str) -> Option<Vec<u8>> {
    let digits = text.replace(':', "");
    let thumbprint = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
    (thumbprint.len() == 20).then_some(thumbprint)
}

fn unknown_thumbprint(x5t: &str) -> AssertionError {
    match hexadecimal_thumbprint(x5t) {
        Some(thumbprint) => AssertionError::ThumbprintInHex(URL_SAFE_NO_PAD.encode(thumbprint)),
        None => AssertionError::UnknownThumbprint,
    }
}

/// .NET's libraries write the thumbprint of the certificate into `kid`, which is the alias (protocol.md §2.3).
fn unknown_alias(kid: &str, certificates: &[Certificate]) -> AssertionError {
    let thumbprint = hexadecimal_thumbprint(kid).unwrap_or_default();
    let mut certificates = certificates.iter();
    match certificates.any(|certificate| certificate.sha1_thumbprint == thumbprint.as_slice()) {
        true => AssertionError::ThumbprintAsAlias(kid.to_owned()),
        false => AssertionError::UnknownAlias,
    }
}

pub(super) fn check_issuer(
    claims: &Map<String, Value>,
    client_id: &ClientId,
) -> Result<(), AssertionError> {
    let issuer = required_text(claims, Claim::Issuer)?;
    if issuer == client_id.as_str() {
        Ok(())
    } else {
        Err(AssertionError::Issuer(issuer.to_owned()))
    }
}

pub(super) fn check_expiry(
    claims: &Map<String, Value>,
    most: Duration,
    now: Timestamp,
) -> Result<Timestamp, AssertionError> {
    let expires_at = required_date(claims, Claim::Expiry)?;
    if expires_at <= now {
        return Err(AssertionError::Expired {
            at: expires_at,
            now,
        });
    }
    if expires_at > now + most {
        return Err(AssertionError::TooLong {
            at: expires_at,
            now,
            most,
        });
    }
    Ok(expires_at)
}

pub(super) fn check_issue_time(
    claims: &Map<String, Value>,
    settings: &Settings,
    now: Timestamp,
) -> Result<Timestamp, AssertionError> {
    check_not_ahead(claims, Claim::IssuedAt, settings, now)?;
    required_date(claims, Claim::IssuedAt)
}

/// The time `claim` may be absent.
pub(super) fn check_not_ahead(
    claims: &Map<String, Value>,
    claim: Claim,
    settings: &Settings,
    now: Timestamp,
) -> Result<(), AssertionError> {
    match date(claims, claim)? {
        Some(time) if time > now + settings.lifetimes.clock_skew => {
            Err(AssertionError::InFuture(claim, time, now))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_id(claims: &Map<String, Value>) -> Result<&str, AssertionError> {
    let jti = required_text(claims, Claim::Id)?;
    if jti.is_empty() || jti.chars().count() > MAX_JTI_CHARACTERS {
        return Err(AssertionError::WrongType(Claim::Id));
    }
    Ok(jti)
}

/// `aud` is one string or a list of one string, compared byte for byte (D-10).
pub(super) fn check_audience(
    claims: &Map<String, Value>,
    expected: &str,
) -> Result<(), AssertionError> {
    let audience =
        match present(claims, Claim::Audience).ok_or(AssertionError::Missing(Claim::Audience))? {
            Value::String(audience) => Some(audience),
            Value::Array(audiences) => match audiences.as_slice() {
                [Value::String(audience)] => Some(audience),
                _ => None,
            },
            _ => None,
        };
    if audience.is_some_and(|audience| audience == expected) {
        Ok(())
    } else {
        Err(AssertionError::Audience {
            received: audience.cloned(),
            expected: expected.to_owned(),
        })
    }
}

pub(super) fn check_signature(
    jws: &CompactJws<'_>,
    certificate: &Certificate,
) -> Result<(), AssertionError> {
    let is_signed = certificate.verifies(jws.signing_input.as_bytes(), &jws.signature);
    is_signed.then_some(()).ok_or(AssertionError::Signature)
}

pub(super) fn required_text(
    claims: &Map<String, Value>,
    claim: Claim,
) -> Result<&str, AssertionError> {
    text(claims, claim)?.ok_or(AssertionError::Missing(claim))
}

/// A claim's value. `null` counts as absent, because some libraries write unset claims as `null`.
fn present(claims: &Map<String, Value>, claim: Claim) -> Option<&Value> {
    claims.get(claim.name()).filter(|value| !value.is_null())
}

pub(super) fn text(
    claims: &Map<String, Value>,
    claim: Claim,
) -> Result<Option<&str>, AssertionError> {
    match present(claims, claim) {
        None => Ok(None),
        Some(Value::String(value)) => Ok(Some(value)),
        Some(_) => Err(AssertionError::WrongType(claim)),
    }
}

fn required_date(claims: &Map<String, Value>, claim: Claim) -> Result<Timestamp, AssertionError> {
    date(claims, claim)?.ok_or(AssertionError::Missing(claim))
}

fn date(claims: &Map<String, Value>, claim: Claim) -> Result<Option<Timestamp>, AssertionError> {
    match present(claims, claim) {
        None => Ok(None),
        Some(value) => numeric_date(value)
            .map(|seconds| Some(Timestamp::from_seconds(seconds)))
            .ok_or(AssertionError::WrongType(claim)),
    }
}
