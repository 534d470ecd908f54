//! The X.509 certificates of non-interactive clients (spec §2.3).

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
}
