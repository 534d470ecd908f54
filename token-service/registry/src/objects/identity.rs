//! The linked identities of users.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::describe::checks::{issuer, unique_in};
use crate::describe::reading::{Entry, required};
use document::Located;
use domain::{Identity, LinkedIdentity};

/// A person at an identity provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdentityView {
    /// Issuer of the identity provider: `iss` of its tokens.
    pub issuer: String,
    /// `sub` of the provider's tokens for this person. 1 to 255 bytes.
    pub subject: String,
}

impl From<&Identity> for IdentityView {
    fn from(identity: &Identity) -> Self {
        let Identity { issuer, subject } = identity.clone();
        Self { issuer, subject }
    }
}

impl From<IdentityView> for Identity {
    fn from(IdentityView { issuer, subject }: IdentityView) -> Self {
        Self { issuer, subject }
    }
}

pub(super) fn read(entry: &mut Entry<'_, '_>) -> Vec<LinkedIdentity> {
    let mut identities = Vec::new();
    for mut section in entry.section.sections("identities") {
        let issuer = required(&mut section, "issuer", issuer);
        let subject = required(&mut section, "subject", subject);
        if let (Some(issuer), Some(subject)) = (issuer, subject) {
            let identity = Identity { issuer, subject };
            let place = section.place().clone();
            // No two users of a document have it either.
            let value = format!("linked identity: {identity}");
            unique_in(
                &section,
                &Located { value, place },
                &mut entry.reading.owned,
            );
            identities.push(LinkedIdentity {
                identity,
                by_email: false,
            });
        }
        section.finish();
    }
    identities
}

fn subject(text: &str) -> Result<String, &'static str> {
    let legal =
        (1..=Identity::MAX_SUBJECT).contains(&text.len()) && !text.chars().any(char::is_control);
    legal
        .then(|| text.to_owned())
        .ok_or("must have 1 to 255 bytes and no control characters")
}
