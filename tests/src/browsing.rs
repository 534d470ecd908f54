//! The actions of a browser on the service's pages that programs of the harness need.

use std::time::Duration;

use ureq::Agent;

/// Content type of [`form`].
pub const FORM: &str = "application/x-www-form-urlencoded";

/// A client that keeps cookies, follows no redirection, and gives up after `patience`.
#[must_use]
pub fn agent(patience: Duration) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .timeout_global(Some(patience))
        .build()
        .into()
}

/// The fields as the body of a form. Percent-encodes everything but letters and digits.
#[must_use]
pub fn form(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte.is_ascii_alphanumeric() {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
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
