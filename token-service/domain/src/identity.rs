//! Identities: people as identity providers know them, and sign-ins there.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

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
    /// When the sign-in began, by the clock of the provider: comparable with its sign-outs.
    pub began_at: Timestamp,
    /// The person proved the identity to the provider at this time or later, by the clock of this service.
    pub proven_since: Timestamp,
}

/// The end of a sign-in at an identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSignOut {
    pub identity: Identity,
    /// The session at the provider that ended; `None` if all of the person ended.
    pub sid: Option<String>,
    /// By the clock of the provider.
    pub at: Timestamp,
}

impl ProviderSignIn {
    /// The same sign-in, after a change for which the person gave proof here at `at` (D-65).
    #[must_use]
    pub fn confirmed(self, at: Timestamp) -> Self {
        let proven_since = self.proven_since.max(at);
        Self {
            proven_since,
            ..self
        }
    }

    /// True if `sign_out` ends this sign-in (OpenID Connect Back-Channel Logout 1.0 §2.7). A sign-in that began later stays, however
    /// late the sign-out becomes known (D-66). In the second of the sign-out, nobody knows which was first.
    pub fn ends_with(&self, sign_out: &ProviderSignOut) -> bool {
        let ended = sign_out.sid.as_deref();
        let is_same = |own: &str| ended.is_none_or(|sid| own == sid);
        // The provider did not say in which session this sign-in was: it may be this one.
        self.identity == sign_out.identity
            && self.sid.as_deref().is_none_or(is_same)
            && self.began_at <= sign_out.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logout_ends_one_session_at_the_provider_or_all() {
        use crate::testing::{identity, provider_sign_in};
        for (of, subject, sid, at, ends) in [
            (Some("a"), "1", None, 100, true),
            (Some("a"), "1", Some("a"), 100, true),
            (Some("a"), "1", Some("b"), 100, false),
            (Some("a"), "2", None, 100, false),
            (None, "1", None, 100, true),
            (None, "1", Some("a"), 100, true),
            (Some("a"), "1", None, 99, false),
            (Some("a"), "1", Some("a"), 99, false),
        ] {
            let sign_in = provider_sign_in("1", of, Timestamp::from_seconds(100));
            let sign_out = ProviderSignOut {
                identity: identity(subject),
                sid: sid.map(str::to_owned),
                at: Timestamp::from_seconds(at),
            };
            assert_eq!(
                sign_in.ends_with(&sign_out),
                ends,
                "{sign_in:?} {sign_out:?}"
            );
        }
    }
}
