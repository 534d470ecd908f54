//! User assertions: a non-interactive client signs a statement about a user (protocol.md §2.3, D-10, RFC 7523). The
//! assertions with which clients authenticate are in [`client`].

mod checks;
mod claim;
pub mod client;
mod error;

use super::account_selection::NamedAccount;
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{Certificate, ClientId};

use checks::{
    check_algorithm, check_audience, check_certificate, check_expiry, check_id, check_issue_time,
    check_issuer, check_not_before, check_signature, check_type, find_certificate, parse,
    required_text, text,
};
pub use claim::Claim;
pub use error::AssertionError;

/// A verified assertion. Only [`verify`] makes assertions. The `jti` is not claimed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// Username of the user.
    pub subject: String,
    /// Id for single use.
    pub jti: String,
    /// The store keeps the `jti` until this time: `exp` plus the clock skew. Before this time, a replica whose clock is
    /// behind, or a clock that was set back, may still accept the assertion (RFC 7523 §3, "ensure that JWTs are not
    /// replayed by maintaining the set of used \"jti\" values").
    pub remembered_until: Timestamp,
    pub user_id: Option<String>,
    pub user_site: Option<String>,
}

impl Assertion {
    /// The linked account that the assertion names, if any.
    pub fn named_account(&self) -> NamedAccount<'_> {
        NamedAccount {
            user_id: self.user_id.as_deref(),
            user_site: self.user_site.as_deref(),
        }
    }
}

/// Verifies an assertion from the authenticated client `client_id` against its `certificates`.
///
/// Limits: `exp` itself is already too late; `exp` may be at most `assertion_max` ahead; `iat` and `nbf` may be
/// `clock_skew` ahead; the certificate is valid in its last second. The checks run in this order: structure, key,
/// claims, signature. The key is always an uploaded key (RFC 8725 §3.10).
///
/// # Errors
/// The [`AssertionError`] of the first failed check.
pub fn verify(
    assertion: &str,
    client_id: &ClientId,
    certificates: &[Certificate],
    settings: &Settings,
    now: Timestamp,
) -> Result<Assertion, AssertionError> {
    let jws = parse(assertion)?;
    check_type(&jws.header)?;
    check_algorithm(&jws.header)?;
    let certificate = find_certificate(&jws.header, certificates)?;
    check_certificate(certificate, now)?;
    let claims = jws.claims().map_err(AssertionError::Malformed)?;
    check_issuer(&claims, client_id)?;
    let subject = required_text(&claims, Claim::Subject)?;
    check_audience(&claims, &settings.identity_audience)?;
    let expires_at = check_expiry(&claims, settings.lifetimes.assertion_max, now)?;
    check_issue_time(&claims, settings, now)?;
    check_not_before(&claims, settings, now)?;
    let jti = check_id(&claims)?;
    let named = (
        text(&claims, Claim::UserId)?,
        text(&claims, Claim::UserSite)?,
    );
    check_signature(&jws, certificate)?;
    Ok(Assertion {
        subject: subject.to_owned(),
        jti: jti.to_owned(),
        remembered_until: expires_at + settings.lifetimes.clock_skew,
        user_id: named.0.map(str::to_owned),
        user_site: named.1.map(str::to_owned),
    })
}

/// One check of [`verify`] with its outcome, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    /// What the check found, or the refusal.
    pub outcome: Result<String, AssertionError>,
}

/// Runs all checks of [`verify`] with the same functions. A failed check does not hide later checks, but a malformed
/// assertion has no further checks.
pub fn explain(
    assertion: &str,
    client_id: &ClientId,
    certificates: &[Certificate],
    settings: &Settings,
    now: Timestamp,
) -> Vec<Check> {
    let check = |name, outcome| Check { name, outcome };
    let read = parse(assertion).and_then(|jws| {
        let claims = jws.claims().map_err(AssertionError::Malformed)?;
        Ok((jws, claims))
    });
    let (jws, claims) = match read {
        Ok(read) => read,
        Err(error) => return vec![check("structure", Err(error))],
    };
    let certificate = find_certificate(&jws.header, certificates);
    let named =
        |certificate: &Certificate| format!("{} (x5t {})", certificate.alias, certificate.x5t());
    let until = |at: Timestamp| format!("{}, {} s from now", at.rfc3339(), at.since(now).as_secs());
    let mut checks = vec![
        check("structure", Ok("three parts of base64url".to_owned())),
        check("typ", check_type(&jws.header).map(|()| "JWT".to_owned())),
        check(
            "alg",
            check_algorithm(&jws.header).map(|()| "RS256".to_owned()),
        ),
        check("certificate", certificate.clone().map(named)),
    ];
    // Without a certificate these checks have no input; the missing certificate is the cause.
    if let Ok(certificate) = certificate {
        checks.push(check(
            "certificate validity",
            check_certificate(certificate, now).map(|()| "valid now".to_owned()),
        ));
        checks.push(check(
            "signature",
            check_signature(&jws, certificate).map(|()| "the certificate's".to_owned()),
        ));
    }
    let named = text(&claims, Claim::UserId).and_then(|_| text(&claims, Claim::UserSite));
    checks.extend([
        check(
            "iss",
            check_issuer(&claims, client_id).map(|()| client_id.to_string()),
        ),
        check(
            "sub",
            required_text(&claims, Claim::Subject).map(str::to_owned),
        ),
        check(
            "aud",
            check_audience(&claims, &settings.identity_audience)
                .map(|()| settings.identity_audience.clone()),
        ),
        check(
            "exp",
            check_expiry(&claims, settings.lifetimes.assertion_max, now).map(until),
        ),
        check(
            "iat",
            check_issue_time(&claims, settings, now).map(Timestamp::rfc3339),
        ),
        check(
            "nbf",
            check_not_before(&claims, settings, now).map(|()| "has come, or is absent".to_owned()),
        ),
        check("jti", check_id(&claims).map(str::to_owned)),
    ]);
    if let Err(error) = named {
        checks.push(check("user_id, user_site", Err(error)));
    }
    checks
}

#[cfg(test)]
mod tests;
