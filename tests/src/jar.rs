//! The cookies of a browser.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ureq::http::header::{COOKIE, SET_COOKIE};
use ureq::http::{HeaderValue, Request, Response};
use ureq::middleware::{Middleware, MiddlewareNext};
use ureq::{Body, Error, SendBody};

/// Values of cookies by host and name. As in browsers, all ports of a host share them, and a host without TLS gets cookies with
/// `Secure` because it is this machine.
#[derive(Default)]
pub(crate) struct Jar(Mutex<BTreeMap<(String, String), String>>);

impl Jar {
    fn sent_to(&self, host: &str) -> String {
        let cookies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cookies = cookies.iter().filter(|((of, _), _)| of == host);
        let pairs: Vec<String> = cookies
            .map(|((_, name), value)| format!("{name}={value}"))
            .collect();
        pairs.join("; ")
    }

    /// Keeps or deletes a cookie for all paths of the host. Any other is a mistake of the service, and is not kept.
    fn keep(&self, host: &str, cookie: &str) {
        let mut parts = cookie.split("; ");
        let pair = parts.next().and_then(|pair| pair.split_once('='));
        let attributes: Vec<&str> = parts.collect();
        let has_domain = attributes.iter().any(|part| part.starts_with("Domain="));
        let Some((name, value)) = pair else { return };
        if has_domain || !attributes.contains(&"Path=/") {
            return;
        }
        let key = (host.to_owned(), name.to_owned());
        let mut cookies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if attributes.contains(&"Max-Age=0") {
            cookies.remove(&key);
        } else {
            cookies.insert(key, value.to_owned());
        }
    }
}

impl Middleware for Jar {
    fn handle(
        &self,
        mut request: Request<SendBody<'_>>,
        next: MiddlewareNext<'_>,
    ) -> Result<Response<Body>, Error> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let cookies = self.sent_to(&host);
        if let Ok(cookies) = HeaderValue::from_str(&cookies)
            && !cookies.is_empty()
        {
            request.headers_mut().insert(COOKIE, cookies);
        }
        let response = next.handle(request)?;
        let set = response.headers().get_all(SET_COOKIE).iter();
        for cookie in set.filter_map(|cookie| cookie.to_str().ok()) {
            self.keep(&host, cookie);
        }
        Ok(response)
    }
}
