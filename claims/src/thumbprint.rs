//! SHA-256 thumbprints of keys and certificates, and the claim that binds a token to them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest of a public key (RFC 7638) or of a certificate in DER (RFC 8705 §3.1). Public data.
///
/// Its text is base64url without padding, 43 characters. In formats that are not text, it has 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thumbprint([u8; 32]);

impl Thumbprint {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads base64url without padding, 43 characters. `None` for every other text.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Reads 64 hexadecimal digits. `None` for every other text.
    pub fn parse_hexadecimal(digits: &[u8]) -> Option<Self> {
        let digits: &[u8; 64] = digits.try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            *byte = u8::try_from(high? * 16 + low?).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Thumbprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Thumbprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for Thumbprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Thumbprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::parse(&text).ok_or_else(|| D::Error::custom("not a thumbprint"))
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Self)
        }
    }
}

/// The claim `cnf` (RFC 7800 §3.1): what a client must prove to possess when it uses the token. Each member that is
/// present must be proved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// A key with which the client signs DPoP proofs (RFC 9449 §6.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jkt: Option<Thumbprint>,
    /// The certificate with which the client authenticates its connection (RFC 8705 §3.1).
    #[serde(rename = "x5t#S256", default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Thumbprint>,
}

impl Confirmation {
    /// Reads the claim. `None` if it names nothing, has a member that is not known here, or a member of the wrong form:
    /// nobody can then know what the client must prove.
    pub fn read(claim: &Value) -> Option<Self> {
        let mut read = Self::default();
        for (name, value) in claim.as_object()? {
            let thumbprint = Thumbprint::parse(value.as_str()?)?;
            match name.as_str() {
                "jkt" => read.jkt = Some(thumbprint),
                "x5t#S256" => read.certificate = Some(thumbprint),
                _ => return None,
            }
        }
        (read != Self::default()).then_some(read)
    }

    /// The members that are present.
    pub fn thumbprints(self) -> impl Iterator<Item = Thumbprint> {
        [self.jkt, self.certificate].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_thumbprint_has_one_text() {
        let thumbprint = Thumbprint::of(b"key");
        let text = thumbprint.to_string();
        assert_eq!(text.len(), 43);
        assert_eq!(Thumbprint::parse(&text), Some(thumbprint));
        let hexadecimal: String = thumbprint
            .0
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        for other in [
            format!("{text}="),
            format!("{text}A"),
            text[1..].to_owned(),
            format!("{}_", &text[..42]),
            hexadecimal,
            String::new(),
        ] {
            assert_eq!(Thumbprint::parse(&other), None, "{other}");
        }
    }

    #[test]
    fn a_hexadecimal_thumbprint_has_64_digits() {
        let expected = Thumbprint([0xa7; 32]);
        for digits in ["a7".repeat(32), "A7".repeat(32)] {
            let read = Thumbprint::parse_hexadecimal(digits.as_bytes());
            assert_eq!(read, Some(expected));
        }
        for other in [
            String::new(),
            "a7".repeat(31),
            "a7".repeat(33),
            "a".repeat(63),
            "g7".repeat(32),
            "+7".repeat(32),
            expected.to_string(),
        ] {
            let read = Thumbprint::parse_hexadecimal(other.as_bytes());
            assert_eq!(read, None, "{other}");
        }
    }

    #[test]
    fn rfc7800_s3_1_every_member_is_known_or_the_claim_is_refused() {
        let text = Thumbprint::of(b"key").to_string();
        let (jkt, certificate) = (Some(Thumbprint::of(b"key")), Some(Thumbprint::of(b"key")));
        for (claim, read) in [
            (
                json!({"jkt": text}),
                Some(Confirmation {
                    jkt,
                    certificate: None,
                }),
            ),
            (
                json!({"x5t#S256": text}),
                Some(Confirmation {
                    jkt: None,
                    certificate,
                }),
            ),
            (
                json!({"x5t#S256": text, "jkt": text}),
                Some(Confirmation { jkt, certificate }),
            ),
            (json!({}), None),
            (json!({"jkt": text, "kid": "a"}), None),
            (json!({"jwk": {"kty": "OKP"}}), None),
            (json!({"jkt": "short"}), None),
            (json!({"jkt": [text]}), None),
            (json!([{"jkt": text}]), None),
            (json!(text), None),
            (json!(null), None),
        ] {
            assert_eq!(Confirmation::read(&claim), read, "{claim}");
            if let Some(read) = read {
                assert_eq!(json!(read), claim);
            }
        }
    }
}
