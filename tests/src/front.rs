//! Proxies before the token service, with the files `front*` of `examples/`. Only ports, certificates and bounds are changed.

use anyhow::{Result, bail};
use tempfile::TempDir;

use harness::{Artifacts, Process, free_port};

use crate::gateways::{Kind, copy};
use crate::tls::{self, Identity};

/// The name of the token service in these files.
pub const HOST: &str = "id.example.com";

/// A running proxy.
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
    /// Starts a proxy before the public listener and the listener for mutual TLS of a token service, and waits until it serves.
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
            Kind::Traefik => ("examples/traefik", &["front.yaml", "front-routes.yaml"]),
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
        process.until("serving", || {
            let answer = tls::send(https, identity, None, &request).ok().flatten();
            answer.is_some_and(|answer| answer.status == 200)
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
