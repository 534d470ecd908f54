//! Opens connections to the servers of the URL.
//!
//! The driver tries the servers one after the other, and limits only the time of the TCP connection: a server that
//! accepts a connection and never answers would keep it from all others. Here each server has a time limit that includes
//! TLS, authentication and the first answer, and a server that is slow does not keep the next one waiting.

use std::sync::atomic::{AtomicUsize, Ordering};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::LoadBalanceHosts;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::cause::described;
use super::limits::{CONNECT, HEAD_START};
use super::outage::Outage;

/// Session settings: time limits, and when the database confirms a commit. The second time limit bounds how long a
/// crashed replica can block rows that it locked. The third setting keeps confirmed commits safe from a crash of the
/// server, even if the database, the role or the URL turns `synchronous_commit` off. Other values, which decide about
/// waiting for standby servers, stay unchanged. The fourth setting keeps a plan that was made for an empty table from reading a
/// large one from its start to its end. The fifth setting keeps PostgreSQL from compiling short statements to machine code, which
/// takes it half a second each time: it does so for a high estimated cost, such as that of a table that it must read whole against
/// the fourth setting.
const SESSION: &str = "
    SET statement_timeout = '10s';
    SET idle_in_transaction_session_timeout = '5s';
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit', true) = 'off';
    SELECT set_config('enable_seqscan', 'off', false)
        WHERE current_setting('enable_seqscan', true) IS NOT NULL;
    SELECT set_config('jit', 'off', false)
        WHERE current_setting('jit', true) IS NOT NULL;
";

/// One server of the URL.
pub(super) struct Server {
    /// Host and port.
    pub(super) name: String,
    /// The parameters of the URL with only this server.
    pub(super) config: Config,
}

/// No server of the URL accepted a connection.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoServer(String);

/// The servers of the URL, in its order.
pub(super) struct Servers {
    servers: Vec<Server>,
    tls: MakeRustlsConnect,
    /// Index of the server to try first: the one that accepted the last connection. After a failover, the former primary
    /// may accept connections for a moment; the service stays at the new primary.
    first: AtomicUsize,
    pub(super) outage: Outage,
}

impl Servers {
    pub(super) fn new(servers: Vec<Server>, tls: MakeRustlsConnect) -> Self {
        Self {
            servers,
            tls,
            first: AtomicUsize::default(),
            outage: Outage::default(),
        }
    }

    /// Connects to the server with this index, and begins a session.
    async fn connect(&self, index: usize) -> Result<(usize, ClientWrapper), String> {
        let Some(server) = self.servers.get(index) else {
            return Err("there is no server".to_owned());
        };
        let session = async {
            let (client, connection) = server.config.connect(self.tls.clone()).await?;
            let connection = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(
                        error = described(&error),
                        "a connection to the database ended"
                    );
                }
            });
            // Ends the connection when it is dropped.
            let client = ClientWrapper::new(client, connection);
            client.batch_execute(SESSION).await?;
            Ok(client)
        };
        let problem = match timeout(CONNECT, session).await {
            Ok(Ok(client)) => return Ok((index, client)),
            Ok(Err(error)) => described(&error),
            Err(_) => format!("no answer within {} s", CONNECT.as_secs()),
        };
        Err(match self.servers.len() {
            1 => problem,
            _ => format!("{}: {problem}", server.name),
        })
    }

    /// True if connections begin with each server in turn (`load_balance_hosts=random`).
    fn spreads(&self) -> bool {
        self.servers.first().is_some_and(|server| {
            server.config.get_load_balance_hosts() == LoadBalanceHosts::Random
        })
    }
}

impl Manager for Servers {
    type Type = ClientWrapper;
    type Error = NoServer;

    /// Takes at most [`CONNECT`], and [`HEAD_START`] for each further server.
    async fn create(&self) -> Result<ClientWrapper, NoServer> {
        let (spreads, count) = (self.spreads(), self.servers.len());
        let first = self
            .first
            .fetch_add(usize::from(spreads), Ordering::Relaxed);
        let mut next = (0..count).map(|step| (first % count + step) % count);
        let mut tried = FuturesUnordered::new();
        let mut problems = Vec::new();
        loop {
            tried.extend(next.next().map(|index| self.connect(index)));
            let outcome = match next.len() {
                0 => tried.next().await,
                _ => match timeout(HEAD_START, tried.next()).await {
                    Ok(outcome) => outcome,
                    Err(_) => continue,
                },
            };
            match outcome {
                Some(Ok((index, client))) => {
                    if !spreads {
                        self.first.store(index, Ordering::Relaxed);
                    }
                    return Ok(client);
                }
                Some(Err(problem)) => problems.push(problem),
                None => return Err(NoServer(problems.join("; "))),
            }
        }
    }

    async fn recycle(&self, client: &mut ClientWrapper, _: &Metrics) -> RecycleResult<NoServer> {
        match client.is_closed() {
            true => Err(RecycleError::message("the connection is closed")),
            false => Ok(()),
        }
    }
}
