//! The checks of a user assertion's header and key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use claims::token::ASSERTION_TYPE;
use data_encoding::HEXLOWER_PERMISSIVE;

use super::case::{Case, Finding};
use super::error::AssertionError;
use domain::Certificate;

impl Case<'_, [Certificate]> {
    pub(super) fn typ(&self) -> Finding {
        let header = &self.assertion.jws.header;
        match &header.typ {
            None => Err(AssertionError::TypMissing),
            Some(typ) if header.has_type(ASSERTION_TYPE) => Ok(typ.clone()),
            Some(_) => Err(AssertionError::TypWrong),
        }
    }

    pub(super) fn algorithm(&self) -> Finding {
        match self.assertion.jws.header.alg.as_deref() {
            Some(alg) if alg == Algorithm::Rs256.name() => Ok(alg.to_owned()),
            _ => Err(AssertionError::Algorithm),
        }
    }

    pub(super) fn named_certificate(&self) -> Finding {
        let found = self.certificate()?;
        Ok(format!("{} (x5t {})", found.alias, found.x5t()))
    }

    pub(super) fn validity(&self) -> Finding {
        let is_valid = self.certificate()?.is_valid_at(self.now);
        let found = is_valid.then(|| "valid now".to_owned());
        found.ok_or(AssertionError::CertificateNotValid)
    }

    pub(super) fn signature(&self) -> Finding {
        let jws = &self.assertion.jws;
        let certificate = self.certificate()?;
        let is_signed = certificate.verifies(jws.signing_input.as_bytes(), &jws.signature);
        let found = is_signed.then(|| "the certificate's".to_owned());
        found.ok_or(AssertionError::Signature)
    }

    /// The certificate that the header names; never any certificate that happens to fit (protocol.md §2.3).
    fn certificate(&self) -> Result<&Certificate, AssertionError> {
        let (header, certificates) = (&self.assertion.jws.header, self.signer);
        let with_thumbprint = |x5t: &str| {
            let thumbprint = URL_SAFE_NO_PAD.decode(x5t.trim_end_matches('='));
            let thumbprint = thumbprint.unwrap_or_default();
            let mut certificates = certificates.iter();
            certificates
                .find(|certificate| certificate.sha1_thumbprint == thumbprint.as_slice())
                .ok_or_else(|| unknown_thumbprint(x5t))
        };
        let with_alias = |kid: &str| {
            let found = certificates.iter().find(|one| one.alias == kid);
            found.ok_or_else(|| unknown_alias(kid, certificates))
        };
        let by_thumbprint = header.x5t.as_deref().map(with_thumbprint).transpose()?;
        let by_alias = header.kid.as_deref().map(with_alias).transpose()?;
        let certificate = match (by_thumbprint, by_alias) {
            (Some(one), Some(other)) if one != other => return Err(AssertionError::KeysDiffer),
            (Some(certificate), _) | (None, Some(certificate)) => certificate,
            (None, None) => return Err(AssertionError::NoKeyNamed),
        };
        let own = certificate.sha256_thumbprint.map(|own| own.to_string());
        match own.zip(header.x5t_s256.as_deref()) {
            Some((own, named)) if own != named.trim_end_matches('=') => {
                Err(AssertionError::KeysDiffer)
            }
            _ => Ok(certificate),
        }
    }
}

/// Reads a SHA-1 thumbprint in hexadecimal digits, as printed by tools such as `openssl x509 -fingerprint`.
fn hexadecimal_thumbprint(text: &str) -> Option<Vec<u8>> {
    let digits = text.replace(':', "");
    let thumbprint = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
    (thumbprint.len() == 20).then_some(thumbprint)
}

fn unknown_thumbprint(x5t: &str) -> AssertionError {
    match hexadecimal_thumbprint(x5t) {
        Some(thumbprint) => AssertionError::ThumbprintInHex(URL_SAFE_NO_PAD.encode(thumbprint)),
        None => AssertionError::UnknownThumbprint,
    }
}

/// .NET's libraries write the thumbprint of the certificate into `kid`, which is the alias (protocol.md §2.3).
fn unknown_alias(kid: &str, certificates: &[Certificate]) -> AssertionError {
    let thumbprint = hexadecimal_thumbprint(kid).unwrap_or_default();
    let mut certificates = certificates.iter();
    match certificates.any(|certificate| certificate.sha1_thumbprint == thumbprint.as_slice()) {
        true => AssertionError::ThumbprintAsAlias(kid.to_owned()),
        false => AssertionError::UnknownAlias,
    }
}
