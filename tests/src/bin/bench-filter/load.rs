//! The client: a few persistent connections.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Result, bail, ensure};

/// Number of concurrent requests.
const CONNECTIONS: usize = 4;

/// Sends requests to one listener, with the tokens in turn.
pub(crate) struct Client {
    connections: Vec<TcpStream>,
    requests: Vec<Vec<u8>>,
    next: usize,
}

impl Client {
    pub(crate) fn connect(port: u16, tokens: &[String]) -> Result<Self> {
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let connection = TcpStream::connect(("127.0.0.1", port))?;
            connection.set_nodelay(true)?;
            connections.push(connection);
        }
        let requests = tokens
            .iter()
            .map(|token| {
                format!(
                    "GET /api/projects HTTP/1.1\r\nhost: api.example.com\r\naccept: application/json\r\n\
                     user-agent: bench\r\nauthorization: Bearer {token}\r\n\r\n"
                )
                .into_bytes()
            })
            .collect();
        Ok(Self {
            connections,
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
                connection.write_all(request)?;
                self.next = (self.next + 1) % self.requests.len();
            }
            for connection in &mut self.connections {
                read_answer(connection)?;
            }
        }
        Ok(())
    }
}

/// An answer without a body.
fn read_answer(connection: &mut TcpStream) -> Result<()> {
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    while !answer.ends_with(b"\r\n\r\n") {
        let size = connection.read(&mut part)?;
        ensure!(size > 0, "the connection was closed");
        answer.extend(part.iter().take(size));
        ensure!(
            answer.starts_with(b"HTTP/1.1 200"),
            "a good token was refused: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    Ok(())
}
