//! The WebDriver server of Chromium.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::pair::status_of;
use crate::ports::free_port;
use crate::process::Process;

/// A running chromedriver. Dropping it stops chromedriver and the browsers that it started.
#[derive(Debug)]
pub struct Chromedriver {
    port: u16,
    _process: Process,
}

impl Chromedriver {
    /// Starts chromedriver on a free port and waits until it answers. The log goes to `directory`.
    ///
    /// # Errors
    /// If chromedriver is not installed (`make tools` installs it) or does not become ready; with the log.
    pub fn start(directory: &Path) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}"));
        let log = directory.join("chromedriver.log");
        let mut process = Process::start("chromedriver", &command, &log)?;
        let status = format!("http://127.0.0.1:{port}/status");
        process.until("ready", || status_of(&status) == Some(200))?;
        Ok(Self {
            port,
            _process: process,
        })
    }

    /// Its address, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
