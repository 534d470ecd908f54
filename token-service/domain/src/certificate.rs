//! The X.509 certificates of non-interactive clients (protocol.md §2.3).

use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Thumbprint;
use claims::json::unmarked;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use der::asn1::{AnyRef, BitStringRef, GeneralizedTime, ObjectIdentifier, UtcTime};
use der::{Decode as _, Encode as _, Sequence, Tag, Tagged as _};
use pkcs1::RsaPublicKey;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use spki::SubjectPublicKeyInfoRef;
use strum::IntoStaticStr;

use crate::clock::Timestamp;

/// Accepted sizes of an RSA modulus, in bits (D-10). Smaller keys are weak; larger keys let a client cause expensive
/// verifications.
pub const RSA_KEY_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// The first byte of every DER certificate. No PEM text starts with it.
pub const DER_SEQUENCE: u8 = 0x30;

/// `rsaEncryption`, the object identifier of RSA keys (RFC 3279 §2.3.1).
pub(crate) const RSA_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

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
    /// SHA-256 of the DER certificate. An `x5t#S256` of an assertion is compared with it. `None` if an earlier version registered
    /// the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256_thumbprint: Option<Thumbprint>,
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
        let bytes = unmarked(bytes);
        let der = if bytes.first() == Some(&DER_SEQUENCE) {
            bytes.to_vec()
        } else {
            only_certificate(bytes)?
        };
        let X509 { fields, .. } = X509::from_der(&der).map_err(|_| CertificateError::NotX509)?;
        let time = |time| timestamp(time).map_err(|_| CertificateError::NotX509);
        let not_before = time(fields.validity.not_before)?;
        let not_after = time(fields.validity.not_after)?;
        let public_key = fields.public_key;
        if public_key.algorithm.oid != RSA_KEY {
            return Err(CertificateError::NotRsa);
        }
        let rsa = read_rsa(&public_key).map_err(|_| CertificateError::UnusableKey)?;
        check_rsa(rsa.modulus.as_bytes(), rsa.public_exponent.as_bytes())?;
        let public_key_der = public_key
            .to_der()
            .map_err(|_| CertificateError::UnusableKey)?;
        ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &public_key_der)
            .map_err(|_| CertificateError::UnusableKey)?;
        if not_after < not_before {
            return Err(CertificateError::Validity);
        }
        Ok(Self {
            alias: alias.to_owned(),
            sha1_thumbprint: Sha1::digest(&der).into(),
            sha256_thumbprint: Some(Thumbprint::of(&der)),
            public_key_der,
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

/// An X.509 certificate of any version (RFC 5280 §4.1). What the service does not read may hold anything: authorities have issued
/// negative and long serial numbers, and names that RFC 5280 does not allow.
#[derive(Sequence)]
struct X509<'a> {
    fields: Fields<'a>,
    signature_algorithm: AnyRef<'a>,
    signature: BitStringRef<'a>,
}

/// `TBSCertificate`.
#[derive(Sequence)]
struct Fields<'a> {
    #[asn1(context_specific = "0", optional = "true")]
    version: Option<AnyRef<'a>>,
    serial_number: AnyRef<'a>,
    signature_algorithm: AnyRef<'a>,
    issuer: AnyRef<'a>,
    validity: Validity<'a>,
    subject: AnyRef<'a>,
    public_key: SubjectPublicKeyInfoRef<'a>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    issuer_id: Option<BitStringRef<'a>>,
    #[asn1(context_specific = "2", tag_mode = "IMPLICIT", optional = "true")]
    subject_id: Option<BitStringRef<'a>>,
    #[asn1(context_specific = "3", optional = "true")]
    extensions: Option<AnyRef<'a>>,
}

#[derive(Sequence)]
struct Validity<'a> {
    not_before: AnyRef<'a>,
    not_after: AnyRef<'a>,
}

/// Reads a time (RFC 5280 §4.1.2.5). The years 1950 to 1969, which `der` does not read, become 1970.
fn timestamp(time: AnyRef<'_>) -> der::Result<Timestamp> {
    let since_1970 = match (time.tag(), time.value()) {
        (Tag::UtcTime, [b'5' | b'6', digits @ .., b'Z'])
            if digits.len() == 11 && digits.iter().all(u8::is_ascii_digit) =>
        {
            Duration::ZERO
        }
        (Tag::UtcTime, _) => UtcTime::try_from(time)?.to_unix_duration(),
        _ => GeneralizedTime::try_from(time)?.to_unix_duration(),
    };
    Ok(Timestamp::from_seconds(since_1970.as_secs()))
}

/// Reads the RSA key in `key`, whose algorithm is [`RSA_KEY`].
pub(crate) fn read_rsa<'a>(key: &SubjectPublicKeyInfoRef<'a>) -> der::Result<RsaPublicKey<'a>> {
    RsaPublicKey::from_der(key.subject_public_key.as_bytes().unwrap_or_default())
}

fn only_certificate(pem: &[u8]) -> Result<Vec<u8>, CertificateError> {
    if holds_private_key(pem) {
        return Err(CertificateError::PrivateKey);
    }
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates
        .map_err(|_| CertificateError::NotPem)?
        .as_slice()
    {
        [certificate] => Ok(certificate.to_vec()),
        [] => Err(CertificateError::NotPem),
        _ => Err(CertificateError::Several),
    }
}

/// True if a private key begins in `pem`: in any form, also encrypted.
pub(crate) fn holds_private_key(pem: &[u8]) -> bool {
    pem.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| {
        let line = line.trim_ascii_end();
        line.starts_with(b"-----BEGIN ") && line.ends_with(b"PRIVATE KEY-----")
    })
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
        use rustls_pki_types::PrivatePkcs8KeyDer;

        let key = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
        let pair = KeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
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
        assert!(read(&CERTIFICATE.replace('\n', " \r\n")).is_ok());
        let damaged = CERTIFICATE.replacen("MII", "MIJ", 1);
        use CertificateError as E;
        for (pem, error) in [
            (String::new(), E::NotPem),
            ("not a certificate".into(), E::NotPem),
            (format!("{CERTIFICATE}{CERTIFICATE}"), E::Several),
            (KEY.into(), E::PrivateKey),
            (format!("{CERTIFICATE}{KEY}"), E::PrivateKey),
            (KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), E::PrivateKey),
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

    fn any(tag: Tag, value: &[u8]) -> AnyRef<'_> {
        AnyRef::new(tag, value).unwrap()
    }

    /// Authorities have issued all of these. The signature, which nothing checks, does not fit.
    #[test]
    fn certificates_of_any_version_serial_number_and_name() {
        let changes: [fn(&mut Fields<'_>); 7] = [
            |v1| (v1.version, v1.extensions) = (None, None),
            |v2| {
                v2.version = Some(any(Tag::Integer, &[1]));
                v2.issuer_id = Some(BitStringRef::from_bytes(&[7]).unwrap());
                v2.extensions = None;
            },
            |negative| negative.serial_number = any(Tag::Integer, &[0x80]),
            |padded| padded.serial_number = any(Tag::Integer, &[0, 0, 1]),
            |long| long.serial_number = any(Tag::Integer, &[0x7f; 32]),
            |nameless| nameless.subject = any(Tag::Sequence, &[]),
            // A common name as BMPString.
            |bmp| {
                let name = b"\x31\x0d\x30\x0b\x06\x03\x55\x04\x03\x1e\x04\x00a\x00b";
                bmp.subject = any(Tag::Sequence, name);
            },
        ];
        let der = only_certificate(CERTIFICATE.as_bytes()).unwrap();
        let known = read(CERTIFICATE).unwrap();
        for (number, change) in changes.into_iter().enumerate() {
            let mut x509 = X509::from_der(&der).unwrap();
            change(&mut x509.fields);
            let changed = x509.to_der().unwrap();
            assert_ne!(changed, der);
            let certificate = Certificate::read("alias", &changed);
            let certificate = certificate.unwrap_or_else(|error| panic!("{number}: {error}"));
            assert_eq!(certificate.public_key_der, known.public_key_der);
            assert_eq!(certificate.not_after, known.not_after);
            let trailing = [changed.as_slice(), &[0]].concat();
            let read = Certificate::read("alias", &trailing);
            assert_eq!(read, Err(CertificateError::NotX509), "{number}");
        }
    }

    #[test]
    fn rfc5280_times_of_certificates() {
        for (tag, text, seconds) in [
            (Tag::UtcTime, "491231235959Z", 2_524_607_999),
            (Tag::UtcTime, "500101000000Z", 0),
            (Tag::UtcTime, "691231235959Z", 0),
            (Tag::UtcTime, "700101000001Z", 1),
            (Tag::GeneralizedTime, "20500101000000Z", 2_524_608_000),
            (Tag::GeneralizedTime, "99991231235959Z", 253_402_300_799),
        ] {
            let time = timestamp(any(tag, text.as_bytes()));
            assert_eq!(time, Ok(Timestamp::from_seconds(seconds)), "{text}");
        }
        for (tag, text) in [
            (Tag::UtcTime, ""),
            (Tag::UtcTime, "2001010000Z"),
            (Tag::UtcTime, "50garbage"),
            (Tag::UtcTime, "5001010000Z"),
            (Tag::UtcTime, "50010100000aZ"),
            (Tag::UtcTime, "190229000000Z"),
            (Tag::GeneralizedTime, "20500101000000.5Z"),
            (Tag::Integer, "20500101000000Z"),
        ] {
            assert!(timestamp(any(tag, text.as_bytes())).is_err(), "{text}");
        }
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
