//! The client: a few persistent connections, on each of which a request is sent before the first response is read.

use std::net::{Ipv4Addr, SocketAddr};

use crate::http::{Connection, assert_ok};

/// Number of concurrent requests.
pub(crate) const CONNECTIONS: usize = 4;

/// A request with these headers, which end with a line end.
pub(crate) fn request(headers: &str) -> Vec<u8> {
    let request = format!(
        "GET /api/projects HTTP/1.1\r\nhost: api.example.com\r\naccept: application/json\r\n\
         user-agent: bench\r\n{headers}\r\n"
    );
    request.into_bytes()
}

/// The requests with these tokens.
pub(crate) fn with_tokens(tokens: &[String]) -> Vec<Vec<u8>> {
    let headers = tokens
        .iter()
        .map(|token| format!("authorization: Bearer {token}\r\n"));
    headers.map(|headers| request(&headers)).collect()
}

/// Sends the requests in turn to one listener.
pub(crate) struct Client {
    connections: Vec<Connection>,
    requests: Vec<Vec<u8>>,
    next: usize,
}

impl Client {
    /// `requests`: of [`request`].
    pub(crate) async fn connect(port: u16, requests: Vec<Vec<u8>>) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::open(address).await);
        }
        let next = 0;
        Self {
            connections,
            requests,
            next,
        }
    }

    /// Sends at least this number of requests, and waits for the responses.
    pub(crate) async fn send(&mut self, count: usize) {
        for _ in 0..count.div_ceil(CONNECTIONS) {
            for connection in &mut self.connections {
                connection.send(&self.requests[self.next]).await;
                self.next = (self.next + 1) % self.requests.len();
            }
            for connection in &mut self.connections {
                assert_ok(&connection.receive().await);
            }
        }
    }
}
