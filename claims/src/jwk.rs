//! Public keys as JSON Web Keys (RFC 7517, RFC 7518 §6, RFC 8037 §2).

use serde::{Deserialize, Serialize};

use crate::jws::Algorithm;

/// A public signing key as the token service publishes it at `/auth/jwks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    pub kid: String,
    /// Always `sig`.
    #[serde(rename = "use")]
    pub key_use: String,
    /// The only algorithm of the key.
    pub alg: Algorithm,
    #[serde(flatten)]
    pub key: PublicKey,
}

/// The parameters of a public key. All binary values are base64url without padding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kty")]
pub enum PublicKey {
    /// Ed25519 (RFC 8037).
    #[serde(rename = "OKP")]
    Okp {
        /// Always `Ed25519`.
        crv: String,
        /// The public key, 32 bytes.
        x: String,
    },
    /// P-256.
    #[serde(rename = "EC")]
    Ec {
        /// Always `P-256`.
        crv: String,
        /// The x coordinate, 32 bytes.
        x: String,
        /// The y coordinate, 32 bytes.
        y: String,
    },
    /// RSA.
    #[serde(rename = "RSA")]
    Rsa {
        /// The modulus, big endian.
        n: String,
        /// The public exponent, big endian.
        e: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwkSet {
    pub keys: Vec<Jwk>,
}
