//! Public keys as JSON Web Keys (RFC 7517, RFC 7518 §6, RFC 8037 §2).

use serde::{Deserialize, Serialize};

use crate::jws::Algorithm;

/// A public signing key as the token service publishes it at `/auth/jwks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    /// The key identifier that token headers name.
    pub kid: String,
    /// Always `sig`.
    #[serde(rename = "use")]
    pub key_use: String,
    /// The one algorithm that the key signs with.
    pub alg: Algorithm,
    /// The key itself.
    #[serde(flatten)]
    pub key: PublicKey,
}

/// The parameters of a public key; every member is base64url without padding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kty")]
pub enum PublicKey {
    /// Ed25519 (RFC 8037).
    #[serde(rename = "OKP")]
    Okp {
        /// Always `Ed25519`.
        crv: String,
        /// The 32 bytes of the public key.
        x: String,
    },
    /// P-256.
    #[serde(rename = "EC")]
    Ec {
        /// Always `P-256`.
        crv: String,
        /// The 32 bytes of the x coordinate.
        x: String,
        /// The 32 bytes of the y coordinate.
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

/// A JWK set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwkSet {
    /// The keys.
    pub keys: Vec<Jwk>,
}
