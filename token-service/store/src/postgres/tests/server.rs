//! A real PostgreSQL server and its databases.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_postgres::NoTls;

use super::{PostgresSettings, PostgresUrl};

/// A server. The script stops it when the script's input is closed.
pub(super) struct Server {
    script: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(super) folder: PathBuf,
}

impl Server {
    /// Starts a server with the arguments of the script.
    pub(super) fn start(arguments: &[&str]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|folder| folder.join("tests/tools/postgres.sh"))
            .find(|script| script.exists());
        let mut script = Command::new(script.unwrap())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = script.stdin.take();
        let mut output = BufReader::new(script.stdout.take().unwrap());
        let folder = line(&mut output);
        assert!(!folder.is_empty(), "the server did not start");
        Self {
            script,
            input,
            output,
            folder: folder.into(),
        }
    }

    /// Sends a command to the script.
    pub(super) fn command(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
        assert_eq!(line(&mut self.output), command);
    }

    /// The URL of a database on this server.
    pub(super) fn url(&self, database: &str) -> String {
        format!(
            "postgres://postgres@/{database}?host={}",
            self.folder.display()
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        self.script.wait().unwrap();
    }
}

fn line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// The URL of a new, empty database on a server that all tests of this process share.
pub(super) async fn fresh_database() -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let server = SERVER.get_or_init(|| Server::start(&[]));
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    client
        .batch_execute(&format!("CREATE DATABASE {name}"))
        .await
        .unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    server.url(&name)
}

/// Settings for a database without TLS.
pub(super) fn settings(url: &str) -> PostgresSettings {
    PostgresSettings {
        url: PostgresUrl::parse(url).unwrap(),
        ca_file: None,
    }
}
