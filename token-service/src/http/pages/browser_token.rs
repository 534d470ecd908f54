//! The CSRF token of a browser.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use askama::Template;
use domain::random::RandomError;

use super::browser::Browser;
use super::cookies::{Cookies, with_cookie};
use super::csrf::CsrfToken;
use super::failure::PageFailure;
use super::problem::Problem;
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

/// A response to the browser with this secret, which the browser gets as a cookie if it has none.
pub(super) fn with_token<E: From<RandomError>>(
    browser: &Browser,
    response: impl FnOnce(&str) -> Result<HttpResponse, E>,
) -> Result<HttpResponse, E> {
    let token = BrowserToken::of(browser)?;
    Ok(token.keep(response(token.token.as_str())?))
}

/// A page with the browser's CSRF token. `problem`: what the page says about the form before.
pub(super) fn page_with_token<Page: Template>(
    browser: &Browser,
    problem: Option<Problem<'_>>,
    page: impl FnOnce(&BrowserToken) -> Page,
) -> Result<HttpResponse, PageFailure> {
    let token = BrowserToken::of(browser)?;
    let status = problem.map_or(StatusCode::OK, Problem::status);
    let mut response = response::page(status, &page(&token));
    if let Some(wait) = problem.and_then(Problem::wait) {
        let seconds = HeaderValue::from(wait.as_secs());
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    Ok(token.keep(response))
}
