//! The secrets of clients.

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::describe::checks::MAX_SECRET_LENGTH;
use crate::describe::reading::{Completeness, Entry};
use domain::client::ClientSecret;
use domain::client::IntegrationKind::Legacy;
use domain::digest::Digest;
use domain::{Client, SecretTimes};

/// Length of a client secret, in bytes. Shorter secrets could be guessed.
const LENGTH: std::ops::RangeInclusive<usize> = 32..=MAX_SECRET_LENGTH;

/// The key of the other form of a client secret.
pub(super) const DIGEST: &str = "client_secret_sha256";

/// A client secret, by its times.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    /// When the secret was registered, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_at: Option<String>,
    /// When a request last proved the secret, RFC 3339, exact to five minutes; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

impl SecretView {
    /// The `known` times of a live secret.
    pub(super) fn of(client: &Client, secret: &ClientSecret, known: &[SecretTimes]) -> Self {
        let mut known = known.iter();
        let known =
            known.find(|known| known.client_id == client.client_id && known.secret == *secret);
        Self {
            added_at: known.map(|known| known.added_at.rfc3339()),
            last_used_at: known.and_then(|known| Some(known.last_used_at?.rfc3339())),
        }
    }
}

/// The secrets in the registration: one, or none if the registration may be incomplete. Legacy clients and clients with keys
/// or TLS certificates need no secret.
pub(super) fn read(entry: &mut Entry<'_, '_>, has_keys: bool) -> Vec<ClientSecret> {
    let is_needed = entry.integration != Some(Legacy)
        && entry.reading.completeness == Completeness::Whole
        && !has_keys;
    if is_needed && !entry.section.has("client_secret") && !entry.section.has(DIGEST) {
        let message =
            "client_secret, client_secret_sha256, keys or tls_client_certificates is missing";
        entry.section.report(entry.section.place(), message);
    }
    let secret = entry.text("client_secret", |text| {
        let printable = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
        if !printable {
            return Err("must be printable ASCII (RFC 6749 §A.2)".to_owned());
        }
        if !LENGTH.contains(&text.len()) {
            let (least, most) = (LENGTH.start(), LENGTH.end());
            return Err(format!(
                "must have {least} to {most} bytes, because shorter secrets can be guessed; \
                 `openssl rand -base64 32` generates a secret"
            ));
        }
        Ok(ClientSecret::of(text))
    });
    let digest = entry
        .section
        .parsed(DIGEST, |text| sha256(text).map(ClientSecret::from_digest));
    if let (Some(_), Some(digest)) = (&secret, &digest) {
        let message = "client_secret_sha256: client_secret is there too; keep one of the two";
        entry.section.report(&digest.place, message);
    }
    let secret = secret.or(digest.map(|digest| digest.value));
    if has_keys && secret.is_some() {
        let message = "a client secret is there too, beside keys or certificates, and a stolen secret suffices; remove the secret \
                       when the whole client uses the others";
        let place = entry.section.place().clone();
        entry.warn(&place, message);
    }
    secret.into_iter().collect()
}

fn sha256(text: &str) -> Result<Digest, &'static str> {
    let hexadecimal = || {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Digest::from_bytes)
    };
    Digest::from_base64url(text)
        .or_else(hexadecimal)
        .ok_or("expected a SHA-256 digest: 64 hexadecimal digits, or 43 characters of base64url")
}
