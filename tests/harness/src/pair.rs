//! The token service and Envoy, started together.

use std::env;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::artifacts::{Artifacts, Form};
use crate::browsing::agent;
use crate::envoy;
use crate::log::Log;
use crate::ports::Ports;
use crate::process::{PATIENCE, Process, pace};

/// Parts and settings of a pair.
#[derive(Debug, Clone)]
pub struct Setup {
    pub ports: Ports,
    /// The program of another build of the token service; `None` for this one.
    pub token_service: Option<PathBuf>,
    /// The token service's configuration file; `None` for its development defaults. `ports` replace its addresses.
    pub config: Option<PathBuf>,
    /// Environment variables that replace keys of the configuration, as `(TOKEN_SERVICE__..., value)`.
    pub environment: Vec<(String, String)>,
    /// Configuration file and environment variables of the early-access token service; `None` to start none.
    pub early_access: Option<(PathBuf, Vec<(String, String)>)>,
    /// True to start a second token service with the same configuration. The store must be PostgreSQL.
    pub replica: bool,
    /// True to keep the sockets of the token service open while it does not run, as systemd does for a socket unit.
    pub holds_sockets: bool,
    /// A module of WebAssembly to load in place of the filter.
    pub filter: Option<PathBuf>,
    /// Replacements in `envoy.yaml`: text, new text.
    pub gateway: Vec<(String, String)>,
    /// A folder of `demo/make-tls`; `None` for a gateway without TLS.
    pub tls: Option<PathBuf>,
    /// Address of the revocation feed; `None` for the token service's internal listener.
    pub feed: Option<u16>,
    /// Worker threads of Envoy.
    pub workers: u16,
    /// Working directory of the token service. Relative paths of the configuration start here.
    pub directory: PathBuf,
}

impl Setup {
    /// The demo's configuration, with these environment variables.
    #[must_use]
    pub fn of_demo(ports: Ports, repository: PathBuf, environment: Vec<(String, String)>) -> Self {
        Self {
            ports,
            token_service: None,
            config: Some(repository.join("demo/config.toml")),
            environment,
            early_access: None,
            replica: false,
            holds_sockets: false,
            filter: None,
            gateway: Vec::new(),
            tls: None,
            feed: None,
            workers: 1,
            directory: repository,
        }
    }
}

/// True if the environment asks for a pair with TLS (`TLS=1`).
#[must_use]
pub fn has_tls() -> bool {
    env::var("TLS").is_ok_and(|tls| !matches!(&*tls, "" | "0"))
}

/// The demo's registrations, with absolute paths: for a copy in another folder.
///
/// # Errors
/// If the file cannot be read.
pub fn demo_registrations(repository: &Path) -> std::io::Result<String> {
    let demo = repository.join("demo");
    let text = std::fs::read_to_string(demo.join("registrations.toml"))?;
    Ok(text.replace("file = \"", &format!("file = \"{}/", demo.display())))
}

/// Environment variables of a token service whose state is in `folder`, with a redb file as its store.
#[must_use]
pub fn state_in(folder: &Path) -> Vec<(String, String)> {
    let at = |name: &str| folder.join(name).display().to_string();
    let variables = [
        ("STORE__URL", format!("redb:{}", at("token-service.redb"))),
        ("ENCRYPTION_KEY_FILE", at("encryption-key")),
        ("ADMIN_TOKEN_FILE", at("admin-token")),
    ];
    variables.map(setting).into()
}

/// An environment variable for this key of the token service's configuration.
#[must_use]
pub fn setting<T: Into<String>>((key, value): (&str, T)) -> (String, String) {
    (format!("TOKEN_SERVICE__{key}"), value.into())
}

/// A running pair. Dropping it stops both programs.
#[derive(Debug)]
pub struct Pair {
    setup: Setup,
    artifacts: Artifacts,
    sockets: Vec<TcpListener>,
    token_service: Option<Process>,
    replica: Option<Process>,
    early_access: Option<Process>,
    envoy: Option<Process>,
    logs: TempDir,
    output_unread: bool,
}

impl Pair {
    /// Starts both programs and waits until they answer.
    ///
    /// # Errors
    /// If a port is taken, or a program is not built, does not start or does not become healthy; with its log.
    pub fn start(setup: Setup) -> Result<Self> {
        let mut artifacts = Artifacts::find()?;
        setup.ports.check_free(setup.early_access.is_some())?;
        let mut logs = tempfile::Builder::new()
            .prefix("pair-")
            .tempdir_in(artifacts.scratch()?)?;
        if let Some(token_service) = &setup.token_service {
            artifacts.token_service.clone_from(token_service);
        }
        if let Some(filter) = &setup.filter {
            artifacts.form = Form::Wasm;
            artifacts.filter.clone_from(filter);
        }
        // Kept until both run, so that the message about a failed start can name the logs.
        logs.disable_cleanup(true);
        let envoy = envoy::start(&artifacts, &setup, logs.path())?;
        let Ports {
            public, internal, ..
        } = setup.ports;
        let held = [public, internal].into_iter();
        let sockets = held
            .filter(|_| setup.holds_sockets)
            .map(|port| TcpListener::bind(("127.0.0.1", port)))
            .collect::<Result<_, _>>()?;
        let mut pair = Self {
            setup,
            artifacts,
            sockets,
            token_service: None,
            replica: None,
            early_access: None,
            envoy: Some(envoy),
            logs,
            output_unread: false,
        };
        pair.start_token_service()?;
        if pair.setup.replica {
            pair.start_replica()?;
        }
        pair.start_early_access()?;
        pair.wait_for_envoy()?;
        while pair.gateway_avoids_a_service()? {
            pace();
        }
        pair.logs.disable_cleanup(false);
        Ok(pair)
    }

    /// Starts a pair with the demo's configuration on free ports. The state is in the folder `state`. `gateway` is
    /// [`Setup::gateway`].
    ///
    /// # Errors
    /// As [`Pair::start`].
    pub fn of_demo(state: &Path, gateway: &[(&str, &str)]) -> Result<Self> {
        let repository = Artifacts::find()?.repository;
        let gateway = gateway
            .iter()
            .map(|(text, instead)| ((*text).to_owned(), (*instead).to_owned()));
        Self::start(Setup {
            gateway: gateway.collect(),
            ..Setup::of_demo(Ports::free()?, repository, state_in(state))
        })
    }

    /// Starts the token service again, on the same data, and waits until it is ready.
    ///
    /// # Errors
    /// If the token service does not become ready; with its log.
    pub fn start_token_service(&mut self) -> Result<()> {
        let ports = self.setup.ports;
        let config = self.setup.config.as_deref();
        let lobby = self.lobby_url();
        let environment = &self.setup.environment;
        let process = self.start_service(
            "token-service",
            config,
            &lobby,
            [ports.public, ports.internal],
            environment,
            &self.sockets,
        )?;
        self.token_service = Some(process);
        Ok(())
    }

    /// Starts the second token service and waits until it is ready.
    ///
    /// # Errors
    /// If the token service does not become ready; with its log.
    pub fn start_replica(&mut self) -> Result<()> {
        let ports = self.setup.ports;
        let process = self.start_service(
            "replica",
            self.setup.config.as_deref(),
            &self.lobby_url(),
            [ports.public_replica, ports.internal_replica],
            &self.setup.environment,
            &[],
        )?;
        self.replica = Some(process);
        Ok(())
    }

    /// Ends the second token service as a crash would (SIGKILL).
    ///
    /// # Errors
    /// If the token service does not run.
    pub fn kill_replica(&mut self) -> Result<()> {
        let replica = self.replica.take();
        replica.context("the replica does not run")?.kill()
    }

    /// The second token service's process id, while it runs.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn replica_pid(&self) -> Result<u32> {
        let replica = self.replica.as_ref();
        replica.context("the replica does not run")?.pid()
    }

    /// Stops the second token service with SIGTERM and waits for its end.
    pub fn stop_replica(&mut self) {
        self.replica = None;
    }

    fn start_early_access(&mut self) -> Result<()> {
        if let Some((config, environment)) = &self.setup.early_access {
            let ports = self.setup.ports;
            let lobby = self.lobby_ea_url();
            let process = self.start_service(
                "early-access",
                Some(config),
                &lobby,
                [ports.public_ea, ports.internal_ea],
                environment,
                &[],
            )?;
            self.early_access = Some(process);
        }
        Ok(())
    }

    fn start_service(
        &self,
        name: &'static str,
        config: Option<&Path>,
        issuer: &str,
        [public, internal]: [u16; 2],
        environment: &[(String, String)],
        sockets: &[TcpListener],
    ) -> Result<Process> {
        let mut command = Command::new(&self.artifacts.token_service);
        command.arg("serve");
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        command
            .env("TOKEN_SERVICE__ISSUER", issuer)
            .env("TOKEN_SERVICE__API_AUDIENCE", self.api_url())
            .env("TOKEN_SERVICE__LISTEN", format!("127.0.0.1:{public}"))
            .env(
                "TOKEN_SERVICE__INTERNAL_LISTEN",
                format!("127.0.0.1:{internal}"),
            )
            .envs(environment.iter().map(|(key, value)| (key, value)))
            .current_dir(&self.setup.directory);
        let log = self.logs.path().join(format!("{name}.log"));
        let mut process = match self.output_unread {
            true => Process::start_unread(name, &command, &log)?,
            false => Process::start_with(name, &command, &log, sockets)?,
        };
        let readyz = format!("http://127.0.0.1:{internal}/readyz");
        process.until("ready", || status_of(&readyz) == Some(200))?;
        Ok(process)
    }

    /// Changes a key of the token service's configuration for its next start.
    pub fn set_environment(&mut self, key: &str, value: &str) {
        let environment = &mut self.setup.environment;
        environment.retain(|(name, _)| name != key);
        environment.push((key.to_owned(), value.to_owned()));
    }

    /// Sets the program and the configuration file for the next start of a token service.
    pub fn set_version(&mut self, token_service: &Path, config: &Path) {
        self.artifacts.token_service = token_service.to_owned();
        self.setup.config = Some(config.to_owned());
    }

    /// From the next start on, nobody reads the output of the token service.
    pub const fn leave_output_unread(&mut self) {
        self.output_unread = true;
    }

    /// Stops the token service with SIGTERM and waits for its end.
    pub fn stop_token_service(&mut self) {
        self.token_service = None;
    }

    /// The token service's process id, while it runs.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn token_service_pid(&self) -> Result<u32> {
        self.token_service
            .as_ref()
            .context("the token service does not run")?
            .pid()
    }

    /// Envoy's process id.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn envoy_pid(&self) -> Result<u32> {
        self.envoy.as_ref().context("Envoy does not run")?.pid()
    }

    /// Ends the token service as a crash would (SIGKILL).
    ///
    /// # Errors
    /// If the token service does not run.
    pub fn kill_token_service(&mut self) -> Result<()> {
        self.token_service
            .take()
            .context("the token service does not run")?
            .kill()
    }

    /// Restarts Envoy and waits until the filter guards the api. The token service need not run.
    ///
    /// # Errors
    /// If Envoy does not start; with its log.
    pub fn restart_envoy(&mut self) -> Result<()> {
        self.envoy = None;
        self.envoy = Some(envoy::start(
            &self.artifacts,
            &self.setup,
            self.logs.path(),
        )?);
        self.wait_for_guard()
    }

    /// Waits until the listeners route, and until the filter refuses a missing token.
    fn wait_for_envoy(&mut self) -> Result<()> {
        let keys = format!("{}/auth/jwks", self.lobby_url());
        let serves = status_is(&keys, &[200], self.setup.tls.as_deref());
        self.envoy()?.until("serving the lobby", serves)?;
        self.wait_for_guard()
    }

    /// In report-only mode the request passes.
    fn wait_for_guard(&mut self) -> Result<()> {
        let api = format!("{}/api/projects", self.api_url());
        let guards = status_is(&api, &[200, 401], self.setup.tls.as_deref());
        self.envoy()?.until("guarding the api", guards)
    }

    fn envoy(&mut self) -> Result<&mut Process> {
        self.envoy.as_mut().context("Envoy does not run")
    }

    /// True if the token service was started and runs no more.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn token_service_has_ended(&mut self) -> Result<bool> {
        let process = self.token_service.as_mut();
        process.map_or(Ok(false), |process| Ok(!process.is_running()?))
    }

    /// True if both programs run.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn is_running(&mut self) -> Result<bool> {
        let token_service = match &mut self.token_service {
            Some(process) => process.is_running()?,
            None => false,
        };
        let early_access = match &mut self.early_access {
            Some(process) => process.is_running()?,
            None => true,
        };
        Ok(token_service && early_access && self.envoy()?.is_running()?)
    }

    fn public_url(&self, port: u16) -> String {
        public_url(self.setup.tls.as_deref(), port)
    }

    /// {lobby_url}, without a trailing slash.
    #[must_use]
    pub fn lobby_url(&self) -> String {
        self.public_url(self.setup.ports.lobby)
    }

    /// {lobby_ea_url}, without a trailing slash.
    #[must_use]
    pub fn lobby_ea_url(&self) -> String {
        self.public_url(self.setup.ports.lobby_ea)
    }

    /// Address of the hosts of the legacy flow, without a trailing slash.
    #[must_use]
    pub fn legacy_url(&self) -> String {
        self.public_url(self.setup.ports.legacy)
    }

    /// {api_url}, without a trailing slash.
    #[must_use]
    pub fn api_url(&self) -> String {
        self.public_url(self.setup.ports.api)
    }

    /// The token service's internal address, without a trailing slash.
    #[must_use]
    pub fn internal_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.setup.ports.internal)
    }

    #[must_use]
    pub fn ports(&self) -> Ports {
        self.setup.ports
    }

    /// True if the gateway sends no requests to some token service, because that service does not answer or is not ready.
    ///
    /// # Errors
    /// If Envoy's admin interface does not answer.
    pub fn gateway_avoids_a_service(&self) -> Result<bool> {
        let admin = self.setup.ports.envoy_admin;
        let url = format!("http://127.0.0.1:{admin}/clusters");
        let clusters = agent(PATIENCE).get(url).call()?;
        let clusters = clusters.into_body().read_to_string()?;
        // `failed_active_hc`: the health check; `failed_outlier_check`: requests that were not answered.
        Ok(clusters.contains("health_flags::/failed_"))
    }

    /// Paths of the running programs.
    #[must_use]
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// What the programs write.
    #[must_use]
    pub fn log(&self) -> Log {
        let names = ["token-service", "replica", "early-access", "envoy"];
        Log::of(names.map(|name| self.logs.path().join(format!("{name}.log"))))
    }

    /// Stops the programs, and returns everything that they wrote.
    #[must_use]
    pub fn end(mut self) -> String {
        // Each of them waits for the end of its program.
        self.token_service = None;
        self.replica = None;
        self.early_access = None;
        self.envoy = None;
        self.log().text()
    }

    /// Directory with the logs and Envoy's configuration.
    #[must_use]
    pub fn log_directory(&self) -> &Path {
        self.logs.path()
    }
}

/// The address of a public listener of the gateway. `tls` is [`Setup::tls`].
pub(crate) fn public_url(tls: Option<&Path>, port: u16) -> String {
    let scheme = if tls.is_some() { "https" } else { "http" };
    format!("{scheme}://127.0.0.1:{port}")
}

/// Asks for this address; true if the status is one of these. `tls` is [`Setup::tls`], whose CA signs the certificate of the server.
fn status_is(url: &str, statuses: &[u16], tls: Option<&Path>) -> impl FnMut() -> bool + use<> {
    let (url, statuses) = (url.to_owned(), statuses.to_owned());
    let ca = tls.map(|folder| folder.join("ca.pem"));
    move || {
        let status = match &ca {
            None => status_of(&url),
            Some(ca) => status_by_curl(&url, ca),
        };
        status.is_some_and(|status| statuses.contains(&status))
    }
}

/// The status of a GET with TLS. The clients of the harness speak no TLS.
fn status_by_curl(url: &str, ca: &Path) -> Option<u16> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "5", "--write-out", "%{http_code}"]);
    curl.args(["--output", "/dev/null", "--cacert"])
        .arg(ca)
        .arg(url);
    String::from_utf8(curl.output().ok()?.stdout)
        .ok()?
        .parse()
        .ok()
}

/// The status of a GET; `None` without a response.
pub fn status_of(url: &str) -> Option<u16> {
    let response = agent(Duration::from_secs(5)).get(url).call().ok()?;
    Some(response.status().as_u16())
}
