//! Public keys as JSON Web Keys (RFC 7517, RFC 7518 §6, RFC 8037 §2).

use serde::{Deserialize, Serialize};

use crate::jws::Algorithm;
use crate::thumbprint::Thumbprint;

/// Members that only private and symmetric keys have (RFC 7518 §6, RFC 8037 §2).
pub const PRIVATE_MEMBERS: [&str; 9] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"];

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

impl PublicKey {
    /// The algorithm of signatures with this key.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Okp { .. } => Algorithm::EdDsa,
            Self::Ec { .. } => Algorithm::Es256,
            Self::Rsa { .. } => Algorithm::Rs256,
        }
    }

    /// The JWK with only the required members, in lexicographic order (RFC 7638 §3.2, RFC 8037 §2). No member contains a
    /// character that JSON escapes.
    pub fn required_members(&self) -> String {
        match self {
            Self::Okp { crv, x } => format!(r#"{{"crv":"{crv}","kty":"OKP","x":"{x}"}}"#),
            Self::Ec { crv, x, y } => {
                format!(r#"{{"crv":"{crv}","kty":"EC","x":"{x}","y":"{y}"}}"#)
            }
            Self::Rsa { n, e } => format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#),
        }
    }

    /// SHA-256 of the required members (RFC 7638 §3).
    pub fn thumbprint(&self) -> Thumbprint {
        Thumbprint::of(self.required_members().as_bytes())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwkSet {
    pub keys: Vec<Jwk>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7638 §3.1 and RFC 8037 appendix A.3.
    #[test]
    fn rfc7638_s3_1_thumbprints_of_the_examples() {
        let okp = PublicKey::Okp {
            crv: "Ed25519".into(),
            x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".into(),
        };
        assert_eq!(
            okp.thumbprint().to_string(),
            "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
        );
        let rsa = PublicKey::Rsa {
            n: "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4\
                n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0\
                zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-c\
                sFCur-kEgU8awapJzKnqDKgw"
                .into(),
            e: "AQAB".into(),
        };
        assert_eq!(
            rsa.thumbprint().to_string(),
            "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
        );
    }
}
