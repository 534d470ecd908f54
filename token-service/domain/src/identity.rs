//! Identities: people as identity providers know them, and sign-ins there.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A person at an identity provider, linked to at most one user. Both parts are compared byte for byte (OpenID Connect Core 1.0
/// §5.7).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// `iss` of the provider's tokens.
    pub issuer: String,
    /// `sub` of the provider's tokens. 1 to 255 bytes.
    pub subject: String,
}

impl Identity {
    /// Longest `sub`, in bytes (OpenID Connect Core 1.0 §2).
    pub const MAX_SUBJECT: usize = 255;
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { issuer, subject } = self;
        write!(formatter, "{subject} of {issuer}")
    }
}

/// A user's link to an identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedIdentity {
    #[serde(flatten)]
    pub identity: Identity,
    /// The first sign-in linked the identity by its verified e-mail address; otherwise a registration did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_email: bool,
}

/// The sign-in at an identity provider on which a session, a code or a grant rests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderSignIn {
    pub identity: Identity,
    /// `sid` of the ID token: the session at the provider (OpenID Connect Front-Channel Logout 1.0 §3).
    pub sid: Option<String>,
}

impl ProviderSignIn {
    /// True if a logout of `identity`, from one session (`sid`) or from all, ends this sign-in (OpenID Connect Back-Channel
    /// Logout 1.0 §2.7).
    pub fn ends_with(&self, identity: &Identity, sid: Option<&str>) -> bool {
        let is_same = |own: &str| sid.is_none_or(|sid| own == sid);
        // The provider did not say in which session this sign-in was: it may be this one.
        self.identity == *identity && self.sid.as_deref().is_none_or(is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logout_ends_one_session_at_the_provider_or_all() {
        use crate::testing::identity;
        let sign_in = |sid: Option<&str>| ProviderSignIn {
            identity: identity("1"),
            sid: sid.map(str::to_owned),
        };
        for (of, subject, sid, ends) in [
            (Some("a"), "1", None, true),
            (Some("a"), "1", Some("a"), true),
            (Some("a"), "1", Some("b"), false),
            (Some("a"), "2", None, false),
            (None, "1", None, true),
            (None, "1", Some("a"), true),
        ] {
            assert_eq!(sign_in(of).ends_with(&identity(subject), sid), ends);
        }
    }
}
