//! The certificates of non-interactive clients.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::describe::checks::unique;
use crate::describe::reading::{Completeness, Entry};
use crate::describe::shape::{Key, Record, Shape};
use crate::describe::value::Item;
use crate::describe::view::Derived;
use document::{Located, Place, Section};
use domain::certificate::CertificateState;
use domain::{Certificate, Client};

const ALIAS: Key = text("alias", "The certificateAlias, compared with `kid`.");

/// What a view shows of the certificates.
pub(super) const SHOWN: &[Derived<Client>] = &[Derived::new(
    Key::new(
        "certificates",
        "The certificates of the client's assertions.",
        Shape::List(&Shape::Record(view)),
    ),
    "Certificates",
    |client, moment| {
        let certificates = client.certificates().iter();
        let certificates: Vec<Value> = certificates
            .map(|certificate| Derived::object(CERTIFICATE, certificate, moment))
            .collect();
        (!certificates.is_empty()).then(|| certificates.into())
    },
)];

const CERTIFICATE: &[Derived<Certificate>] = &[
    Derived::nested(ALIAS, |certificate, _| Some(json!(certificate.alias))),
    Derived::nested(
        text(
            "x5t",
            "The SHA-1 thumbprint, base64url: compared with `x5t`.",
        ),
        |certificate, _| Some(json!(certificate.x5t())),
    ),
    Derived::nested(
        text("not_before", "First second of validity, RFC 3339."),
        |certificate, _| Some(json!(certificate.not_before.rfc3339())),
    ),
    Derived::nested(
        text("not_after", "Last second of validity, RFC 3339."),
        |certificate, _| Some(json!(certificate.not_after.rfc3339())),
    ),
    Derived::nested(
        text(
            "state",
            "`valid`, `expires_soon` (within 30 days), `expired` or `not_yet_valid`.",
        ),
        |certificate, moment| Some(json!(certificate.state(moment.now).name())),
    ),
];

const fn text(key: &'static str, help: &'static str) -> Key {
    Key::always(key, help, Shape::Text)
}

fn view() -> Record {
    Record {
        name: "CertificateView",
        help: "A certificate of a non-interactive client.",
        keys: Derived::keys(CERTIFICATE),
    }
}

/// A certificate as it is registered. A file may name the file of the certificate in place of its text.
fn registration() -> Record {
    Record {
        name: "CertificateRegistration",
        help: "A certificate of a non-interactive client.",
        keys: vec![ALIAS, text("pem", "The certificate.")],
    }
}

impl Item for Certificate {
    const SHAPE: Shape = Shape::Record(registration);

    fn text(&self) -> String {
        format!("{} (x5t {})", self.alias, self.x5t())
    }

    fn key(&self) -> String {
        self.alias.clone()
    }
}

pub(super) fn read(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<Vec<Certificate>> {
    if entry.reading.completeness == Completeness::Whole {
        entry.section.required(key);
    }
    let mut aliases = BTreeMap::new();
    let mut thumbprints = BTreeMap::new();
    let mut certificates = Vec::new();
    let sections = entry.section.sections(key);
    if entry.gives(key) && sections.is_empty() {
        let message = format!("{key}: at least one is needed");
        entry.section.report(entry.section.place(), message);
    }
    for mut section in sections {
        let alias = section.required_text("alias");
        if let Some(alias) = &alias {
            unique(&section, "alias", alias, &mut aliases);
        }
        let pem = pem(&mut section);
        if pem.as_ref().is_some_and(|(key, _)| *key == FILE) {
            entry.reading.rests_on_more();
        }
        if let (Some(alias), Some((key, pem))) = (alias, pem) {
            match Certificate::read(&alias.value, &pem.value) {
                Ok(certificate) => {
                    let x5t = Located {
                        value: certificate.x5t(),
                        place: pem.place,
                    };
                    let what = "certificate with the thumbprint";
                    unique(&section, what, &x5t, &mut thumbprints);
                    warn_of_validity(entry, &certificate, &x5t.place);
                    certificates.push(certificate);
                }
                Err(error) => section.report(&pem.place, format!("{key}: {error}")),
            }
        }
        section.finish();
    }
    Some(certificates)
}

/// Only warns, because the clock may be wrong, and a certificate may be registered before its validity starts. Each use
/// checks the validity (D-10).
fn warn_of_validity(entry: &mut Entry<'_, '_>, certificate: &Certificate, place: &Place) {
    let alias = &certificate.alias;
    let message = match certificate.state(entry.reading.now) {
        CertificateState::Valid => return,
        CertificateState::Expired => {
            format!("the certificate {alias} has expired; assertions signed with it are refused")
        }
        CertificateState::ExpiresSoon => {
            format!("the certificate {alias} expires within 30 days; register its successor")
        }
        CertificateState::NotYetValid => format!("the certificate {alias} is not valid yet"),
    };
    entry.reading.warn(place, message);
}

/// The key of the file of a certificate.
const FILE: &str = "file";

/// The PEM text of a certificate, and the key that it was read from.
fn pem(section: &mut Section<'_>) -> Option<(&'static str, Located<Vec<u8>>)> {
    if !section.has("file") && !section.has("pem") {
        section.report(section.place(), "file or pem is missing");
    }
    if matches!(section.place(), Place::Json(_)) {
        section.refuse(
            "file",
            "the administration reads no files; send the text of the certificate in pem",
        );
    }
    let file = section.text("file");
    let inline = section.text("pem");
    match (file, inline) {
        (Some(_), Some(inline)) => {
            section.report(&inline.place, "pem: file is there too; keep one of the two");
            None
        }
        (Some(Located { value, place }), None) => match std::fs::read(place.resolve(&value)) {
            Ok(value) => Some((FILE, Located { value, place })),
            Err(error) => {
                section.report(&place, format!("file: {value} cannot be read: {error}"));
                None
            }
        },
        (None, inline) => inline.map(|Located { value, place }| {
            let value = value.into_bytes();
            ("pem", Located { value, place })
        }),
    }
}
