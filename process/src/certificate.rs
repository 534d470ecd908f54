//! The client's certificate, as a gateway hands it over: the certificate itself or its digest, in the forms that gateways can
//! write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use claims::Thumbprint;
use percent_encoding::percent_decode;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Why a certificate that came cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The form of RFC 9440.
    ClientCert,
    /// The form of Envoy's `x-forwarded-client-cert`.
    ForwardedClientCert,
    Other,
    /// The header came more than once.
    Repeated,
}

impl Unreadable {
    /// The reason for a value that is no certificate in a form that [`read`] knows.
    fn of(value: &[u8]) -> Self {
        // What an element of Envoy's header begins with.
        const MEMBERS: [&[u8]; 7] = [
            b"by=",
            b"hash=",
            b"cert=",
            b"chain=",
            b"subject=",
            b"uri=",
            b"dns=",
        ];
        let value = value.to_ascii_lowercase();
        if value.starts_with(b":") {
            Self::ClientCert
        } else if MEMBERS.iter().any(|member| value.starts_with(member)) {
            Self::ForwardedClientCert
        } else {
            Self::Other
        }
    }

    /// A sentence about the certificate, or the header.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ClientCert => "it is in the form of RFC 9440 (Client-Cert)",
            Self::ForwardedClientCert => "it is in the form of Envoy's x-forwarded-client-cert",
            Self::Other => {
                "it is neither PEM, nor DER in base64, nor a SHA-256 in hexadecimal digits"
            }
            Self::Repeated => "the header came more than once",
        }
    }
}

/// The first byte of a certificate in DER (X.690 §8.9).
const SEQUENCE: u8 = 0x30;

/// What marks a certificate in PEM (RFC 7468 §5.1).
const PEM: &[u8] = b"-----BEGIN";

/// What may stand before a digest, so that the value is not empty where there is no certificate: Envoy replaces no header with
/// an empty value.
const DIGEST: &[u8] = b"sha256:";

/// Reads the value of the header: 64 hexadecimal digits, which are the SHA-256 of the certificate; PEM; or DER in base64.
/// `sha256:` may stand before the digits. The latter two may be percent-encoded, and further certificates of the chain may
/// follow: the first one counts. `None` if nothing is there, or nothing but `sha256:`: the client has shown no certificate.
///
/// # Errors
/// [`Unreadable`] for every other value.
pub fn read(value: &[u8]) -> Result<Option<Thumbprint>, Unreadable> {
    let value = value.trim_ascii();
    let (value, is_digest) = match value.strip_prefix(DIGEST) {
        Some(digits) => (digits, true),
        None => (value, false),
    };
    if value.is_empty() {
        return Ok(None);
    }
    if let Some(digest) = Thumbprint::parse_hexadecimal(value) {
        // Some gateways write this for no certificate.
        return Ok(Some(digest).filter(|digest| *digest != Thumbprint::of(b"")));
    }
    if is_digest {
        return Err(Unreadable::Other);
    }
    let text: Vec<u8> = percent_decode(value).collect();
    let der = if text.starts_with(PEM) {
        let certificate =
            CertificateDer::from_pem_slice(&text).map_err(|_| Unreadable::of(value))?;
        certificate.to_vec()
    } else {
        // Traefik writes a chain with commas.
        let first = text.split(|byte| *byte == b',').next().unwrap_or_default();
        STANDARD.decode(first).map_err(|_| Unreadable::of(value))?
    };
    if der.first() != Some(&SEQUENCE) {
        return Err(Unreadable::Other);
    }
    Ok(Some(Thumbprint::of(&der)))
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

    use super::*;

    #[test]
    fn every_form_of_a_certificate_has_one_digest() {
        let certificate = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
        let der = certificate.cert.der();
        let digest = Thumbprint::of(der);
        let pem = certificate.cert.pem();
        let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
        let chain = format!("{pem}{}", other.cert.pem());
        let base64 = STANDARD.encode(der);
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        for value in [
            data_encoding::HEXLOWER.encode(digest.as_bytes()),
            data_encoding::HEXUPPER.encode(digest.as_bytes()),
            format!(
                "sha256:{}",
                data_encoding::HEXLOWER.encode(digest.as_bytes())
            ),
            encoded(&pem),
            encoded(&chain),
            base64.clone(),
            encoded(&base64),
            format!("{base64},{}", STANDARD.encode(other.cert.der())),
            format!(" {base64} "),
        ] {
            assert_eq!(read(value.as_bytes()), Ok(Some(digest)), "{value}");
        }
    }

    #[test]
    fn no_certificate_is_an_empty_value_or_the_digest_of_nothing() {
        let nothing = data_encoding::HEXLOWER.encode(Thumbprint::of(b"").as_bytes());
        for value in ["", " ", "sha256:", &nothing] {
            assert_eq!(read(value.as_bytes()), Ok(None), "{value}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let digest = data_encoding::HEXLOWER.encode(&[7; 32]);
        for value in [
            "-",
            "none",
            "(null)",
            "{http.request.tls.client.fingerprint}",
            "-----BEGIN CERTIFICATE-----",
            "-----BEGIN%20CERTIFICATE-----%0AAAAA%0A",
            "sha256",
            "sha256:-",
            &format!("sha256:sha256:{digest}"),
            &format!("sha256:{}", STANDARD.encode([SEQUENCE; 32])),
            &format!("{digest}{digest}, x"),
        ] {
            assert_eq!(read(value.as_bytes()), Err(Unreadable::Other), "{value}");
        }
        let base64 = STANDARD.encode([SEQUENCE; 32]);
        for (value, reason) in [
            (format!(":{base64}:"), Unreadable::ClientCert),
            (
                format!("Hash={digest};Subject=\"CN=a\""),
                Unreadable::ForwardedClientCert,
            ),
            (
                format!("By=spiffe://a;Hash={digest}"),
                Unreadable::ForwardedClientCert,
            ),
        ] {
            assert_eq!(read(value.as_bytes()), Err(reason), "{value}");
        }
    }
}
