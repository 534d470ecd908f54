//! A real PostgreSQL server and its databases.

use std::io::{BufRead, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{BufReader, copy_buf};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;
use tokio_postgres::NoTls;

use super::{PostgresSettings, PostgresUrl};

/// A server. The script stops it when the script's input is closed.
pub(super) struct Server {
    script: Child,
    input: Option<ChildStdin>,
    output: std::io::BufReader<ChildStdout>,
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
        let mut output = std::io::BufReader::new(script.stdout.take().unwrap());
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

/// A proxy in front of a server. Answers that it holds are never forwarded, and nothing breaks a connection.
pub(super) struct Proxy {
    port: u16,
    holds: watch::Sender<bool>,
}

impl Proxy {
    /// Starts a proxy in front of the server that all tests share.
    pub(super) async fn start(url: &str) -> Self {
        let (_, folder) = url.split_once("host=").unwrap();
        let socket = Path::new(folder).join(".s.PGSQL.5432");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let holds = watch::Sender::new(false);
        let held = holds.subscribe();
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = UnixStream::connect(&socket).await.unwrap();
                let mut held = held.clone();
                tokio::spawn(async move {
                    let (from_client, mut to_client) = client.split();
                    let (from_server, mut to_server) = server.split();
                    let mut from_client = BufReader::new(from_client);
                    let mut from_server = BufReader::new(from_server);
                    let requests = copy_buf(&mut from_client, &mut to_server);
                    let answers = async {
                        tokio::select! {
                            biased;
                            () = async { drop(held.wait_for(|held| *held).await) } => true,
                            _ = copy_buf(&mut from_server, &mut to_client) => false,
                        }
                    };
                    let forwarded = async {
                        if answers.await {
                            std::future::pending::<()>().await;
                        }
                    };
                    tokio::select! {
                        _ = requests => {}
                        () = forwarded => {}
                    }
                });
            }
        });
        Self { port, holds }
    }

    /// From now on, holds the answers to all requests, or forwards the answers of new connections.
    pub(super) fn hold(&self, answers: bool) {
        self.holds.send_replace(answers);
    }

    /// The URL of the same database through the proxy.
    pub(super) fn url(&self, of_server: &str) -> String {
        let (before, _) = of_server.split_once("?host=").unwrap();
        let port = self.port;
        before.replace("@/", &format!("@127.0.0.1:{port}/"))
    }
}
