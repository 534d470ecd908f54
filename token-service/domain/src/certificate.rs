//! The X.509 certificates of non-interactive clients (protocol.md §2.3).

use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::json::BYTE_ORDER_MARK;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use strum::IntoStaticStr;
use x509_parser::pem::Pem;
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;

use crate::clock::Timestamp;

/// Accepted sizes of an RSA modulus, in bits (D-10). Smaller keys are weak; larger keys let a client cause expensive
/// verifications.
pub const RSA_KEY_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// The first byte of every DER certificate. No PEM text starts with it.
const DER_SEQUENCE: u8 = 0x30;

/// How long before its expiry a certificate counts as [`CertificateState::ExpiresSoon`].
const WARN_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub const MAX_ALIAS_LENGTH: usize = 255;

/// An uploaded certificate: the parts that assertions need, extracted at registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The certificateAlias. The `kid` of an assertion is compared with it.
    pub alias: String,
    /// SHA-1 of the DER certificate. The decoded `x5t` of an assertion is compared with it. An identifier, not a proof.
    pub sha1_thumbprint: [u8; 20],
    /// The RSA public key as SubjectPublicKeyInfo, DER. 2048 to 4096 bits.
    pub public_key_der: Vec<u8>,
    /// First second of validity.
    pub not_before: Timestamp,
    /// Last second of validity.
    pub not_after: Timestamp,
    /// The parsed key, cached after the first use.
    #[serde(skip)]
    pub parsed: ParsedKey,
}

impl Certificate {
    /// True if `signature` is an RS256 signature over `message` by the key of this certificate.
    ///
    /// Uses aws-lc-rs with a key that is parsed once, because jwt-simple takes 170 us per RS256 verification: more
    /// than the CPU time of a whole JWT bearer request (96 us).
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = self.parsed.0.get_or_init(|| {
            ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key_der).ok()
        });
        key.as_ref()
            .is_some_and(|key| key.verify_sig(message, signature).is_ok())
    }
}

/// State of a certificate's validity period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CertificateState {
    NotYetValid,
    Valid,
    /// Less than 30 days remain.
    ExpiresSoon,
    Expired,
}

impl CertificateState {
    /// The state of a certificate that is valid already.
    pub fn by_expiry(not_after: Timestamp, now: Timestamp) -> Self {
        if not_after < now {
            Self::Expired
        } else if not_after < now + WARN_BEFORE {
            Self::ExpiresSoon
        } else {
            Self::Valid
        }
    }

    /// The value in lists.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// A cached key, parsed from its DER at the first use after the registry is read. The cache adds nothing to the
/// certificate, so all values are equal.
#[derive(Clone, Default)]
pub struct ParsedKey(OnceLock<Option<ParsedPublicKey>>);

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

/// Why a certificate cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("an alias has 1 to {MAX_ALIAS_LENGTH} characters, none of them a control character")]
    Alias,
    #[error("no PEM block \"CERTIFICATE\" in it")]
    NotPem,
    /// The input contains a private key. Private keys must stay with the integrator.
    #[error(
        "holds a private key; register only the certificate, and treat that key as known to others"
    )]
    PrivateKey,
    /// Several certificates. Choosing one would be a guess.
    #[error("holds more than one certificate; register each under its own alias")]
    Several,
    #[error("is not an X.509 certificate")]
    NotX509,
    /// Assertions are signed with RS256 (protocol.md §2.3).
    #[error("its key is not an RSA key; assertions are signed with RS256")]
    NotRsa,
    #[error("its RSA key has {0} bits; 2048 to 4096 are accepted")]
    KeySize(usize),
    #[error("its RSA key is not usable")]
    UnusableKey,
    #[error("it ends before it begins")]
    Validity,
}

impl From<RsaKeyError> for CertificateError {
    fn from(error: RsaKeyError) -> Self {
        match error {
            RsaKeyError::Size(bits) => Self::KeySize(bits),
            RsaKeyError::Exponent => Self::UnusableKey,
        }
    }
}

impl Certificate {
    /// Reads the one certificate in `bytes`, PEM or DER. Does not check the signature: a certificate is trusted because
    /// it was registered (protocol.md §2.3), self-signed or not. Does not check the validity either: each use checks
    /// it.
    pub fn read(alias: &str, bytes: &[u8]) -> Result<Self, CertificateError> {
        let legal =
            (1..=MAX_ALIAS_LENGTH).contains(&alias.len()) && !alias.chars().any(char::is_control);
        if !legal {
            return Err(CertificateError::Alias);
        }
        let text = bytes.strip_prefix(BYTE_ORDER_MARK.as_bytes());
        let bytes = text.unwrap_or(bytes);
        let der = if bytes.first() == Some(&DER_SEQUENCE) {
            bytes.to_vec()
        } else {
            only_certificate(bytes)?
        };
        let (rest, certificate) =
            x509_parser::parse_x509_certificate(&der).map_err(|_| CertificateError::NotX509)?;
        if !rest.is_empty() {
            return Err(CertificateError::NotX509);
        }
        let public_key = certificate.public_key();
        let Ok(PublicKey::RSA(rsa)) = public_key.parsed() else {
            return Err(CertificateError::NotRsa);
        };
        check_rsa(rsa.modulus, rsa.exponent)?;
        ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public_key.raw)
            .map_err(|_| CertificateError::UnusableKey)?;
        let validity = certificate.validity();
        let (not_before, not_after) = (
            timestamp(validity.not_before),
            timestamp(validity.not_after),
        );
        if not_after < not_before {
            return Err(CertificateError::Validity);
        }
        Ok(Self {
            alias: alias.to_owned(),
            sha1_thumbprint: Sha1::digest(&der).into(),
            public_key_der: public_key.raw.to_vec(),
            not_before,
            not_after,
            parsed: ParsedKey::default(),
        })
    }

    /// The `x5t` of this certificate in assertions: base64url without padding, 27 characters.
    pub fn x5t(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.sha1_thumbprint)
    }

    pub fn state(&self, now: Timestamp) -> CertificateState {
        if now < self.not_before {
            CertificateState::NotYetValid
        } else {
            CertificateState::by_expiry(self.not_after, now)
        }
    }

    /// True within the validity period, both ends included (RFC 5280 §4.1.2.5).
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}

fn only_certificate(pem: &[u8]) -> Result<Vec<u8>, CertificateError> {
    let mut certificates = Vec::new();
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|_| CertificateError::NotPem)?;
        match block.label.as_str() {
            "CERTIFICATE" => certificates.push(block.contents),
            label if label.ends_with("PRIVATE KEY") => return Err(CertificateError::PrivateKey),
            _ => {}
        }
    }
    match (certificates.pop(), certificates.is_empty()) {
        (Some(certificate), true) => Ok(certificate),
        (Some(_), false) => Err(CertificateError::Several),
        (None, _) => Err(CertificateError::NotPem),
    }
}

/// Why an RSA key is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RsaKeyError {
    /// The size of the modulus is not among [`RSA_KEY_BITS`].
    Size(usize),
    Exponent,
}

/// Checks the size of `modulus`, and `exponent`; both are big endian.
pub(crate) fn check_rsa(modulus: &[u8], exponent: &[u8]) -> Result<(), RsaKeyError> {
    let bits = bit_length(modulus);
    if !RSA_KEY_BITS.contains(&bits) {
        return Err(RsaKeyError::Size(bits));
    }
    // With an exponent of 1 anybody could sign. No valid key has an even exponent (RFC 8017 §3.1).
    let digits = without_leading_zeros(exponent);
    let is_odd = digits.last().is_some_and(|last| last % 2 == 1);
    if is_odd && digits != [1] && digits.len() <= size_of::<u64>() {
        Ok(())
    } else {
        Err(RsaKeyError::Exponent)
    }
}

pub(crate) fn without_leading_zeros(big_endian: &[u8]) -> &[u8] {
    let is_digit = |byte: &u8| *byte != 0;
    let start = big_endian.iter().position(is_digit);
    start
        .and_then(|start| big_endian.get(start..))
        .unwrap_or_default()
}

fn bit_length(big_endian: &[u8]) -> usize {
    let digits = without_leading_zeros(big_endian);
    digits
        .first()
        .map_or(0, |first| digits.len() * 8 - first.leading_zeros() as usize)
}

fn timestamp(time: ASN1Time) -> Timestamp {
    Timestamp::from_seconds(time.timestamp().try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = include_str!("../../../demo/non-interactive-demo.cert.pem");
    const KEY: &str = include_str!("../../../demo/non-interactive-demo.key.pem");

    fn read(pem: &str) -> Result<Certificate, CertificateError> {
        Certificate::read("alias", pem.as_bytes())
    }

    /// The thumbprint that `openssl x509 -fingerprint -sha1` prints.
    #[test]
    fn reads_what_openssl_made() {
        let certificate = read(CERTIFICATE).unwrap();
        let thumbprint: String = certificate
            .sha1_thumbprint
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        assert_eq!(thumbprint, "E9B6510A545A543A06A2BEDCC972B7CD1B918AEC");
        assert_eq!(certificate.x5t().len(), 27);
        assert_eq!(
            URL_SAFE_NO_PAD.decode(certificate.x5t()).unwrap(),
            certificate.sha1_thumbprint
        );
        // 2020-01-01T00:00:00Z and 2119-12-31T23:59:59Z.
        let (first, last) = (1_577_836_800, 4_733_510_399);
        for (second, valid) in [
            (first - 1, false),
            (first, true),
            (last, true),
            (last + 1, false),
        ] {
            let now = Timestamp::from_seconds(second);
            assert_eq!(certificate.is_valid_at(now), valid, "{second}");
        }
    }

    /// The extracted key verifies what the private key signed.
    #[test]
    fn the_public_key_belongs_to_the_private_key() {
        use aws_lc_rs::rsa::KeyPair;
        use aws_lc_rs::signature::RSA_PKCS1_SHA256;

        let pem = Pem::iter_from_buffer(KEY.as_bytes())
            .next()
            .unwrap()
            .unwrap();
        let pair = KeyPair::from_pkcs8(&pem.contents).unwrap();
        let mut signature = vec![0; pair.public_modulus_len()];
        let random = aws_lc_rs::rand::SystemRandom::new();
        pair.sign(&RSA_PKCS1_SHA256, &random, b"message", &mut signature)
            .unwrap();
        let certificate = read(CERTIFICATE).unwrap();
        assert!(certificate.verifies(b"message", &signature));
        assert!(!certificate.verifies(b"massage", &signature));
    }

    #[test]
    fn exactly_one_certificate_and_nothing_secret() {
        let text_around = format!("subject=CN = x\n{CERTIFICATE}trailing text\n");
        assert!(read(&text_around).is_ok());
        assert!(read(&format!("\u{feff}{CERTIFICATE}")).is_ok());
        let damaged = CERTIFICATE.replacen("MII", "MIJ", 1);
        use CertificateError as E;
        for (pem, error) in [
            (String::new(), E::NotPem),
            ("not a certificate".into(), E::NotPem),
            (format!("{CERTIFICATE}{CERTIFICATE}"), E::Several),
            (KEY.into(), E::PrivateKey),
            (format!("{CERTIFICATE}{KEY}"), E::PrivateKey),
            (damaged, E::NotX509),
            (CERTIFICATE.replace("END", "EMD"), E::NotPem),
        ] {
            assert_eq!(read(&pem), Err(error));
        }
        for alias in ["", "a\nb"] {
            let read = Certificate::read(alias, CERTIFICATE.as_bytes());
            assert_eq!(read, Err(E::Alias));
        }
    }

    /// The script in the same folder made the files.
    #[test]
    fn only_rsa_keys_of_2048_to_4096_bits() {
        use CertificateError as E;
        for (pem, error) in [
            (include_str!("testdata/rsa-1024.pem"), E::KeySize(1024)),
            (include_str!("testdata/rsa-2047.pem"), E::KeySize(2047)),
            (include_str!("testdata/rsa-4104.pem"), E::KeySize(4104)),
            (include_str!("testdata/ed25519.pem"), E::NotRsa),
            (include_str!("testdata/rsa-pss.pem"), E::NotRsa),
        ] {
            assert_eq!(read(pem), Err(error));
        }
        assert!(read(include_str!("testdata/rsa-4096.pem")).is_ok());
    }

    /// With an exponent of 1 anybody could sign.
    #[test]
    fn an_exponent_is_odd_and_not_1() {
        let modulus = [0xff; 256];
        for good in [&[3][..], &[1, 0, 1], &[0, 3]] {
            assert_eq!(check_rsa(&modulus, good), Ok(()));
        }
        for bad in [&[][..], &[0], &[1], &[0, 1], &[2], &[1; 9]] {
            assert_eq!(check_rsa(&modulus, bad), Err(RsaKeyError::Exponent));
        }
    }

    #[test]
    fn bits_are_counted_without_leading_zeros() {
        assert_eq!(bit_length(&[]), 0);
        assert_eq!(bit_length(&[0, 0]), 0);
        assert_eq!(bit_length(&[1]), 1);
        assert_eq!(bit_length(&[0, 0x80, 0]), 16);
        assert_eq!(bit_length(&[0x7f, 0]), 15);
    }
}
