//! The CSRF token of a browser.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use askama::Template;
use domain::random::RandomError;

use super::browser::Browser;
use super::cookies::{Cookies, with_cookie};
use super::csrf::CsrfToken;
use super::failure::PageFailure;
use super::response;

/// The token of one browser. The first page creates the token, and the token stays, so that forms in other tabs
/// continue to work.
pub(super) struct BrowserToken {
    token: CsrfToken,
    cookies: Cookies,
    is_new: bool,
}

impl BrowserToken {
    /// The browser's token, or a new token.
    fn of(browser: &Browser) -> Result<Self, RandomError> {
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

    /// The value of the hidden field.
    pub(super) fn text(&self) -> String {
        self.token.as_str().to_owned()
    }

    /// True if the browser did not send a token.
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Sets a new token as a cookie in this response.
    fn keep(&self, response: HttpResponse) -> HttpResponse {
        if self.is_new {
            with_cookie(response, &self.cookies.set_csrf(&self.token))
        } else {
            response
        }
    }
}

/// A page with the browser's CSRF token.
pub(super) fn page_with_token<Page: Template>(
    browser: &Browser,
    status: StatusCode,
    page: impl FnOnce(&BrowserToken) -> Page,
) -> Result<HttpResponse, PageFailure> {
    let token = BrowserToken::of(browser)?;
    let response = response::page(status, &page(&token));
    Ok(token.keep(response))
}
