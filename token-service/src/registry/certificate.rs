//! The X.509 certificates of non-interactive clients (spec §2.3).

use std::fmt;
use std::sync::OnceLock;

use jwt_simple::prelude::RS256PublicKey;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// An uploaded certificate: what assertions need of it, extracted once at registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The certificateAlias, compared with an assertion's `kid`.
    pub alias: String,
    /// SHA-1 of the DER certificate: compared with an assertion's decoded `x5t`. An identifier, not a proof.
    pub sha1_thumbprint: [u8; 20],
    /// The RSA public key as SubjectPublicKeyInfo, DER. 2048 to 4096 bits.
    pub public_key_der: Vec<u8>,
    /// First second of validity.
    pub not_before: Timestamp,
    /// Last second of validity.
    pub not_after: Timestamp,
    /// The key, read on first use and kept.
    #[serde(skip)]
    pub parsed: ParsedKey,
}

impl Certificate {
    /// The public key; `None` when the library cannot read it.
    #[must_use]
    pub fn public_key(&self) -> Option<&RS256PublicKey> {
        self.parsed
            .0
            .get_or_init(|| RS256PublicKey::from_der(&self.public_key_der).ok())
            .as_ref()
    }
}

/// A key in the library's form, made from its DER when first needed. It adds nothing to the certificate, so
/// all are equal.
#[derive(Clone, Default)]
pub struct ParsedKey(OnceLock<Option<RS256PublicKey>>);

impl PartialEq for ParsedKey {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ParsedKey {}

impl fmt::Debug for ParsedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ParsedKey")
    }
}
