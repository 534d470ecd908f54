//! JWTs that this program signs as a client: with a private key in a file.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::Algorithm;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use domain::clock::Timestamp;
use domain::random::{self, Random};
use protocol::token::SigningKey;
use secrets::text_file;

/// What a client signs in place of its secret (RFC 7523 §3).
#[derive(Debug)]
pub(crate) struct ClientAssertion<'a> {
    pub client_id: &'a str,
    pub kid: Option<&'a str>,
    pub audience: &'a str,
    pub lifetime: Duration,
}

impl ClientAssertion<'_> {
    /// The assertion in its compact form.
    pub(crate) fn sign(
        &self,
        key: &SigningKey,
        now: Timestamp,
        random: &dyn Random,
    ) -> anyhow::Result<String> {
        let mut header = json!({"typ": "client-authentication+jwt", "alg": key.algorithm().name()});
        if let Some(kid) = self.kid {
            header["kid"] = json!(kid);
        }
        let claims = json!({
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self.audience,
            "jti": random::text::<16>(random)?,
            "iat": now.seconds(),
            "exp": (now + self.lifetime).seconds(),
        });
        compact(key, &header, &claims)
    }
}

/// A JWT in its compact form.
pub(crate) fn compact(key: &SigningKey, header: &Value, claims: &Value) -> anyhow::Result<String> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let input = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(input.as_bytes())?);
    Ok(format!("{input}.{signature}"))
}

/// Reads a private key of any algorithm from a PEM file, or from standard input.
pub(crate) fn read_key(path: &Path) -> anyhow::Result<SigningKey> {
    let kinds = "Ed25519, P-256, or RSA of 2048 to 8192 bits";
    let make = "`openssl genpkey -algorithm ED25519` makes one";
    let pkcs8 = private_key(path, kinds, make)?;
    let mut algorithms = Algorithm::ALL.into_iter();
    let key = algorithms.find_map(|algorithm| SigningKey::from_pkcs8(algorithm, &pkcs8).ok());
    key.with_context(|| {
        let file = path.display();
        format!("{file}: the private key is of another kind: expected {kinds}; {make}")
    })
}

/// The start of a section with a private key.
const BEGIN_KEY: &str = "PRIVATE KEY-----";

/// Reads the one private key in a PEM file, or in standard input, as PKCS #8 (RFC 7468 §10). Text and certificates around the key
/// are ignored. `kinds` names the keys that the caller can use, and `make` a command that makes one.
pub(crate) fn private_key(
    path: &Path,
    kinds: &str,
    make: &str,
) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let file = path.display();
    let pem = text_file::bytes(path).with_context(|| file.to_string())?;
    let lines = pem.split(|byte| matches!(byte, b'\n' | b'\r'));
    let labels = lines.filter_map(|line| {
        let line = str::from_utf8(line).ok()?.trim_ascii_end();
        line.strip_prefix("-----BEGIN ")?.strip_suffix(BEGIN_KEY)
    });
    let labels: Vec<&str> = labels.collect();
    match labels[..] {
        [""] => {}
        [] => anyhow::bail!(
            "{file}: expected a private key in PEM (BEGIN PRIVATE KEY): {kinds}; {make}"
        ),
        [other] => anyhow::bail!(
            "{file}: has BEGIN {other}PRIVATE KEY, expected BEGIN PRIVATE KEY: \
             `openssl pkcs8 -topk8 -nocrypt -in {file}` converts it"
        ),
        [_, _, ..] => anyhow::bail!("{file}: has {} private keys, expected one", labels.len()),
    }
    let mut keys = PrivatePkcs8KeyDer::pem_slice_iter(&pem);
    // The secret is erased with its type, and only here has a copy.
    let key = keys.find_map(Result::ok);
    key.map(|key| Zeroizing::new(key.secret_pkcs8_der().to_vec()))
        .with_context(|| {
            format!("{file}: the private key is damaged: its lines are not base64, or its end is missing")
        })
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use claims::json::BYTE_ORDER_MARK;

    use super::*;

    /// RFC 7468 §2: text around the sections and blanks at the ends of lines mean nothing.
    #[test]
    fn one_private_key_is_read_whatever_is_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let pkcs8 = SigningKey::generate_pkcs8(Algorithm::EdDsa).unwrap();
        let section = |label: &str, content: &str| {
            format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n")
        };
        let base64 = STANDARD.encode(&*pkcs8);
        let key = section("PRIVATE KEY", &base64);
        let certificate = section("CERTIFICATE", "AAAA");
        for text in [
            key.clone(),
            format!("{BYTE_ORDER_MARK}{key}"),
            format!("# the key of gatepass\n{key}"),
            format!(
                "Bag Attributes\n    friendlyName: gatepass\nKey Attributes: <No Attributes>\n{key}"
            ),
            format!("\r\n{}end of the key", key.replace('\n', " \r\n")),
            format!("{certificate}{key}"),
            format!("{key}{certificate}"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let read = read_key(&path).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.algorithm(), Algorithm::EdDsa);
        }
        // A comment in Latin-1.
        std::fs::write(&path, [b"M\xfcller\n", key.as_bytes()].concat()).unwrap();
        assert!(read_key(&path).is_ok());
        for (text, problem) in [
            (String::new(), "expected a private key in PEM"),
            (certificate, "expected a private key in PEM"),
            (format!("{key}{key}"), "has 2 private keys"),
            (
                section("ENCRYPTED PRIVATE KEY", &base64),
                "has BEGIN ENCRYPTED PRIVATE KEY",
            ),
            (section("RSA PRIVATE KEY", &base64), "openssl pkcs8 -topk8"),
            (section("PRIVATE KEY", "AAAA"), "of another kind"),
            (section("PRIVATE KEY", "?"), "damaged"),
            (key.replace("-----END", ""), "damaged"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let error = read_key(&path).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
