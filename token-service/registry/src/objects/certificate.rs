//! The certificates of non-interactive clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::content::content;
use crate::describe::checks::unique;
use crate::describe::reading::{Completeness, Entry};
use document::{Located, Place};
use domain::Certificate;
use domain::certificate::CertificateState;
use domain::clock::Timestamp;

/// A certificate of a non-interactive client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CertificateView {
    /// The certificateAlias, compared with `kid`.
    pub alias: String,
    /// The SHA-1 thumbprint, base64url: compared with `x5t`.
    pub x5t: String,
    /// First second of validity, RFC 3339.
    pub not_before: String,
    /// Last second of validity, RFC 3339.
    pub not_after: String,
    /// `valid`, `expires_soon` (within 30 days), `expired` or `not_yet_valid`.
    pub state: String,
}

/// A certificate of a non-interactive client.
#[derive(ToSchema)]
pub struct CertificateRegistration {
    /// The certificateAlias, compared with `kid`.
    pub alias: String,
    /// The certificate.
    pub pem: String,
}

impl CertificateView {
    pub(super) fn of(certificate: &Certificate, now: Timestamp) -> Self {
        Self {
            alias: certificate.alias.clone(),
            x5t: certificate.x5t(),
            not_before: certificate.not_before.rfc3339(),
            not_after: certificate.not_after.rfc3339(),
            state: certificate.state(now).name().to_owned(),
        }
    }
}

pub(super) fn text(certificate: &Certificate) -> String {
    format!("{} (x5t {})", certificate.alias, certificate.x5t())
}

/// The certificates in the registration. A client of identity providers (`has_providers`) needs none, because they sign its
/// assertions.
pub(super) fn read(entry: &mut Entry<'_, '_>, has_providers: bool) -> Vec<Certificate> {
    const KEY: &str = "certificates";
    if !has_providers && entry.reading.completeness == Completeness::Whole {
        entry.section.required(KEY);
    }
    let mut aliases = BTreeMap::new();
    let mut thumbprints = BTreeMap::new();
    let mut certificates = Vec::new();
    let is_given = entry.section.has(KEY);
    let sections = entry.section.sections(KEY);
    if is_given && sections.is_empty() {
        let message = format!("{KEY}: at least one is needed");
        entry.section.report(entry.section.place(), message);
    }
    for mut section in sections {
        let alias = section.required_text("alias");
        if let Some(alias) = &alias {
            unique(&section, "alias", alias, &mut aliases);
        }
        entry.reading.names_files |= section.has("file");
        let pem = content(&mut section, "pem", "the certificate", std::fs::read);
        if let (Some(alias), Some((given, pem))) = (alias, pem) {
            match Certificate::read(&alias.value, &pem.value) {
                Ok(certificate) => {
                    let x5t = Located {
                        value: certificate.x5t(),
                        place: pem.place,
                    };
                    let what = "certificate with the thumbprint";
                    unique(&section, what, &x5t, &mut thumbprints);
                    warn_of_validity(entry, &certificate, &x5t.place);
                    certificates.push(certificate);
                }
                Err(error) => section.report(&pem.place, format!("{given}: {error}")),
            }
        }
        section.finish();
    }
    certificates
}

/// Only warns, because the clock may be wrong, and a certificate may be registered before its validity starts. Each use
/// checks the validity (D-10).
fn warn_of_validity(entry: &mut Entry<'_, '_>, certificate: &Certificate, place: &Place) {
    let alias = &certificate.alias;
    let message = match certificate.state(entry.reading.now) {
        CertificateState::Valid => return,
        CertificateState::Expired => {
            format!("the certificate {alias} has expired; assertions signed with it are refused")
        }
        CertificateState::ExpiresSoon => {
            format!("the certificate {alias} expires within 30 days; register its successor")
        }
        CertificateState::NotYetValid => format!("the certificate {alias} is not valid yet"),
    };
    entry.warn(place, message);
}
