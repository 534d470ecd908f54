//! The keys with which clients sign client assertions (protocol.md §5.12).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::content::content;
use crate::describe::checks::unique;
use crate::describe::reading::Entry;
use domain::ClientKey;
use domain::client::IntegrationKind::{self, NonInteractive, UserBound, WebServer};
use domain::client_key::{AssertionAudience, MAX_KID_LENGTH, VerifyingKey};

pub(super) const KEY: &str = "keys";

pub(super) const AUDIENCE: &str = "client_assertion_audience";

/// The integration types that may authenticate without a secret.
pub(super) const TYPES: &[IntegrationKind] = &[WebServer, NonInteractive, UserBound];

/// A public key of a client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientKeyView {
    /// Identifier of the key, compared with `kid` in the header of client assertions.
    pub kid: String,
    /// The public key: a JWK in JSON, or PEM. Views contain a JWK.
    pub public_key: String,
}

impl From<&ClientKey> for ClientKeyView {
    fn from(key: &ClientKey) -> Self {
        Self {
            kid: key.kid.clone(),
            public_key: key.public_key.clone().into(),
        }
    }
}

pub(super) fn text(key: &ClientKey) -> String {
    let algorithm = key.public_key.algorithm().name();
    let jwk = String::from(key.public_key.clone());
    format!("{} ({algorithm} {jwk})", key.kid)
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
        entry.reading.names_files |= section.has("file");
        let text = content(
            &mut section,
            "public_key",
            "the key",
            std::fs::read_to_string,
        );
        if let (Some(kid), Some((given, text))) = (kid, text) {
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
