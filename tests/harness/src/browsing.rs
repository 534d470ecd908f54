//! The actions of a browser on the service's pages that programs of the harness need.

use std::time::Duration;

use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;
use url::form_urlencoded;

/// Content type of [`form_body`].
pub const FORM: &str = "application/x-www-form-urlencoded";

/// Size of a connection's buffer for answers, in bytes.
const INPUT: usize = 16 * 1024;

/// A client that follows no redirection and gives up after `patience`.
#[must_use]
pub fn agent(patience: Duration) -> Agent {
    config(patience).build().into()
}

/// The configuration of [`agent`].
pub fn config(patience: Duration) -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        // Each connection fills its buffer with zeros, byte by byte in a debug build.
        .input_buffer_size(INPUT)
        .timeout_global(Some(patience))
}

/// Fields as the body of a form.
#[must_use]
pub fn form_body(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

/// The CSRF token of a sign-in page.
#[must_use]
pub fn csrf(page: &str) -> Option<&str> {
    attribute(page, "name=\"csrf\" value=\"")
}

/// The `action` of the form of a page.
#[must_use]
pub fn action(page: &str) -> Option<&str> {
    attribute(page, "action=\"")
}

fn attribute<'a>(page: &'a str, before: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(before)?;
    rest.split('"').next()
}
