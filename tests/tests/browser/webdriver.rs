//! The commands of WebDriver, which are JSON over HTTP.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tests::visitor::Visitor;
use ureq::AsSendBody;

/// The member of an element that has its id (WebDriver §12).
pub(super) const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How long WebDriver itself waits for a page.
const PATIENCE: Duration = Duration::from_secs(300);

/// A browser with its own profile. Dropping the session closes the browser.
pub(super) struct Session {
    visitor: Visitor,
    url: String,
}

impl Session {
    /// Opens a browser at the WebDriver server with this address.
    pub(super) fn open(driver: &str, capabilities: &Value) -> Self {
        let mut session = Self {
            visitor: Visitor::patient(PATIENCE),
            url: format!("{driver}/session"),
        };
        let capabilities = json!({"capabilities": {"alwaysMatch": capabilities}});
        let opened = session.send("POST", "", capabilities.to_string());
        let opened = opened.unwrap();
        session.url += &format!("/{}", opened["sessionId"].as_str().unwrap());
        session
    }

    /// The result of a command without parameters.
    pub(super) fn get(&self, command: &str) -> Result<Value> {
        self.send("GET", &format!("/{command}"), ())
    }

    /// The result of a command.
    pub(super) fn post(&self, command: &str, parameters: &Value) -> Result<Value> {
        self.send("POST", &format!("/{command}"), parameters.to_string())
    }

    fn send(&self, method: &str, path: &str, body: impl AsSendBody) -> Result<Value> {
        let url = format!("{}{path}", self.url);
        let answer = self.visitor.send(method, &url, &[], body)?;
        let value = serde_json::from_str::<Value>(&answer.body)?["value"].take();
        if answer.status != 200 {
            bail!("{value}");
        }
        Ok(value)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.send("DELETE", "", ()) {
            eprintln!("a window did not close: {error}");
        }
    }
}
