//! The measured processes: the floor, the token service, PostgreSQL.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::{NamedTempFile, TempDir};
use tests::{free_port, listens};
use token_service::config::Config;

use crate::measure::cpu;
use crate::short;

pub(crate) const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Long enough for reading a million registrations.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Server {
    process: Child,
    complaints: NamedTempFile,
    pub(crate) address: SocketAddr,
    /// Address of the internal listener, if there is one.
    pub(crate) internal: SocketAddr,
    /// Milliseconds from the start of the process until it accepted connections.
    pub(crate) started_in: f64,
}

impl Server {
    pub(crate) fn start(command: &mut Command, port: u16) -> Self {
        let complaints = NamedTempFile::new().unwrap();
        let start = Instant::now();
        let process = command
            .stdin(Stdio::null())
            .stderr(complaints.reopen().unwrap())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Self {
            process,
            complaints,
            address,
            internal: address,
            started_in: 0.0,
        };
        server.until(|| listens(port).then_some(()));
        server.started_in = start.elapsed().as_secs_f64() * 1000.0;
        server
    }

    /// The first value that `look` returns while the process runs.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing is measured while this waits"
    )]
    pub(crate) fn until<T>(&mut self, look: impl Fn() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            let ended = self.process.try_wait().unwrap();
            let said = || std::fs::read_to_string(self.complaints.path()).unwrap();
            assert!(ended.is_none(), "it has ended: {}", said());
            assert!(start.elapsed() < PATIENCE, "it does not start");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the process gracefully.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing tells when a signal is awaited"
    )]
    pub(crate) fn stop(mut self) {
        std::thread::sleep(Duration::from_millis(300));
        let pid = self.pid().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The token service in the folder of this program.
pub(crate) fn measured_build() -> OsString {
    let program = std::env::current_exe().unwrap();
    program.with_file_name("token-service").into()
}

/// The demo, with its own state and its own store.
pub(crate) struct Demo {
    pub(crate) folder: TempDir,
    pub(crate) store: String,
    /// Algorithm of new signing keys.
    algorithm: &'static str,
    binary: OsString,
}

impl Demo {
    /// Uses a new redb file.
    pub(crate) fn on_redb() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            store: format!("redb:{}", folder.path().join("store.redb").display()),
            folder,
            algorithm: "EdDSA",
            binary: measured_build(),
        }
    }

    /// Uses a new database with this name, or a new redb file.
    pub(crate) fn on(postgres: Option<&Postgres>, database: &str) -> Self {
        match postgres {
            Some(postgres) => Self::on_redb().moved_to(postgres.database(database)),
            None => Self::on_redb(),
        }
    }

    /// Reaches the store by this URL.
    pub(crate) fn moved_to(self, url: String) -> Self {
        Self { store: url, ..self }
    }

    /// Uses another build of the service.
    pub(crate) fn served_by(self, binary: OsString) -> Self {
        Self { binary, ..self }
    }

    /// Signs with this algorithm.
    pub(crate) fn signing(self, algorithm: &'static str) -> Self {
        Self { algorithm, ..self }
    }

    /// The token of the administration. The first start creates it.
    pub(crate) fn admin_token(&self) -> String {
        let token = std::fs::read_to_string(self.folder.path().join("admin-token")).unwrap();
        token.trim().to_owned()
    }

    fn file() -> String {
        format!("{REPOSITORY}/demo/config.toml")
    }

    fn environment(&self, ports: [u16; 2]) -> Vec<(String, String)> {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let own = [
            ("STORE__URL", self.store.clone()),
            ("ENCRYPTION_KEY_FILE", at("encryption-key")),
            ("ADMIN_TOKEN_FILE", at("admin-token")),
            ("SIGNING__ALGORITHM", self.algorithm.to_owned()),
            ("LISTEN", format!("127.0.0.1:{}", ports[0])),
            ("INTERNAL_LISTEN", format!("127.0.0.1:{}", ports[1])),
            ("LIMITS__REVOCATIONS_PER_SECOND", "1000000".to_owned()),
        ];
        let own = own.into_iter();
        own.map(|(name, value)| (format!("TOKEN_SERVICE__{name}"), value))
            .collect()
    }

    /// The configuration of the service.
    pub(crate) fn config(&self) -> Config {
        let environment = self.environment([1, 2]).into_iter();
        let environment =
            environment.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Config::load(Some(Path::new(&Self::file())), environment).unwrap()
    }

    /// Milliseconds of some starts with the demo's registrations.
    pub(crate) fn starts(&self) -> Vec<f64> {
        let started = || {
            let server = self.serve();
            let time = server.started_in;
            server.stop();
            time
        };
        // The first start also writes the registrations, for which it hashes their passwords.
        started();
        (0..short::count(3)).map(|_| started()).collect()
    }

    pub(crate) fn serve(&self) -> Server {
        let ports = [free_port().unwrap(), free_port().unwrap()];
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--config", &Self::file()])
            .envs(self.environment(ports))
            .stdout(Stdio::null());
        let mut server = Server::start(&mut command, ports[0]);
        server.internal = SocketAddr::from(([127, 0, 0, 1], ports[1]));
        server
    }
}

/// A PostgreSQL server with durable commits, unlike the server of the tests.
pub(crate) struct Postgres(tests::Postgres);

impl Postgres {
    /// Starts a server; `None` if PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Self> {
        Some(Self(tests::Postgres::durable(Path::new(REPOSITORY)).ok()?))
    }

    /// The URL of a new database.
    pub(crate) fn database(&self, name: &str) -> String {
        self.0.sql(&format!("CREATE DATABASE {name}")).unwrap();
        self.0.url().replace("/postgres?", &format!("/{name}?"))
    }

    fn folder(&self) -> &Path {
        let (_, folder) = self.0.url().split_once("host=").unwrap();
        Path::new(folder)
    }

    /// The path of the server's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder().join(".s.PGSQL.5432")
    }

    /// CPU time of the server and of its connection processes, in nanoseconds.
    pub(crate) fn cpu(&self) -> u64 {
        let pid = std::fs::read_to_string(self.folder().join("data/postmaster.pid")).unwrap();
        let pid: u32 = pid.lines().next().unwrap().parse().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children.split(' ').filter_map(|child| child.parse().ok());
        cpu(pid) + children.map(cpu).sum::<u64>()
    }
}
