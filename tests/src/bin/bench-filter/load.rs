//! The client: a few persistent connections.

use anyhow::{Context as _, Result, bail, ensure};
use tests::wire::Connection;

/// Number of concurrent requests.
const CONNECTIONS: usize = 4;

/// Sends requests to one listener, with the tokens in turn.
pub(crate) struct Client {
    connections: Vec<Connection>,
    requests: Vec<String>,
    next: usize,
}

impl Client {
    pub(crate) fn connect(port: u16, tokens: &[String]) -> Result<Self> {
        let connections: Result<_, _> = (0..CONNECTIONS).map(|_| Connection::open(port)).collect();
        let requests = tokens
            .iter()
            .map(|token| {
                format!(
                    "GET /api/projects HTTP/1.1\r\nhost: api.example.com\r\naccept: application/json\r\n\
                     user-agent: bench\r\nauthorization: Bearer {token}\r\n\r\n"
                )
            })
            .collect();
        Ok(Self {
            connections: connections?,
            requests,
            next: 0,
        })
    }

    /// Sends at least this number of requests, and waits for the responses.
    pub(crate) fn send(&mut self, count: usize) -> Result<()> {
        for _ in 0..count.div_ceil(CONNECTIONS) {
            for connection in &mut self.connections {
                let Some(request) = self.requests.get(self.next) else {
                    bail!("there is no token");
                };
                connection.send(request)?;
                self.next = (self.next + 1) % self.requests.len();
            }
            for connection in &mut self.connections {
                let answer = connection.receive()?.context("the connection was closed")?;
                ensure!(answer.status == 200, "a good token was refused: {answer:?}");
            }
        }
        Ok(())
    }
}
