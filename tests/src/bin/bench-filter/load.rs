//! The client: a few persistent connections.

use anyhow::{Context as _, Result, bail, ensure};
use tests::wire::Connection;

/// Number of concurrent requests.
pub(crate) const CONNECTIONS: usize = 4;

/// A request with these headers, which end with a line end.
pub(crate) fn request(headers: &str) -> String {
    format!(
        "GET /api/projects HTTP/1.1\r\nhost: api.example.com\r\naccept: application/json\r\n\
         user-agent: bench\r\n{headers}\r\n"
    )
}

/// The requests with these tokens.
pub(crate) fn with_tokens(tokens: &[String]) -> Vec<String> {
    let headers = tokens
        .iter()
        .map(|token| format!("authorization: Bearer {token}\r\n"));
    headers.map(|headers| request(&headers)).collect()
}

/// Sends the requests in turn to one listener.
pub(crate) struct Client {
    connections: Vec<Connection>,
    requests: Vec<String>,
    next: usize,
}

impl Client {
    /// `requests`: of [`request`].
    pub(crate) fn connect(port: u16, requests: Vec<String>) -> Result<Self> {
        let connections: Result<_, _> = (0..CONNECTIONS).map(|_| Connection::open(port)).collect();
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
                    bail!("there is no request");
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
