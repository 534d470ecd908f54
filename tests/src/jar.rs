//! The cookies of a browser.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ureq::http::header::{COOKIE, SET_COOKIE};
use ureq::http::{HeaderValue, Request, Response};
use ureq::middleware::{Middleware, MiddlewareNext};
use ureq::{Body, Error, SendBody};

/// Values of cookies by host, path and name. As in browsers, all ports of a host share them, and a host without TLS gets cookies with
/// `Secure` because it is this machine.
#[derive(Default)]
pub(crate) struct Jar(Mutex<BTreeMap<(String, String, String), String>>);

impl Jar {
    /// The cookies for a path (RFC 6265 §5.1.4).
    fn sent_to(&self, host: &str, path: &str) -> String {
        let cookies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let covers = |of: &str| {
            let rest = path.strip_prefix(of);
            rest.is_some_and(|rest| of.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
        };
        let cookies = cookies
            .iter()
            .filter(|((of, at, _), _)| of == host && covers(at));
        let pairs: Vec<String> = cookies
            .map(|((_, _, name), value)| format!("{name}={value}"))
            .collect();
        pairs.join("; ")
    }

    /// Keeps or deletes a cookie for a path of the host. Any other is a mistake of the service, and is not kept.
    fn keep(&self, host: &str, cookie: &str) {
        let mut parts = cookie.split("; ");
        let pair = parts.next().and_then(|pair| pair.split_once('='));
        let attributes: Vec<(String, &str)> = parts
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let attribute = |name: &str| {
            let mut attributes = attributes.iter();
            attributes.find_map(|(known, value)| (known == name).then_some(*value))
        };
        let (Some((name, value)), None, Some(path)) =
            (pair, attribute("domain"), attribute("path"))
        else {
            return;
        };
        let key = (host.to_owned(), path.to_owned(), name.to_owned());
        let is_past = attribute("expires").is_some_and(|at| at.contains(" 1970 "));
        let mut cookies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if attribute("max-age") == Some("0") || is_past {
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
        let cookies = self.sent_to(&host, request.uri().path());
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
