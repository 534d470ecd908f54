//! The CSRF token: one per browser, in a cookie and in every form. Both must be equal (double submit).
//!
//! The token is not derived from the session, because the sign-in form needs the token before a session exists. Another
//! site can neither read the cookie, nor set the cookie on https (`__Host-`), nor make the browser send the cookie with
//! a form post from that site (`SameSite=Lax`).

use domain::digest::Digest;
use domain::random::{self, Random, RandomError};

/// 256 random bits as base64url, 43 characters.
pub(super) struct CsrfToken(String);

impl CsrfToken {
    pub(super) fn generate(random: &dyn Random) -> Result<Self, RandomError> {
        random::text::<32>(random).map(Self)
    }

    /// Reads a token; `None` if it is malformed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Digest::from_base64url(text).map(|_| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// True if the form contains this token; compared in constant time.
    pub(super) fn is_carried_as(&self, sent: &str) -> bool {
        Digest::of(self.0.as_bytes()) == Digest::of(sent.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use system::OsRandom;

    #[test]
    fn only_the_same_token_fits() {
        let token = CsrfToken::generate(&OsRandom).unwrap();
        let other = CsrfToken::generate(&OsRandom).unwrap();
        assert!(token.is_carried_as(token.as_str()));
        assert!(!token.is_carried_as(other.as_str()));
        assert!(!token.is_carried_as(""));
        assert!(CsrfToken::parse(token.as_str()).is_some());
        assert!(CsrfToken::parse("").is_none());
    }
}
