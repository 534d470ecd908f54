//! Requests of a program or of a person's browser, for the soak test, the attacks and the benchmarks.

use std::time::Duration;

use anyhow::Result;
use ureq::Agent;
use ureq::http::{Request, Response};
use ureq::{AsSendBody, Body};

use crate::browsing::{self, FORM};
use crate::jar;

/// Timeout: longer than a request may wait in any part of the pair.
const PATIENCE: Duration = Duration::from_secs(40);

/// The parts of a response that visitors read.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub location: Option<String>,
    /// The value of `Retry-After`.
    pub retry_after: Option<String>,
    pub body: String,
}

impl Answer {
    /// A text member of the JSON body.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<String> {
        let body: serde_json::Value = serde_json::from_str(&self.body).ok()?;
        Some(body.get(name)?.as_str()?.to_owned())
    }

    /// True for 503 with the time of the next attempt.
    #[must_use]
    pub const fn names_a_retry(&self) -> bool {
        self.status == 503 && self.retry_after.is_some()
    }

    /// The code in the address of the redirect.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        let (_, rest) = self.location.as_ref()?.split_once("code=")?;
        rest.split('&').next()
    }
}

/// A program, or a browser: it keeps cookies.
#[derive(Debug)]
pub struct Visitor(Agent);

impl Default for Visitor {
    fn default() -> Self {
        Self(jar::browser(PATIENCE))
    }
}

impl Visitor {
    /// # Errors
    /// Without a complete response.
    pub fn get(&self, url: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        self.send("GET", url, headers, ())
    }

    /// Posts a form.
    ///
    /// # Errors
    /// Without a complete response.
    pub fn post(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        fields: &[(&str, &str)],
    ) -> Result<Answer> {
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .copied()
            .chain([("content-type", FORM)])
            .collect();
        self.send("POST", url, &headers, browsing::form_body(fields))
    }

    /// # Errors
    /// Without a complete response.
    pub fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: impl AsSendBody,
    ) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read(self.0.run(request.body(body)?)?)
    }
}

fn read(mut response: Response<Body>) -> Result<Answer> {
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let (location, retry_after) = (header("location"), header("retry-after"));
    Ok(Answer {
        status: response.status().as_u16(),
        location,
        retry_after,
        // Read completely, so that the next request can use the connection.
        body: response.body_mut().read_to_string()?,
    })
}
