//! The commands of WebDriver, which are JSON over HTTP.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tests::browsing;
use ureq::http::Request;
use ureq::{Agent, AsSendBody};

/// The member of an element that has its id (WebDriver §12).
pub(super) const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How long WebDriver itself waits for a page.
const PATIENCE: Duration = Duration::from_secs(300);

/// A browser with its own profile. Dropping the session closes the browser.
pub(super) struct Session {
    agent: Agent,
    url: String,
}

impl Session {
    /// Opens a browser at the WebDriver server with this address.
    pub(super) fn open(driver: &str, capabilities: &Value) -> Self {
        let mut session = Self {
            agent: browsing::agent(PATIENCE),
            url: format!("{driver}/session"),
        };
        let capabilities = json!({"capabilities": {"alwaysMatch": capabilities}});
        let request = Request::post(&session.url).body(capabilities.to_string());
        let opened = session.send(request.unwrap()).unwrap();
        session.url += &format!("/{}", opened["sessionId"].as_str().unwrap());
        session
    }

    /// The result of a command without parameters.
    pub(super) fn get(&self, command: &str) -> Result<Value> {
        self.send(Request::get(format!("{}/{command}", self.url)).body(())?)
    }

    /// The result of a command.
    pub(super) fn post(&self, command: &str, parameters: &Value) -> Result<Value> {
        let request = Request::post(format!("{}/{command}", self.url));
        self.send(request.body(parameters.to_string())?)
    }

    fn send(&self, request: Request<impl AsSendBody>) -> Result<Value> {
        let mut response = self.agent.run(request)?;
        let text = response.body_mut().read_to_string()?;
        let value = serde_json::from_str::<Value>(&text)?["value"].take();
        if response.status() != 200 {
            bail!("{value}");
        }
        Ok(value)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let closed = Request::delete(&self.url).body(());
        if let Err(error) = closed.map_err(Into::into).and_then(|it| self.send(it)) {
            eprintln!("a window did not close: {error}");
        }
    }
}
