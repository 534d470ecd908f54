//! The token against cross-site request forgery that a browser keeps.

use actix_web::HttpResponse;
use domain::random::RandomError;

use super::browser::Browser;
use super::cookies::{Cookies, with_cookie};
use super::csrf::CsrfToken;

/// The token of one browser. It is made on the first page and stays, so that forms in other tabs go on working.
pub(super) struct BrowserToken {
    token: CsrfToken,
    cookies: Cookies,
    is_new: bool,
}

impl BrowserToken {
    /// The token that the browser has, or a new one.
    pub(super) fn of(browser: &Browser) -> Result<Self, RandomError> {
        let cookies = browser.cookies;
        let (token, is_new) = match cookies.csrf(&browser.http) {
            Some(token) => (token, false),
            None => (CsrfToken::generate(browser.context().random)?, true),
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
