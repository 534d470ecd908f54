//! User assertions: a non-interactive client signs a statement about a user (protocol.md §2.3, D-10, RFC 7523). The
//! assertions with which clients authenticate are in [`client`].

mod checks;
mod claim;
pub mod client;
mod error;
mod explanation;

use super::account_selection::NamedAccount;
use crate::settings::Settings;
use domain::clock::Timestamp;
use domain::{Certificate, ClientId};

use checks::{
    check_algorithm, check_audience, check_certificate, check_expiry, check_id, check_issue_time,
    check_issuer, check_not_ahead, check_signature, check_type, find_certificate, parse,
    required_text, text,
};
pub use claim::Claim;
pub use error::AssertionError;
pub use explanation::{Check, explain};

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
    check_not_ahead(&claims, Claim::NotBefore, settings, now)?;
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

#[cfg(test)]
mod tests;
