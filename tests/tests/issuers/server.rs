//! Issuers of other products.

use std::process::Command;

use serde_json::{Value, json};
use tests::{Artifacts, Process, free_port};

/// The audience of the issuers' tokens.
pub(crate) const AUDIENCE: &str = "https://api.example.com";

/// An issuer's server, and tokens that it issued.
pub(crate) struct Issuer {
    pub(crate) port: u16,
    url: String,
    tokens: Value,
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Issuer {
    fn start(name: &'static str, program: &str, script: &str, arguments: &[&str]) -> Self {
        let repository = Artifacts::find().unwrap().repository;
        let folder = tempfile::TempDir::new().unwrap();
        let port = free_port().unwrap();
        let mut command = Command::new(repository.join(program));
        command
            .arg(repository.join("tests/clients").join(script))
            .args([&port.to_string(), AUDIENCE])
            .args(arguments)
            .current_dir(folder.path())
            // Authlib requires https unless this variable marks a test.
            .env("AUTHLIB_INSECURE_TRANSPORT", "1");
        let log = folder.path().join("log");
        let mut process = Process::start(name, &command, &log).unwrap();
        let tokens = || {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let line = log.lines().find_map(|line| line.strip_prefix("TOKENS "))?;
            line.parse::<Value>().ok()
        };
        process.until("serving", || tokens().is_some()).unwrap();
        let tokens = tokens().unwrap();
        Self {
            port,
            url: format!("http://127.0.0.1:{port}"),
            tokens,
            _process: process,
            _folder: folder,
        }
    }

    pub(super) fn oidc_provider() -> Self {
        Self::start("oidc-provider", ".cache/node", "oidc_provider.mjs", &[])
    }

    /// With one RS256 key, or with one key for each of these algorithms.
    pub(crate) fn mock_server(algorithms: &[&str]) -> Self {
        let node = ".cache/node";
        Self::start("oauth2-mock-server", node, "mock_issuer.mjs", algorithms)
    }

    pub(super) fn authlib() -> Self {
        Self::authlib_with(&[])
    }

    /// The metadata names this port for the keys, and the keys are there.
    pub(super) fn authlib_with_keys_at(port: u16) -> Self {
        Self::authlib_with(&[&port.to_string()])
    }

    fn authlib_with(arguments: &[&str]) -> Self {
        let python = ".cache/venv/bin/python";
        Self::start("authlib", python, "authlib_issuer.py", arguments)
    }

    pub(super) fn glewlwyd() -> Self {
        let python = ".cache/venv/bin/python";
        let mut issuer = Self::start("glewlwyd", python, "glewlwyd_issuer.py", &[]);
        issuer.url.push_str("/api/oidc");
        issuer
    }

    /// The issuer's name.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The gateway's cluster name for the issuer's host.
    pub(super) fn cluster(&self) -> String {
        format!("at-{}", self.port)
    }

    /// A token, by its path in the issuer's output.
    #[track_caller]
    pub(crate) fn token(&self, path: &str) -> &str {
        let found = self.tokens.pointer(&format!("/{path}"));
        found.and_then(Value::as_str).unwrap()
    }

    /// The issuer's entry in the configuration of the guard, with these members.
    pub(super) fn configured(&self, members: &Value) -> Value {
        let mut issuer = json!({"issuer": self.url, "audiences": [AUDIENCE]});
        let members = members.as_object().unwrap().clone();
        issuer.as_object_mut().unwrap().extend(members);
        issuer
    }
}
