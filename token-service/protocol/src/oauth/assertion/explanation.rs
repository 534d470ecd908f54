//! The checks of assertions with their outcomes, for operators. A failed check does not hide later checks.

use std::time::Duration;

use claims::CompactJws;
use serde_json::{Map, Value};

use super::AssertionError;
use super::checks::{
    check_algorithm, check_audience, check_certificate, check_expiry, check_id, check_issue_time,
    check_issuer, check_not_ahead, check_signature, check_type, find_certificate, required_text,
    text,
};
use super::claim::Claim;
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{Certificate, ClientId};

/// One check with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    /// What the check found, or the refusal.
    pub outcome: Result<String, AssertionError>,
}

impl Check {
    pub(super) fn of<T: ToString>(name: &'static str, outcome: Result<T, AssertionError>) -> Self {
        let outcome = outcome.map(|found| found.to_string());
        Self { name, outcome }
    }
}

/// Runs all checks of [`verify`](super::verify) on a user assertion, with the same functions.
pub fn explain(
    jws: &CompactJws<'_>,
    claims: &Map<String, Value>,
    client_id: &ClientId,
    certificates: &[Certificate],
    settings: &Settings,
    now: Timestamp,
) -> Vec<Check> {
    let certificate = find_certificate(&jws.header, certificates);
    let named =
        |certificate: &Certificate| format!("{} (x5t {})", certificate.alias, certificate.x5t());
    let mut checks = vec![
        Check::of("typ", check_type(&jws.header).map(|()| "JWT")),
        Check::of("alg", check_algorithm(&jws.header).map(|()| "RS256")),
        Check::of("certificate", certificate.clone().map(named)),
    ];
    // Without a certificate these checks have no input; the missing certificate is the cause.
    if let Ok(certificate) = certificate {
        let validity = check_certificate(certificate, now).map(|()| "valid now");
        let signature = check_signature(jws, certificate).map(|()| "the certificate's");
        checks.push(Check::of("certificate validity", validity));
        checks.push(Check::of("signature", signature));
    }
    let most = settings.lifetimes.assertion_max;
    let issued_at = check_issue_time(claims, settings, now).map(Timestamp::rfc3339);
    checks.push(Check::of("sub", required_text(claims, Claim::Subject)));
    checks.push(Check::of("iat", issued_at));
    let audience = &settings.identity_audience;
    checks.extend(common(claims, client_id, audience, most, settings, now));
    let named = text(claims, Claim::UserId).and_then(|_| text(claims, Claim::UserSite));
    if let Err(error) = named {
        checks.push(Check::of("user_id, user_site", Err::<String, _>(error)));
    }
    checks
}

/// The checks that user and client assertions share. `most`: longest time until `exp`.
pub(super) fn common(
    claims: &Map<String, Value>,
    client_id: &ClientId,
    audience: &str,
    most: Duration,
    settings: &Settings,
    now: Timestamp,
) -> [Check; 5] {
    let until = |at: Timestamp| format!("{}, {} s from now", at.rfc3339(), at.since(now).as_secs());
    let not_before = check_not_ahead(claims, Claim::NotBefore, settings, now);
    let not_before = not_before.map(|()| "has come, or is absent");
    [
        Check::of("iss", check_issuer(claims, client_id).map(|()| client_id)),
        Check::of("aud", check_audience(claims, audience).map(|()| audience)),
        Check::of("exp", check_expiry(claims, most, now).map(until)),
        Check::of("nbf", not_before),
        Check::of("jti", check_id(claims)),
    ]
}
