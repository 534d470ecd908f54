//! Proxies before the token service, with the files `front*` of `examples/`. Only ports, certificates and bounds are changed.

use anyhow::{Result, bail};
use tempfile::TempDir;

use harness::{Artifacts, Process, free_port};

use crate::gateways::{Kind, copy};
use crate::tls::{self, Identity};

/// The name of the token service in these files.
pub const HOST: &str = "id.example.com";

/// The pages for people that a file of Envoy has inline: the service is away, too many requests, other requests that Envoy refuses.
///
/// # Errors
/// If the file cannot be read.
pub fn pages(file: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(Artifacts::find()?.repository.join(file))?;
    let texts = text.lines().filter_map(|line| {
        let text = line.trim().strip_prefix("inline_string: '<!")?;
        Some(format!("<!{}", text.strip_suffix('\'')?))
    });
    Ok(texts.collect())
}

#[derive(Debug)]
pub struct Front {
    /// Where the proxy redirects to https.
    pub http: u16,
    /// Pages and endpoints.
    pub https: u16,
    /// Clients with certificates.
    pub mutual_tls: u16,
    _process: Process,
    _folder: TempDir,
}

impl Front {
    /// Starts a proxy before the public listener and the listener for mutual TLS of a token service, and waits until it answers.
    /// `changes` are replacements in its configuration.
    ///
    /// # Errors
    /// If the proxy is not installed, or does not start; with its log.
    pub fn start(
        kind: Kind,
        [service, with_certificates]: [u16; 2],
        changes: &[(&str, &str)],
        identity: &Identity,
    ) -> Result<Self> {
        let folder = TempDir::new()?;
        let [http, https, mutual_tls] = [free_port()?, free_port()?, free_port()?];
        let ports = [
            ("80", http),
            ("443", https),
            ("8443", mutual_tls),
            ("9080", service),
            ("9086", with_certificates),
            ("9901", free_port()?),
        ];
        let files: (&str, &[&str]) = match kind {
            Kind::Nginx | Kind::DebianNginx => ("examples/nginx", &["front.conf"]),
            Kind::Caddy => ("examples/caddy", &["front.Caddyfile"]),
            Kind::Traefik => (
                "examples/traefik",
                &[
                    "front.yaml",
                    "front-routes.yaml",
                    "plugins-local/src/pages/.traefik.yml",
                    "plugins-local/src/pages/go.mod",
                    "plugins-local/src/pages/pages.go",
                ],
            ),
            Kind::HaProxy => ("examples/haproxy", &["front.cfg"]),
            Kind::EnvoyExtAuthz => ("examples/envoy-ext-authz", &["front.yaml"]),
            Kind::EnvoyFilter => bail!("envoy/envoy.yaml is the configuration with the filter"),
        };
        copy(files, folder.path(), Ok, changes, &ports)?;
        identity.write_to(folder.path())?;
        let command = kind.command(&Artifacts::find()?, folder.path(), files.1[0])?;
        let log = folder.path().join("front.log");
        let mut process = Process::start(kind.name(), &command, &log)?;
        let request =
            format!("GET /auth/jwks HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        process.until("answering", || {
            let answer = tls::send(https, identity, None, &request).ok().flatten();
            // Traefik listens before it has routes.
            answer.is_some_and(|answer| answer.status != 404)
        })?;
        Ok(Self {
            http,
            https,
            mutual_tls,
            _process: process,
            _folder: folder,
        })
    }
}
