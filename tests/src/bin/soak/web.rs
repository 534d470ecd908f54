//! Requests of the load.

use std::time::Duration;

use anyhow::Result;
use tests::browsing::{self, FORM};
use ureq::Agent;
use ureq::http::{Request, Response};
use ureq::{AsSendBody, Body};

/// Timeout: longer than a request may wait in any part of the pair.
const PATIENCE: Duration = Duration::from_secs(40);

/// The parts of a response that the load reads.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

impl Answer {
    /// A member of the JSON body.
    pub(crate) fn member(&self, name: &str) -> Option<String> {
        let body: serde_json::Value = serde_json::from_str(&self.body).ok()?;
        Some(body.get(name)?.as_str()?.to_owned())
    }

    /// The code in the address of the redirect.
    pub(crate) fn code(&self) -> Option<&str> {
        let (_, rest) = self.location.as_ref()?.split_once("code=")?;
        rest.split('&').next()
    }
}

/// A program, or a browser: it keeps cookies.
#[derive(Debug)]
pub(crate) struct Visitor(Agent);

impl Visitor {
    pub(crate) fn new() -> Self {
        Self(browsing::agent(PATIENCE))
    }

    pub(crate) fn get(&self, url: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        self.send("GET", url, headers, ())
    }

    pub(crate) fn post(
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

    pub(crate) fn send(
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
    let location = response.headers().get("location");
    let location = location.and_then(|value| value.to_str().ok());
    Ok(Answer {
        status: response.status().as_u16(),
        location: location.map(str::to_owned),
        // Read completely, so that the next request can use the connection.
        body: response.body_mut().read_to_string()?,
    })
}
