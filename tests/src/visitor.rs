//! Requests of a program or of a person's browser.

use std::time::Duration;

use anyhow::Result;
use ureq::http::Request;
use ureq::{Agent, AsSendBody};

use crate::Answer;
use crate::browsing::{self, FORM};
use crate::jar::Jar;

/// Timeout: longer than a request may wait in any part of the pair, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program, or a browser: it keeps cookies, and follows no redirect.
#[derive(Debug)]
pub struct Visitor(Agent);

impl Default for Visitor {
    fn default() -> Self {
        Self::patient(PATIENCE)
    }
}

impl Visitor {
    /// A visitor that waits for each response for this time.
    #[must_use]
    pub fn patient(patience: Duration) -> Self {
        let config = browsing::config(patience);
        Self(config.middleware(Jar::default()).build().into())
    }

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
        let headers = [headers, &[("content-type", FORM)]].concat();
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
        let (head, mut body) = self.0.run(request.body(body)?)?.into_parts();
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            // Read completely, so that the next request can use the connection.
            body: body.read_to_string()?,
        })
    }
}
