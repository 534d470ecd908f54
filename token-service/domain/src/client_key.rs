//! What clients authenticate with in place of a secret: the public keys with which they sign client assertions (protocol.md
//! §5.12, RFC 7523 §2.2), and the certificates of their connections (protocol.md §5.14, RFC 8705 §2.2).

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::json::BYTE_ORDER_MARK;
use claims::jwk::{PRIVATE_MEMBERS, PublicKey};
use claims::{Algorithm, Thumbprint, json};
use der::Decode as _;
use der::asn1::ObjectIdentifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spki::SubjectPublicKeyInfoRef;
use strum::IntoStaticStr;

use crate::certificate::{
    RSA_KEY, RsaKeyError, check_rsa, holds_private_key, read_rsa, without_leading_zeros,
};

/// The values of `alg` that the keys of clients verify; `Ed25519` (RFC 9864 §2.2) and `EdDSA` are the same for Ed25519 keys.
pub const ALGORITHMS: [&str; 4] = ["EdDSA", "Ed25519", "ES256", "RS256"];

/// Longest `kid` of a client's key, in bytes.
pub const MAX_KID_LENGTH: usize = 255;

/// The first byte of an uncompressed point (SEC 1 §2.3.3).
const UNCOMPRESSED: u8 = 4;

/// `id-ecPublicKey`, the object identifier of keys on elliptic curves (RFC 5480 §2.1.1).
const EC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// `secp256r1`, the object identifier of P-256 (RFC 5480 §2.1.1.1).
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");

/// The object identifier of Ed25519 keys (RFC 8410 §3).
const ED25519_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A registered public key of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientKey {
    /// The `kid` of the client assertions that the key signs. 1 to 255 bytes without control characters.
    pub kid: String,
    pub public_key: VerifyingKey,
}

/// A public key: Ed25519, P-256, or RSA with 2048 to 4096 bits. Its text is a JWK (RFC 7517) with nothing but the members
/// of the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum VerifyingKey {
    Ed25519([u8; 32]),
    /// An uncompressed point: 4, x, y.
    P256([u8; 65]),
    Rsa {
        /// Big endian, without leading zeros.
        modulus: Vec<u8>,
        /// Big endian, without leading zeros.
        exponent: Vec<u8>,
    },
}

/// What a client assertion's audience is (RFC 7523 §3), if it is not the issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AssertionAudience {
    /// The URL of the token endpoint.
    TokenEndpoint,
}

impl AssertionAudience {
    /// The value in registrations.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// How a client authenticates without a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyAuthentication {
    /// The keys of `private_key_jwt`; several are allowed, for rollover. A client with keys always authenticates
    /// (D-46).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<ClientKey>,
    /// `None` for the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_assertion_audience: Option<AssertionAudience>,
    /// The certificates of `self_signed_tls_client_auth`; several are allowed, for rollover. A client with certificates
    /// always authenticates (D-48).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls_client_certificates: Vec<Thumbprint>,
}

impl KeyAuthentication {
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tls_client_certificates.is_empty()
    }
}

/// Why a key cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("expected a public key: a JWK (a JSON object with kty), or PEM (PUBLIC KEY)")]
    NotAKey,
    #[error("{0}")]
    Json(json::JsonError),
    #[error(
        "holds a private or symmetric key; register only the public key, and treat that key as known to others"
    )]
    PrivateKey,
    #[error(
        "is a certificate; register its public key: openssl x509 -in FILE -noout -pubkey prints it"
    )]
    Certificate,
    #[error("is a set of keys; register each key under its own kid")]
    Set,
    #[error("holds more than one key; register each under its own kid")]
    Several,
    #[error("use of the JWK must be sig")]
    NotForSignatures,
    #[error("the key must be an Ed25519 key, a P-256 key, or an RSA key")]
    Unsupported,
    #[error("alg of the JWK must be {0}, the algorithm of the key")]
    OtherAlgorithm(&'static str),
    #[error("{0} of the JWK has another length, or is not base64url without padding")]
    Malformed(&'static str),
    #[error("its RSA key has {0} bits; 2048 to 4096 are accepted")]
    KeySize(usize),
    #[error("the key is not usable")]
    Unusable,
}

impl From<RsaKeyError> for KeyError {
    fn from(error: RsaKeyError) -> Self {
        match error {
            RsaKeyError::Size(bits) => Self::KeySize(bits),
            RsaKeyError::Exponent => Self::Unusable,
        }
    }
}

impl VerifyingKey {
    /// Reads a public key: a JWK, or PEM (SubjectPublicKeyInfo).
    ///
    /// # Errors
    /// A [`KeyError`]. A private key is refused, because it must stay with the integrator.
    pub fn read(text: &str) -> Result<Self, KeyError> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let key = if text.trim_start().starts_with('{') {
            Self::of_jwk(text)?
        } else {
            Self::of_pem(text)?
        };
        key.check()
    }

    fn of_jwk(text: &str) -> Result<Self, KeyError> {
        let mut members = json::parse_object(text.as_bytes()).map_err(KeyError::Json)?;
        // Some libraries write unset members so.
        members.retain(|_, value| !value.is_null());
        if members.contains_key("keys") {
            return Err(KeyError::Set);
        }
        if PRIVATE_MEMBERS
            .iter()
            .any(|name| members.contains_key(*name))
        {
            return Err(KeyError::PrivateKey);
        }
        if members.get("use").is_some_and(|usage| usage != "sig") {
            return Err(KeyError::NotForSignatures);
        }
        let alg = members.get("alg").cloned();
        let key = Self::of_members(members)?;
        match alg {
            Some(alg) if !alg.as_str().is_some_and(|alg| key.is_of(alg)) => {
                Err(KeyError::OtherAlgorithm(key.algorithm().name()))
            }
            _ => Ok(key),
        }
    }

    fn of_members(members: Map<String, Value>) -> Result<Self, KeyError> {
        if !members.contains_key("kty") {
            return Err(KeyError::NotAKey);
        }
        let key = serde_json::from_value(Value::Object(members));
        let key: PublicKey = key.map_err(|_| KeyError::Unsupported)?;
        Self::of(&key)
    }

    /// The key with these members. Whether it can be used, as a point on its curve or by its size, is not checked.
    ///
    /// # Errors
    /// [`KeyError::Unsupported`] or [`KeyError::Malformed`].
    pub fn of(key: &PublicKey) -> Result<Self, KeyError> {
        match key {
            PublicKey::Okp { crv, x } if crv == "Ed25519" => Ok(Self::Ed25519(fixed("x", x)?)),
            PublicKey::Ec { crv, x, y } if crv == "P-256" => {
                let (x, y): ([u8; 32], [u8; 32]) = (fixed("x", x)?, fixed("y", y)?);
                let point = [[UNCOMPRESSED].as_slice(), &x, &y].concat();
                Self::of_point(&point)
            }
            PublicKey::Rsa { n, e } => Ok(Self::Rsa {
                modulus: without_leading_zeros(&bytes("n", n)?).to_vec(),
                exponent: without_leading_zeros(&bytes("e", e)?).to_vec(),
            }),
            PublicKey::Okp { .. } | PublicKey::Ec { .. } => Err(KeyError::Unsupported),
        }
    }

    fn of_point(point: &[u8]) -> Result<Self, KeyError> {
        point
            .try_into()
            .map(Self::P256)
            .map_err(|_| KeyError::Unusable)
    }

    fn of_pem(text: &str) -> Result<Self, KeyError> {
        let pem = text.as_bytes();
        if holds_private_key(pem) {
            return Err(KeyError::PrivateKey);
        }
        if CertificateDer::from_pem_slice(pem).is_ok() {
            return Err(KeyError::Certificate);
        }
        let keys: Result<Vec<_>, _> = SubjectPublicKeyInfoDer::pem_slice_iter(pem).collect();
        match keys.map_err(|_| KeyError::NotAKey)?.as_slice() {
            [key] => Self::of_spki(key),
            [] => Err(KeyError::NotAKey),
            _ => Err(KeyError::Several),
        }
    }

    fn of_spki(der: &[u8]) -> Result<Self, KeyError> {
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| KeyError::NotAKey)?;
        let raw = info.subject_public_key.as_bytes().unwrap_or_default();
        match info.algorithm.oid {
            ED25519_KEY => {
                let raw = raw.try_into();
                raw.map(Self::Ed25519).map_err(|_| KeyError::Unusable)
            }
            RSA_KEY => {
                let rsa = read_rsa(&info).map_err(|_| KeyError::Unusable)?;
                Ok(Self::Rsa {
                    modulus: rsa.modulus.as_bytes().to_vec(),
                    exponent: rsa.public_exponent.as_bytes().to_vec(),
                })
            }
            EC_KEY if info.algorithm.parameters_oid() == Ok(P256) => Self::of_point(raw),
            _ => Err(KeyError::Unsupported),
        }
    }

    fn check(self) -> Result<Self, KeyError> {
        let is_point = match &self {
            Self::Ed25519(key) => ParsedPublicKey::new(&ED25519, key).is_ok(),
            Self::P256(point) => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).is_ok(),
            Self::Rsa { modulus, exponent } => {
                check_rsa(modulus, exponent)?;
                true
            }
        };
        if is_point {
            Ok(self)
        } else {
            Err(KeyError::Unusable)
        }
    }

    /// The only algorithm that the key verifies (RFC 8725 §3.1).
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::EdDsa,
            Self::P256(_) => Algorithm::Es256,
            Self::Rsa { .. } => Algorithm::Rs256,
        }
    }

    /// True if `alg` in the header of a JWS names the algorithm of this key: `Ed25519` (RFC 9864 §2.2) is another name for
    /// `EdDSA` with this kind of key.
    pub fn is_of(&self, alg: &str) -> bool {
        Algorithm::from_any_name(alg) == Some(self.algorithm())
    }

    /// True if `signature` is a signature of `message` by this key, in the form of JWS (RFC 7518 §3).
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => ParsedPublicKey::new(&ED25519, key)
                .is_ok_and(|key| key.verify_sig(message, signature).is_ok()),
            Self::P256(point) => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .is_ok_and(|key| key.verify_sig(message, signature).is_ok()),
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents {
                n: modulus,
                e: exponent,
            }
            .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            .is_ok(),
        }
    }

    /// The key as JWK.
    fn jwk(&self) -> PublicKey {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Ed25519(key) => PublicKey::Okp {
                crv: "Ed25519".to_owned(),
                x: encode(key),
            },
            Self::P256([_, point @ ..]) => {
                let (x, y) = point.split_at(point.len() / 2);
                PublicKey::Ec {
                    crv: "P-256".to_owned(),
                    x: encode(x),
                    y: encode(y),
                }
            }
            Self::Rsa { modulus, exponent } => PublicKey::Rsa {
                n: encode(modulus),
                e: encode(exponent),
            },
        }
    }
}

impl TryFrom<String> for VerifyingKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        Self::read(&text)
    }
}

impl From<VerifyingKey> for String {
    fn from(key: VerifyingKey) -> Self {
        serde_json::to_string(&key.jwk()).unwrap_or_default()
    }
}

fn bytes(name: &'static str, text: &str) -> Result<Vec<u8>, KeyError> {
    let decoded = URL_SAFE_NO_PAD.decode(text);
    decoded.map_err(|_| KeyError::Malformed(name))
}

fn fixed<const N: usize>(name: &'static str, text: &str) -> Result<[u8; N], KeyError> {
    let bytes = bytes(name, text)?;
    bytes.try_into().map_err(|_| KeyError::Malformed(name))
}

#[cfg(test)]
mod tests {
    use der::Encode as _;
    use der::asn1::{AnyRef, BitStringRef};
    use spki::AlgorithmIdentifierRef;

    use super::*;
    use crate::certificate::Certificate;

    const ED25519_PEM: &str = include_str!("../../../demo/key-demo.pub.pem");
    /// RFC 8037 appendix A.2.
    const OKP: &str =
        r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    /// RFC 7515 appendix A.3.1, the public members.
    const EC: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

    #[test]
    fn rfc7517_a_jwk_is_its_own_text() {
        for (jwk, algorithm) in [(OKP, Algorithm::EdDsa), (EC, Algorithm::Es256)] {
            let key = VerifyingKey::read(jwk).unwrap();
            assert_eq!(key.algorithm(), algorithm);
            assert_eq!(String::from(key), jwk);
            for more in [
                r#"{"use":"sig","kid":"x","key_ops":["verify"],"#,
                r#"{"use":null,"alg":null,"key_ops":null,"d":null,"x5c":null,"#,
            ] {
                let more = jwk.replacen('{', more, 1);
                assert_eq!(String::from(VerifyingKey::read(&more).unwrap()), jwk);
            }
        }
    }

    #[test]
    fn pem_and_jwk_are_the_same_key() {
        let key = VerifyingKey::read(ED25519_PEM).unwrap();
        assert_eq!(key.algorithm(), Algorithm::EdDsa);
        let jwk = String::from(key.clone());
        for text in [
            &jwk,
            &format!("\u{feff}{jwk}"),
            &format!("\u{feff}{ED25519_PEM}"),
        ] {
            assert_eq!(VerifyingKey::read(text).as_ref(), Ok(&key));
        }
    }

    #[test]
    fn pem_of_each_kind_of_key() {
        let pem = |der: &[u8]| {
            let base64 = base64::engine::general_purpose::STANDARD.encode(der);
            format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n")
        };
        let certificate = include_bytes!("../../../demo/non-interactive-demo.cert.pem");
        let rsa = Certificate::read("alias", certificate).unwrap();
        let key = VerifyingKey::read(&pem(&rsa.public_key_der)).unwrap();
        assert_eq!(key.algorithm(), Algorithm::Rs256);
        assert_eq!(VerifyingKey::read(&String::from(key.clone())), Ok(key));

        let key = VerifyingKey::read(EC).unwrap();
        let VerifyingKey::P256(point) = &key else {
            panic!("{key:?}")
        };
        let on_curve = |curve| {
            let parameters = AnyRef::new(der::Tag::ObjectIdentifier, curve).unwrap();
            let info = SubjectPublicKeyInfoRef {
                algorithm: AlgorithmIdentifierRef {
                    oid: EC_KEY,
                    parameters: Some(parameters),
                },
                subject_public_key: BitStringRef::from_bytes(point).unwrap(),
            };
            VerifyingKey::read(&pem(&info.to_der().unwrap()))
        };
        assert_eq!(on_curve(P256.as_bytes()), Ok(key.clone()));
        // P-384.
        let other = on_curve(b"\x2b\x81\x04\x00\x22");
        assert_eq!(other, Err(KeyError::Unsupported));
    }

    #[test]
    fn only_public_keys_that_can_be_used() {
        let private = OKP.replacen(
            '{',
            r#"{"d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","#,
            1,
        );
        let off_curve = EC.replace("x_FEzRu9", "y_FEzRu9");
        let short = OKP.replace("HURo", "");
        let padded = OKP.replace("HURo", "HURo=");
        let certificate = include_str!("../../../demo/non-interactive-demo.cert.pem");
        let key = include_str!("../../../demo/key-demo.key.pem");
        let with = |member: &str| OKP.replacen('{', &format!("{{{member},"), 1);
        let p384 = r#"{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}"#;
        let ed448 = r#"{"kty":"OKP","crv":"Ed448","x":"AA"}"#;
        let rsa = r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#;
        use KeyError as E;
        for (text, error) in [
            (private.as_str(), E::PrivateKey),
            (r#"{"kty":"oct","k":"AAAA"}"#, E::PrivateKey),
            (key, E::PrivateKey),
            (&format!("{certificate}{key}"), E::PrivateKey),
            (certificate, E::Certificate),
            (&format!(r#"{{"keys":[{OKP}]}}"#), E::Set),
            (&format!("{ED25519_PEM}{ED25519_PEM}"), E::Several),
            (&off_curve, E::Unusable),
            (&short, E::Malformed("x")),
            (&padded, E::Malformed("x")),
            (p384, E::Unsupported),
            (ed448, E::Unsupported),
            (rsa, E::KeySize(17)),
            (&with(r#""use":"enc""#), E::NotForSignatures),
            (&with(r#""alg":"ES256""#), E::OtherAlgorithm("EdDSA")),
            ("{}", E::NotAKey),
            ("ssh-ed25519 AAAA", E::NotAKey),
            ("", E::NotAKey),
        ] {
            assert_eq!(VerifyingKey::read(text), Err(error), "{text}");
        }
        let twice = OKP.replacen('{', r#"{"kty":"OKP","#, 1);
        assert!(matches!(VerifyingKey::read(&twice), Err(KeyError::Json(_))));
    }
}
