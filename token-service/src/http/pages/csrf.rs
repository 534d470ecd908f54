//! The token against cross-site request forgery: one per browser, in a cookie and in every form, and the two
//! must be equal (double submit).
//!
//! Not derived from the session, because the sign-in form needs it before there is one. Another site can
//! neither read the cookie, nor set it on https (`__Host-`), nor have it sent along with a form post of its
//! own (`SameSite=Lax`).

use actix_web::{HttpRequest, HttpResponse};

use super::cookies::{Cookies, with_cookie};
use crate::service::Service;
use domain::digest::Digest;
use domain::random::{self, Random, RandomError};

/// 256 random bits as base64url, 43 characters.
pub(super) struct CsrfToken(String);

impl CsrfToken {
    pub(super) fn generate(random: &dyn Random) -> Result<Self, RandomError> {
        random::text::<32>(random).map(Self)
    }

    /// Reads a token; `None` when it has another form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Digest::from_base64url(text).map(|_| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a form carried this token, in constant time.
    pub(super) fn is_carried_as(&self, sent: &str) -> bool {
        Digest::of(self.0.as_bytes()) == Digest::of(sent.as_bytes())
    }
}

/// The token of one browser. It is made on the first page and stays, so that forms in other tabs go on working.
pub(super) struct BrowserToken {
    token: CsrfToken,
    cookies: Cookies,
    is_new: bool,
}

impl BrowserToken {
    /// The token that the browser has, or a new one.
    pub(super) fn of(http: &HttpRequest, service: &Service) -> Result<Self, RandomError> {
        let cookies = Cookies::of(&service.config.protocol.issuer);
        let (token, is_new) = match cookies.csrf(http) {
            Some(token) => (token, false),
            None => (CsrfToken::generate(&*service.random)?, true),
        };
        Ok(Self {
            token,
            cookies,
            is_new,
        })
    }

    /// For the hidden field.
    pub(super) fn text(&self) -> String {
        self.token.as_str().to_owned()
    }

    /// Gives the browser a new token with this response.
    pub(super) fn keep(&self, response: HttpResponse) -> HttpResponse {
        if self.is_new {
            with_cookie(response, &self.cookies.set_csrf(&self.token))
        } else {
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::random::OsRandom;

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
