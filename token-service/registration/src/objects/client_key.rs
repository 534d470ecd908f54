//! The keys with which clients sign client assertions (protocol.md §5.12).

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::Value;

use crate::describe::Record;
use crate::describe::checks::unique;
use crate::describe::reading::Entry;
use crate::describe::values::plain;
use document::{Located, Place, Section};
use domain::ClientKey;
use domain::client::IntegrationKind::{self, NonInteractive, UserBound, WebServer};
use domain::client_key::{AssertionAudience, MAX_KID_LENGTH, VerifyingKey};
use domain::remembered::Element;

pub(super) const KEY: &str = "keys";

pub(super) const AUDIENCE: &str = "client_assertion_audience";

/// The integration types that may authenticate without a secret.
pub(super) const TYPES: &[IntegrationKind] = &[WebServer, NonInteractive, UserBound];

/// A key in registrations and views. A file may name the file of the key in place of its text.
pub(super) const RECORD: Record = Record {
    name: "ClientKeyView",
    help: "A public key of a client.",
    required: true,
    keys: &[
        (
            "kid",
            "Identifier of the key, compared with `kid` in the header of client assertions.",
        ),
        (
            "public_key",
            "The public key: a JWK in JSON, or PEM. Views contain a JWK.",
        ),
    ],
};

pub(super) fn element(value: &Value) -> Element {
    let Ok(key) = ClientKey::deserialize(value) else {
        return plain(value);
    };
    let algorithm = key.public_key.algorithm().name();
    let jwk = String::from(key.public_key);
    Element {
        value: format!("{} ({algorithm} {jwk})", key.kid),
        key: key.kid,
    }
}

pub(super) fn read(entry: &mut Entry<'_, '_>) -> Vec<ClientKey> {
    let mut kids = BTreeMap::new();
    let mut keys = Vec::new();
    for mut section in entry.section.sections(KEY) {
        let kid = section.required_text("kid");
        if let Some(kid) = &kid {
            unique(&section, "kid", kid, &mut kids);
            if let Err(problem) = check_kid(&kid.value) {
                section.report(&kid.place, format!("kid: {problem}"));
            }
        }
        entry.is_settled &= !section.has("file");
        if let (Some(kid), Some((given, text))) = (kid, text(&mut section)) {
            match VerifyingKey::read(&text.value) {
                Ok(public_key) => keys.push(ClientKey {
                    kid: kid.value,
                    public_key,
                }),
                Err(error) => section.report(&text.place, format!("{given}: {error}")),
            }
        }
        section.finish();
    }
    keys
}

/// `None` for the issuer, which is the default.
pub(super) fn audience(entry: &mut Entry<'_, '_>) -> Option<AssertionAudience> {
    let read = |text: &str| match text {
        "issuer" => Ok(None),
        name if name == AssertionAudience::TokenEndpoint.name() => {
            Ok(Some(AssertionAudience::TokenEndpoint))
        }
        _ => Err("expected issuer or token_endpoint"),
    };
    let audience = entry.section.parsed(AUDIENCE, read)?;
    if audience.value.is_some() {
        let message = format!(
            "{AUDIENCE}: another authorization server that names this token endpoint as its own gets assertions that \
             are valid here; use issuer if the library of the client can send it"
        );
        entry.warn(&audience.place, message);
    }
    audience.value
}

fn check_kid(kid: &str) -> Result<(), String> {
    if (1..=MAX_KID_LENGTH).contains(&kid.len()) && !kid.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(format!(
            "must have 1 to {MAX_KID_LENGTH} bytes, none of them a control character"
        ))
    }
}

/// The text of a key, with the member that gives it.
fn text(section: &mut Section<'_>) -> Option<(&'static str, Located<String>)> {
    if !section.has("file") && !section.has("public_key") {
        section.report(section.place(), "file or public_key is missing");
    }
    if matches!(section.place(), Place::Json(_)) {
        section.refuse(
            "file",
            "the administration reads no files; send the text of the key in public_key",
        );
    }
    let inline = section.text("public_key");
    let Some(Located { value, place }) = section.text("file") else {
        return inline.map(|inline| ("public_key", inline));
    };
    if let Some(inline) = inline {
        let message = "public_key: file is there too; keep one of the two";
        section.report(&inline.place, message);
        return None;
    }
    match std::fs::read_to_string(place.resolve(&value)) {
        Ok(value) => Some(("file", Located { value, place })),
        Err(error) => {
            section.report(&place, format!("file: {value} cannot be read: {error}"));
            None
        }
    }
}
