//! token-guard, and the gateways that ask it, with the files of `examples/`. Only ports and timeouts are changed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use harness::{Artifacts, Form, Log, Process, free_port, listens, pace, status_of};

use crate::tls::{self, Identity};

/// A gateway, and its way to ask the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// nginx, by `auth_request`.
    Nginx,
    /// The older nginx of Debian, by `auth_request`.
    DebianNginx,
    /// Caddy, by `forward_auth`.
    Caddy,
    /// Traefik, by `ForwardAuth`.
    Traefik,
    /// HAProxy, by a script in Lua.
    HaProxy,
    /// Envoy, by `ext_authz` over HTTP.
    EnvoyExtAuthz,
    /// Envoy, with the filter instead of token-guard.
    EnvoyFilter,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Nginx,
        Self::DebianNginx,
        Self::Caddy,
        Self::Traefik,
        Self::HaProxy,
        Self::EnvoyExtAuthz,
        Self::EnvoyFilter,
    ];

    /// Name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::DebianNginx => "nginx of Debian",
            Self::Caddy => "Caddy",
            Self::Traefik => "Traefik",
            Self::HaProxy => "HAProxy",
            Self::EnvoyExtAuthz => "Envoy, ext_authz",
            Self::EnvoyFilter => "Envoy, filter",
        }
    }

    /// The folder of the gateway's configuration, and the files in it: first that which the program reads. `form` is that of the
    /// filter.
    const fn files(self, form: Form) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Nginx | Self::DebianNginx => ("examples/nginx", &["nginx.conf"]),
            Self::Caddy => ("examples/caddy", &["Caddyfile"]),
            Self::Traefik => ("examples/traefik", &["traefik.yaml", "dynamic.yaml"]),
            Self::HaProxy => ("examples/haproxy", &["haproxy.cfg", "token-guard.lua"]),
            Self::EnvoyExtAuthz => ("examples/envoy-ext-authz", &["envoy.yaml"]),
            Self::EnvoyFilter => (plain_envoy(form), &["envoy.yaml"]),
        }
    }

    /// The program, started in `folder` with this configuration.
    pub(crate) fn command(
        self,
        artifacts: &Artifacts,
        folder: &Path,
        file: &str,
    ) -> Result<Command> {
        let program = |name: &str| -> Result<Command> {
            let path = artifacts.repository.join(".cache").join(name);
            ensure!(
                path.exists(),
                "{} is missing: run `make tools`",
                path.display()
            );
            let mut command = Command::new(path);
            command.current_dir(folder);
            Ok(command)
        };
        Ok(match self {
            Self::Nginx | Self::DebianNginx => {
                let mut nginx = program(match self {
                    Self::DebianNginx => "debian-nginx",
                    _ => "nginx",
                })?;
                nginx.args(["-e", "stderr", "-c", file, "-p"]);
                nginx.arg(folder);
                nginx
            }
            Self::Caddy => {
                let mut caddy = program("caddy")?;
                caddy.args(["run", "--adapter", "caddyfile", "--config", file]);
                caddy.env("XDG_DATA_HOME", folder);
                caddy.env("XDG_CONFIG_HOME", folder);
                caddy
            }
            Self::Traefik => {
                let mut traefik = program("traefik")?;
                traefik.arg(format!("--configfile={file}"));
                traefik
            }
            Self::HaProxy => {
                let mut haproxy = program("haproxy")?;
                haproxy.args(["-db", "-f", file]);
                haproxy
            }
            Self::EnvoyExtAuthz | Self::EnvoyFilter => {
                let mut envoy = program("envoy")?;
                envoy.args(["--config-path", file, "--disable-hot-restart"]);
                envoy.args(["--log-level", "warning", "--concurrency", "2"]);
                envoy
            }
        })
    }
}

/// The folder of the configuration of plain Envoy with the filter in this form.
#[must_use]
pub const fn plain_envoy(form: Form) -> &'static str {
    match form {
        Form::Wasm => "examples/envoy",
        Form::Native => "examples/envoy-native-module",
    }
}

/// What this configuration mounts.
#[must_use]
pub const fn mounted(form: Form) -> &'static str {
    match form {
        Form::Wasm => "../../target/wasm32-wasip1/release/filter.wasm",
        Form::Native => "../../target/release/libtoken_filter.so",
    }
}

/// Addresses that a gateway needs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Neighbours<'a> {
    /// Port of token-guard.
    pub guard: u16,
    /// Port of the resource server.
    pub resource_server: u16,
    /// Ports of the token service, which the filter needs: public and internal.
    pub token_service: (u16, u16),
    /// Configuration of the filter.
    pub plugin: &'a str,
}

impl Neighbours<'_> {
    /// What a gateway without the filter needs: token-guard and the resource server.
    #[must_use]
    pub fn of_guard(guard: u16, resource_server: u16) -> Self {
        Self {
            guard,
            resource_server,
            ..Self::default()
        }
    }
}

#[derive(Debug)]
pub struct Gateway {
    port: u16,
    process: Process,
    _folder: TempDir,
}

impl Gateway {
    /// Starts a gateway and waits until it listens. `changes` are replacements in its configuration: text, new text.
    ///
    /// # Errors
    /// If the gateway is not installed, or does not start; with its log.
    pub fn start(
        kind: Kind,
        neighbours: &Neighbours<'_>,
        changes: &[(&str, &str)],
    ) -> Result<Self> {
        Self::start_with(kind, neighbours, changes, None)
    }

    /// Starts a gateway with the lines for TLS and client certificates, and with these replacements. `identity` is its
    /// certificate and its key, in PEM.
    ///
    /// # Errors
    /// Like [`start`](Self::start).
    pub fn start_with_tls(
        kind: Kind,
        neighbours: &Neighbours<'_>,
        changes: &[(&str, &str)],
        identity: &Identity,
    ) -> Result<Self> {
        Self::start_with(kind, neighbours, changes, Some(identity))
    }

    fn start_with(
        kind: Kind,
        neighbours: &Neighbours<'_>,
        changes: &[(&str, &str)],
        identity: Option<&Identity>,
    ) -> Result<Self> {
        let artifacts = Artifacts::find()?;
        let folder = TempDir::new()?;
        let port = free_port()?;
        let ports = [
            ("8080", port),
            ("8070", port),
            ("9090", neighbours.guard),
            ("8000", neighbours.resource_server),
            ("9080", neighbours.token_service.0),
            ("9081", neighbours.token_service.1),
            ("9901", free_port()?),
            ("9911", free_port()?),
        ];
        let edited = |mut text: String| {
            if kind == Kind::EnvoyFilter {
                text = with_plugin(&text, &artifacts, neighbours)?;
            }
            if identity.is_some() {
                text = with_tls(&text)?;
            }
            Ok(text)
        };
        let files = kind.files(artifacts.form);
        copy(files, folder.path(), edited, changes, &ports)?;
        if let Some(identity) = identity {
            identity.write_to(folder.path())?;
        }
        let command = kind.command(&artifacts, folder.path(), files.1[0])?;
        let log = folder.path().join("gateway.log");
        let mut process = Process::start(kind.name(), &command, &log)?;
        let url = format!("http://127.0.0.1:{port}/api/");
        let status = || match identity {
            Some(identity) => {
                let request = "GET /api/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
                let answer = tls::send(port, identity, None, request).ok().flatten();
                // Traefik has another certificate until it has read its files.
                Some(answer.map_or(404, |answer| answer.status))
            }
            None => status_of(&url),
        };
        process.until("listening", || {
            // Traefik listens before it has routes.
            listens(port) && (kind != Kind::Traefik || status() != Some(404))
        })?;
        Ok(Self {
            port,
            process,
            _folder: folder,
        })
    }

    /// Port of the gateway.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the program writes.
    #[must_use]
    pub const fn log(&self) -> &Log {
        self.process.log()
    }
}

/// The configuration with its lines for TLS and client certificates: a block of lines that begin with `#tls` replaces the line
/// above it. Envoy's lines are in a file.
///
/// # Errors
/// If that file cannot be read.
pub fn with_tls(text: &str) -> Result<String> {
    let chain = "          filters:\n";
    if text.contains(chain) {
        let file = Artifacts::find()?.repository;
        let lines = fs::read_to_string(file.join("examples/envoy/client-certificates.yaml"))?;
        return Ok(text.replace(chain, &(lines + chain)));
    }
    let mut lines: Vec<&str> = Vec::new();
    let mut is_within = false;
    for line in text.lines() {
        match line.strip_prefix("#tls ") {
            Some(line) => {
                if !is_within {
                    lines.pop();
                }
                lines.push(line);
                is_within = true;
            }
            None => {
                lines.push(line);
                is_within = false;
            }
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// Copies these files of a folder of the repository to `folder`: edited, with these replacements, and with other ports. Each file
/// marks the places that readers must change.
pub(crate) fn copy(
    (source, files): (&str, &[&str]),
    folder: &Path,
    edited: impl Fn(String) -> Result<String>,
    changes: &[(&str, &str)],
    ports: &[(&str, u16)],
) -> Result<()> {
    let source = Artifacts::find()?.repository.join(source);
    let mut unused: Vec<&str> = changes.iter().map(|(from, _)| *from).collect();
    for file in files {
        let mut text = edited(fs::read_to_string(source.join(file))?)?;
        for (from, to) in changes {
            if text.contains(from) {
                text = text.replace(from, to);
                unused.retain(|other| other != from);
            }
        }
        let target = folder.join(file);
        fs::create_dir_all(target.parent().unwrap_or(folder))?;
        fs::write(target, moved(&text, ports))?;
    }
    ensure!(
        unused.is_empty(),
        "no file of {source:?} contains {unused:?}"
    );
    Ok(())
}

/// The text with other ports in place of the numbers.
#[must_use]
pub fn moved(text: &str, ports: &[(&str, u16)]) -> String {
    let mut moved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
        let (before, digits) = rest.split_at(start);
        let end = digits.find(|character: char| !character.is_ascii_digit());
        let (number, after) = digits.split_at(end.unwrap_or(digits.len()));
        moved.push_str(before);
        match ports.iter().find(|(own, _)| *own == number) {
            Some((_, port)) => moved.push_str(&port.to_string()),
            None => moved.push_str(number),
        }
        rest = after;
    }
    moved + rest
}

/// The configuration of plain Envoy with this plugin configuration and the built filter.
fn with_plugin(text: &str, artifacts: &Artifacts, neighbours: &Neighbours<'_>) -> Result<String> {
    let (before, rest) = text.split_once("value: |").context("no plugin")?;
    let end = rest
        .find("                  - name: envoy.filters.http.router")
        .context("no router behind the plugin")?;
    let (_, after) = rest.split_at(end);
    ensure!(!neighbours.plugin.contains('\''), "YAML would need escapes");
    let plugin: serde_json::Value = serde_json::from_str(neighbours.plugin)?;
    let filter = artifacts.filter.display().to_string();
    let before = before.replace(mounted(artifacts.form), &filter);
    Ok(format!("{before}value: '{plugin}'\n{after}"))
}

#[derive(Debug)]
pub struct TokenGuard {
    port: u16,
    internal: u16,
    process: Process,
    _folder: TempDir,
}

impl TokenGuard {
    /// Starts token-guard with this configuration and waits until it listens. `clusters` are pairs of name and port on
    /// this machine.
    ///
    /// # Errors
    /// If token-guard does not start; with its log.
    pub fn start(
        configuration: &str,
        clusters: &[(&str, u16)],
        arguments: &[&str],
    ) -> Result<Self> {
        let folder = TempDir::new()?;
        let config = folder.path().join("token-guard.json");
        fs::write(&config, configuration)?;
        let (port, internal) = (free_port()?, free_port()?);
        let mut command = Command::new(Artifacts::find()?.token_guard());
        command
            .arg("--config")
            .arg(&config)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(["--internal-listen", &format!("127.0.0.1:{internal}")])
            .args(arguments);
        if !arguments.contains(&"--drain-for") {
            command.args(["--drain-for", "0s"]);
        }
        for (name, port) in clusters {
            command.args(["--cluster", &format!("{name}=http://127.0.0.1:{port}")]);
        }
        let log = folder.path().join("token-guard.log");
        let mut process = Process::start("token-guard", &command, &log)?;
        let healthz = format!("http://127.0.0.1:{internal}/healthz");
        process.until("listening", || status_of(&healthz) == Some(200))?;
        Ok(Self {
            port,
            internal,
            process,
            _folder: folder,
        })
    }

    /// Like [`Self::start`], and waits until token-guard knows keys and revocations.
    ///
    /// # Errors
    /// If token-guard does not start, or does not become ready.
    pub fn ready(
        configuration: &str,
        clusters: &[(&str, u16)],
        arguments: &[&str],
    ) -> Result<Self> {
        let mut guard = Self::start(configuration, clusters, arguments)?;
        guard.until_ready()?;
        Ok(guard)
    }

    /// Waits until token-guard knows keys and revocations.
    ///
    /// # Errors
    /// If token-guard does not become ready.
    pub fn until_ready(&mut self) -> Result<()> {
        let readyz = format!("http://127.0.0.1:{}/readyz", self.internal);
        self.process
            .until("ready", || status_of(&readyz) == Some(200))
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn until_ended(&mut self) -> Result<()> {
        while self.process.is_running()? {
            pace();
        }
        Ok(())
    }

    /// Port that gateways ask.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Address of health and metrics, without a trailing slash.
    #[must_use]
    pub fn internal_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.internal)
    }

    /// The process id.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// What the program writes.
    #[must_use]
    pub const fn log(&self) -> &Log {
        self.process.log()
    }

    /// Stops token-guard, and returns everything that it wrote.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn end(self) -> Result<String> {
        self.process.end()
    }
}
