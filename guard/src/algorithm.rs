//! The signature algorithms of tokens.

/// A signature algorithm that the guard supports (RFC 7518 §3.1, RFC 8037 §3.1). `none` and HMAC do not exist
/// here.
///
/// The token service signs only with those of [`claims::Algorithm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Ed25519.
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
    pub const ALL: [Self; 7] = [
        Self::EdDsa,
        Self::Es256,
        Self::Es384,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
    ];

    /// The algorithms of an issuer whose configuration names none: one for each key type.
    pub const DEFAULT: [Self; 3] = [Self::EdDsa, Self::Es256, Self::Rs256];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
        }
    }

    /// Returns the algorithm with this `alg` value, compared exactly. `Ed25519` is the newer name of `EdDSA`
    /// with that curve, the only curve supported (RFC 9864 §2.2).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "Ed25519" {
            return Some(Self::EdDsa);
        }
        let mut all = Self::ALL.into_iter();
        all.find(|algorithm| algorithm.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_exactly() {
        for algorithm in Algorithm::ALL {
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
