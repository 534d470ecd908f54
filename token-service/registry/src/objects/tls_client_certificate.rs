//! The certificates with which clients authenticate their connections (protocol.md §5.14).

use std::collections::BTreeMap;

use crate::describe::checks::unique;
use crate::describe::reading::Entry;
use claims::Thumbprint;
use document::Located;

pub(super) const KEY: &str = "tls_client_certificates";

/// Reads the thumbprints, in the forms that tools print.
pub(super) fn read(entry: &mut Entry<'_, '_>) -> Vec<Thumbprint> {
    let texts = entry.section.texts(KEY).unwrap_or_default();
    let (mut seen, mut read) = (BTreeMap::new(), Vec::new());
    for Located { value, place } in texts {
        let Some(thumbprint) = thumbprint(&value) else {
            let message = format!(
                "{KEY}: {value:?} is not the SHA-256 of a certificate: 64 hexadecimal digits, or 43 characters of base64url; \
                 openssl x509 -in FILE -noout -fingerprint -sha256 prints it"
            );
            entry.section.report(&place, message);
            continue;
        };
        let value = thumbprint.to_string();
        unique(&entry.section, KEY, &Located { value, place }, &mut seen);
        read.push(thumbprint);
    }
    read
}

/// Reads base64url (RFC 8705 §3.1), or hexadecimal digits with or without colons.
fn thumbprint(text: &str) -> Option<Thumbprint> {
    let hexadecimal = || Thumbprint::parse_hexadecimal(text.replace(':', "").as_bytes());
    Thumbprint::parse(text).or_else(hexadecimal)
}
