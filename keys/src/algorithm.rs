//! The signature algorithms of tokens.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// A signature algorithm that the guard supports (RFC 7518 §3.1, RFC 8037 §3.1). `none` and HMAC do not exist
/// here.
///
/// The token service signs only with the algorithms of [`claims::Algorithm`].
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
pub enum Algorithm {
    /// Ed25519. `Ed25519` is the newer name of `EdDSA` with that curve, the only curve supported (RFC 9864 §2.2).
    #[strum(to_string = "EdDSA", serialize = "Ed25519")]
    EdDsa,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256, also for the mask, and a salt of 32 bytes.
    Ps256,
}

impl Algorithm {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The algorithms of an issuer whose configuration names none: one for each key type.
    pub const DEFAULT: [Self; 3] = [Self::EdDsa, Self::Es256, Self::Rs256];

    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    /// Returns the algorithm with this `alg` value, compared exactly.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_exactly() {
        for algorithm in Algorithm::ALL.iter().copied() {
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::from_name("Ed25519"), Some(Algorithm::EdDsa));
        for name in [
            "", "none", "eddsa", "HS256", "RS256 ", "PS384", "ES512", "Ed448",
        ] {
            assert_eq!(Algorithm::from_name(name), None, "{name}");
        }
    }
}
